// SIZE tasks, which ranks take from a counter of rank 0 and carry out; rank 0, too. A task takes 1 to 40 microseconds.
#include "app.h"

static uint64_t carry_out(long task) {
  uint64_t state = task;
  for (uint64_t i = 0, steps = 500 + mix(task) % 15000; i < steps; i++) state = mix(state);
  return state;
}

int main(int argc, char **argv) {
  long tasks = begin(&argc, &argv), one = 1, task, *counter;
  char *times = memory(tasks);
  uint64_t found = 0, right = 0;
  MPI_Win win = window(rank == 0 ? sizeof *counter : 0, sizeof *counter, &counter);
  MPI_Win_lock_all(0, win);

  begin_time();
  for (;;) {
    MPI_Fetch_and_op(&one, &task, MPI_LONG, 0, 0, MPI_SUM, win);
    MPI_Win_flush(0, win);
    if (task >= tasks) break;
    times[task]++;
    found ^= carry_out(task);
  }
  print("counter", end_time());

  MPI_Allreduce(MPI_IN_PLACE, times, tasks, MPI_CHAR, MPI_SUM, MPI_COMM_WORLD);
  for (task = 0; task < tasks; task++) check(times[task] == 1, "how often a task was carried out");
  for (task = rank; task < tasks; task += size) right ^= carry_out(task);
  found ^= right;
  MPI_Allreduce(MPI_IN_PLACE, &found, 1, MPI_UINT64_T, MPI_BXOR, MPI_COMM_WORLD);
  check(found == 0, "the tasks' results");
  MPI_Win_unlock_all(win);
  MPI_Win_free(&win);
  free(times);
  end();
}
