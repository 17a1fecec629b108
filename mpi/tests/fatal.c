/* Without a handler, or with one that aborts, a wrong call ends the job with a sentence. It must not come to the end. */
#include "check.h"

int main(int argc, char **argv) {
  begin(&argc, &argv);
  char *base, b = 0;
  MPI_Win win;
  MPI_Win_allocate(64, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
  if (argc > 1 && !strcmp(argv[1], "comm")) MPI_Win_allocate(-64, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
/* MPICH before 5 fails an assertion of its own there. */
#if defined MPI_ERRORS_ABORT && (!defined MPICH_NUMVERSION || MPICH_NUMVERSION >= 50000000)
  if (argc > 1 && !strcmp(argv[1], "abort")) MPI_Win_set_errhandler(win, MPI_ERRORS_ABORT);
#endif
  MPI_Win_lock_all(0, win);
  MPI_Put(&b, 1, MPI_CHAR, right(), 64, 1, MPI_CHAR, win);
  MPI_Win_unlock_all(win);
  MPI_Win_free(&win);
  return end();
}
