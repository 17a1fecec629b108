/* A tool of MPI's profiling interface, as it is preloaded: counts calls, and says on rank 0 how many there were.
 * With CHAINED it takes the second names and goes on to the next library that has them, as Transom's does. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>

#ifdef CHAINED
#define HERE(name) PMPI_##name
#define NEXT(name) ((__typeof__(&PMPI_##name))dlsym(RTLD_NEXT, "PMPI_" #name))
#define WHAT "chained"
#else
#define HERE(name) MPI_##name
#define NEXT(name) PMPI_##name
#define WHAT "profiled"
#endif

#define CALLS(call)                                                                                                    \
  call(Win_create, (void *base, MPI_Aint bytes, int unit, MPI_Info info, MPI_Comm comm, MPI_Win *win),                 \
       (base, bytes, unit, info, comm, win))                                                                           \
  call(Win_allocate, (MPI_Aint bytes, int unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *win),               \
       (bytes, unit, info, comm, base, win))                                                                           \
  call(Win_free, (MPI_Win * win), (win))                                                                               \
  call(Win_fence, (int assert, MPI_Win win), (assert, win))                                                            \
  call(Win_lock_all, (int assert, MPI_Win win), (assert, win))                                                         \
  call(Win_unlock_all, (MPI_Win win), (win))                                                                           \
  call(Win_flush, (int rank, MPI_Win win), (rank, win))                                                                \
  call(Put,                                                                                                            \
       (const void *from, int n, MPI_Datatype type, int rank, MPI_Aint at, int m, MPI_Datatype there, MPI_Win win),    \
       (from, n, type, rank, at, m, there, win))                                                                       \
  call(Rget,                                                                                                           \
       (void *to, int n, MPI_Datatype type, int rank, MPI_Aint at, int m, MPI_Datatype there, MPI_Win win,             \
        MPI_Request *request),                                                                                         \
       (to, n, type, rank, at, m, there, win, request))                                                                \
  call(Fetch_and_op,                                                                                                   \
       (const void *from, void *to, MPI_Datatype type, int rank, MPI_Aint at, MPI_Op op, MPI_Win win),                 \
       (from, to, type, rank, at, op, win))                                                                            \
  call(Wait, (MPI_Request * request, MPI_Status * status), (request, status))                                          \
  call(Barrier, (MPI_Comm comm), (comm))

#define COUNTER(name, parameters, arguments) static int count_##name;
CALLS(COUNTER)

#define WRAPPER(name, parameters, arguments) \
  int HERE(name) parameters {                \
    count_##name++;                          \
    return NEXT(name) arguments;             \
  }
CALLS(WRAPPER)

int HERE(Finalize)(void) {
  int rank = -1;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) {
    char line[1000];
    int len = snprintf(line, sizeof line, WHAT ":");
#define SAY(name, parameters, arguments) len += snprintf(line + len, sizeof line - len, " " #name " %d", count_##name);
    CALLS(SAY)
    fprintf(stderr, "%s\n", line);
  }
  return NEXT(Finalize)();
}
