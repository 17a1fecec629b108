/* Compiles with an mpi.h of MPICH's family. */
#include <mpi.h>

static MPI_Comm comm;
int *is_number = &comm;
_Static_assert(sizeof(MPI_Comm) == sizeof(int), "");
