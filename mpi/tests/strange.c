/* Communicators that no window can have: none, one that was freed, an intercommunicator, with which MPICH alone
 * crashes. All of it at the lowest thread level. */
#include "check.h"

static void fails(MPI_Comm comm) {
  MPI_Win win = MPI_WIN_NULL;
  int *base, mine = 0;
  FAILS(MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, comm, &base, &win), MPI_ERR_COMM);
  FAILS(MPI_Win_create(&mine, sizeof(int), sizeof(int), MPI_INFO_NULL, comm, &win), MPI_ERR_COMM);
  FAILS(MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &win), MPI_ERR_COMM);
  FAILS(MPI_Win_allocate_shared(sizeof(int), sizeof(int), MPI_INFO_NULL, comm, &base, &win), MPI_ERR_COMM);
}

static void works(void) {
  int *base;
  MPI_Win win;
  OK(MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
  OK(MPI_Win_fence(0, win));
  OK(MPI_Put(&rank, 1, MPI_INT, right(), 0, 1, MPI_INT, win));
  OK(MPI_Win_fence(0, win));
  EQUAL(*base, left());
  OK(MPI_Win_free(&win));
}

int main(int argc, char **argv) {
  int provided = -1;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SINGLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  EQUAL(provided, MPI_THREAD_SINGLE);
  works();
  OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));

  fails(MPI_COMM_NULL);
#ifndef OPEN_MPI
  /* Its handles are addresses, which it follows when the memory is gone, too. */
  MPI_Comm copy, gone;
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
  gone = copy;
  OK(MPI_Comm_free(&copy));
  fails(gone);
  works();
#endif

  if (size > 1) {
    MPI_Comm half, between;
    OK(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half));
    OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 3, &between));
    OK(MPI_Comm_set_errhandler(between, MPI_ERRORS_RETURN));
    fails(between);
    OK(MPI_Comm_free(&between));
    OK(MPI_Comm_free(&half));
  }
  works();
  return end();
}
