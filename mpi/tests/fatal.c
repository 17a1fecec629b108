/* Without a handler, a wrong call ends the job with a sentence. It must not come to the end. */
#include "check.h"

int main(int argc, char **argv) {
  begin(&argc, &argv);
  char *base, b = 0;
  MPI_Win win;
  MPI_Win_allocate(64, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
  MPI_Win_lock_all(0, win);
  MPI_Put(&b, 1, MPI_CHAR, right(), 64, 1, MPI_CHAR, win);
  MPI_Win_unlock_all(win);
  MPI_Win_free(&win);
  return end();
}
