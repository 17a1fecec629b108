/* What cannot be Transom's stays the host's: a window with spawned processes. All decide alike, and those of
 * the job alone are Transom's as ever. Strict, it is an error. */
#include "check.h"

static void works(MPI_Comm comm) {
  int me, count, *base;
  OK(MPI_Comm_rank(comm, &me));
  OK(MPI_Comm_size(comm, &count));
  MPI_Win win;
  OK(MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, comm, &base, &win));
  OK(MPI_Win_fence(0, win));
  OK(MPI_Put(&me, 1, MPI_INT, (me + 1) % count, 0, 1, MPI_INT, win));
  OK(MPI_Win_fence(0, win));
  EQUAL(*base, (me + count - 1) % count);
  OK(MPI_Win_free(&win));
}

int main(int argc, char **argv) {
  begin(&argc, &argv);
  MPI_Comm parent, between, all;
  OK(MPI_Comm_get_parent(&parent));
  int is_child = parent != MPI_COMM_NULL;
  works(MPI_COMM_WORLD);
  if (is_child) between = parent;
  else OK(MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &between, MPI_ERRCODES_IGNORE));
  OK(MPI_Intercomm_merge(between, is_child, &all));
  int count;
  OK(MPI_Comm_size(all, &count));
  /* Whoever goes on with the error must not leave others waiting. */
  if (argc > 1 && !is_child) OK(MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN));
  EQUAL(count, is_child ? count : size + 2);
  works(all);
  OK(MPI_Comm_free(&all));
  OK(MPI_Comm_disconnect(&between));
  works(MPI_COMM_WORLD);
  if (is_child) {
    MPI_Finalize();
    return 0;
  }
  return end();
}
