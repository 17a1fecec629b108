/* A program that begins by MPI_Session_init has no world: its windows are the host's. Of an MPI that has sessions. */
#include "check.h"

int main(void) {
#ifdef MPI_SESSION_NULL
  MPI_Session session;
  MPI_Group group;
  MPI_Comm comm;
  MPI_Win win;
  int *base;
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
  MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
  MPI_Comm_create_from_group(group, "transom", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  int code = MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, comm, &base, &win);
  if (code != MPI_SUCCESS) {
    if (rank == 0) puts(sentence(code));
  } else {
    /* What the host makes of puts is its own: MPICH 4.0.2 loses some here. */
    MPI_Win_fence(0, win);
    MPI_Put(&rank, 1, MPI_INT, right(), 0, 1, MPI_INT, win);
    MPI_Win_fence(0, win);
    if (rank == 0) puts("passed");
    MPI_Win_free(&win);
  }
  MPI_Comm_free(&comm);
  MPI_Group_free(&group);
  MPI_Session_finalize(&session);
#endif
  return 0;
}
