/* A few of each kind of call: for tools, which count them or look at each access to memory. With an argument, the
 * last put is from memory that was freed, which such tools find. */
#include "check.h"

enum { TIMES = 10 };

int main(int argc, char **argv) {
  begin(&argc, &argv);
  long *mine = calloc(TIMES, sizeof *mine), *base;
  MPI_Win created, allocated;
  OK(MPI_Win_create(mine, TIMES * sizeof *mine, sizeof *mine, MPI_INFO_NULL, MPI_COMM_WORLD, &created));
  OK(MPI_Win_allocate(TIMES * sizeof *base, sizeof *base, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &allocated));
  memset(base, 0, TIMES * sizeof *base);
  OK(MPI_Win_fence(0, created));
  for (int i = 0; i < TIMES; i++) {
    long value = 100 * rank + i;
    OK(MPI_Put(&value, 1, MPI_LONG, right(), i, 1, MPI_LONG, created));
  }
  OK(MPI_Win_fence(0, created));
  for (int i = 0; i < TIMES; i++) EQUAL_AT(i, mine[i], 100 * left() + i);

  MPI_Datatype type;
  OK(MPI_Type_vector(TIMES / 2, 1, 2, MPI_LONG, &type));
  OK(MPI_Type_commit(&type));
  OK(MPI_Win_lock_all(0, allocated));
  OK(MPI_Barrier(MPI_COMM_WORLD));
  long one = 1, old, got[TIMES / 2];
  for (int i = 0; i < TIMES; i++) {
    OK(MPI_Fetch_and_op(&one, &old, MPI_LONG, 0, 0, MPI_SUM, allocated));
    OK(MPI_Win_flush(0, allocated));
  }
  OK(MPI_Barrier(MPI_COMM_WORLD));
  MPI_Request request;
  OK(MPI_Rget(got, TIMES / 2, MPI_LONG, 0, 0, 1, type, allocated, &request));
  OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  EQUAL(got[0], TIMES * size);
  EQUAL(got[1], 0);
  if (argc > 1) {
    long *freed = malloc(TIMES * sizeof *freed);
    memset(freed, 0, TIMES * sizeof *freed);
    free(freed);
#pragma GCC diagnostic ignored "-Wuse-after-free"
    OK(MPI_Put(freed, TIMES, MPI_LONG, right(), 0, TIMES, MPI_LONG, allocated));
  }
  OK(MPI_Win_unlock_all(allocated));
  OK(MPI_Type_free(&type));
  OK(MPI_Win_free(&created));
  OK(MPI_Win_free(&allocated));
  free(mine);
  return end();
}
