// MPI_Get_accumulate of 8 to 65,536 chars by MPI_SUM with a flush each, as in OSU's osu_get_acc_latency, while the
// target waits in a barrier. SIZE calls of each length. Prints `chars_N` for one call of N chars. The sums go up and
// down between 0 and 100: Open MPI's stop at 127 where it uses vector instructions.
#include "app.h"

enum { LONGEST = 65536, PEAK = 100 };

static int is_rising(long call) { return call / PEAK % 2 == 0; }
static char sum_before(long call) { return is_rising(call) ? call % PEAK : PEAK - call % PEAK; }

int main(int argc, char **argv) {
  long calls = begin(&argc, &argv);
  char *target, *up = memory(LONGEST), *down = memory(LONGEST), *old = memory(LONGEST), name[32];
  MPI_Win win = window(LONGEST, 1, &target);
  MPI_Win_lock_all(0, win);
  memset(up, 1, LONGEST);
  memset(down, -1, LONGEST);
  for (int length = 8; length <= LONGEST; length *= length == 4096 ? 16 : length == 8 ? 64 : 8) {
    begin_time();
    double seconds = 0;
    if (rank == 0) {
      for (long i = 0; i < calls; i++) {
        char *operand = is_rising(i) ? up : down;
        MPI_Get_accumulate(operand, length, MPI_CHAR, old, length, MPI_CHAR, 1, 0, length, MPI_CHAR, MPI_SUM, win);
        MPI_Win_flush(1, win);
        check(old[0] == sum_before(i) && old[length - 1] == sum_before(i), "an old value");
      }
      seconds = (MPI_Wtime() - begun) / calls;
    }
    complete(win);
    snprintf(name, sizeof name, "chars_%d", length);
    print(name, seconds);
    for (int i = 0; rank == 1 && i < length; i++) check(target[i] == sum_before(calls), "a sum");
    memset(target, 0, LONGEST);
    MPI_Win_sync(win);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Win_unlock_all(win);
  MPI_Win_free(&win);
  free(up);
  free(down);
  free(old);
  end();
}
