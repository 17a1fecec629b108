// A put of 8 bytes and a flush, SIZE times, while the target waits in a barrier. The second argument is how many are
// timed together (default: 1). Prints `put_flush_p50` and `put_flush_p99` for one of them.
#include "app.h"

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(int argc, char **argv) {
  long calls = begin(&argc, &argv), together = argc > 2 ? atol(argv[2]) : 1, *target;
  check(together > 0, "how many are timed together");
  MPI_Win win = window(sizeof *target, sizeof *target, &target);
  double *seconds = memory(calls * sizeof *seconds);
  MPI_Win_lock_all(0, win);
  begin_time();
  for (long i = 0; rank == 0 && i < calls; i++) {
    double start = MPI_Wtime();
    for (long j = 0; j < together; j++) {
      long value = i * together + j;
      MPI_Put(&value, 1, MPI_LONG, 1, 0, 1, MPI_LONG, win);
      MPI_Win_flush(1, win);
    }
    seconds[i] = (MPI_Wtime() - start) / together;
  }
  complete(win);
  check(rank != 1 || *target == calls * together - 1, "the last value");
  qsort(seconds, calls, sizeof *seconds, by_size);
  print("put_flush_p50", seconds[calls / 2]);
  print("put_flush_p99", seconds[calls * 99 / 100]);
  MPI_Win_unlock_all(win);
  MPI_Win_free(&win);
  free(seconds);
  end();
}
