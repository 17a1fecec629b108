/* The forms whose counts are MPI_Count, where the host has them. */
#include "check.h"

int main(int argc, char **argv) {
  begin(&argc, &argv);
#if MPI_VERSION >= 4
  enum { N = 10 };
  int *base, mine[N], got[N], old[N];
  MPI_Win win;
  MPI_Request request;
  MPI_Aint unit = 0, bytes = 0;
  for (int i = 0; i < N; i++) mine[i] = rank * 100 + i;
  for (int flavour = 0; flavour < (on_one_machine(MPI_COMM_WORLD) ? 3 : 2); flavour++) {
    static int memory[4 * N];
    base = memory;
    if (flavour == 0) OK(MPI_Win_create_c(base, sizeof memory, (MPI_Aint)sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    if (flavour == 1) OK(MPI_Win_allocate_c(sizeof memory, (MPI_Aint)sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
    if (flavour == 2) {
      OK(MPI_Win_allocate_shared_c(sizeof memory, (MPI_Aint)sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
      int *theirs;
      OK(MPI_Win_shared_query_c(win, right(), &bytes, &unit, &theirs));
      EQUAL(unit, sizeof(int));
      EQUAL(bytes, sizeof memory);
    }
    memset(base, 0, sizeof memory);
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put_c(mine, N, MPI_INT, right(), 0, N, MPI_INT, win));
    OK(MPI_Accumulate_c(mine, N, MPI_INT, right(), N, N, MPI_INT, MPI_SUM, win));
    OK(MPI_Get_accumulate_c(mine, N, MPI_INT, old, N, MPI_INT, right(), 2 * N, N, MPI_INT, MPI_SUM, win));
    OK(MPI_Win_fence(0, win));
    OK(MPI_Get_c(got, N, MPI_INT, right(), 0, N, MPI_INT, win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    for (int i = 0; i < N; i++) {
      for (int j = 0; j < 3; j++) EQUAL_AT(i, base[j * N + i], left() * 100 + i);
      EQUAL_AT(i, old[i], 0);
      EQUAL_AT(i, got[i], mine[i]);
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock_all(0, win));
    OK(MPI_Rput_c(mine, N, MPI_INT, right(), 3 * N, N, MPI_INT, win, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Win_flush(right(), win));
    OK(MPI_Rget_c(got, N, MPI_INT, right(), 3 * N, N, MPI_INT, win, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (int i = 0; i < N; i++) EQUAL_AT(i, got[i], mine[i]);
    OK(MPI_Raccumulate_c(mine, N, MPI_INT, right(), 0, N, MPI_INT, MPI_SUM, win, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Win_flush(right(), win));
    OK(MPI_Rget_accumulate_c(mine, N, MPI_INT, old, N, MPI_INT, right(), 0, N, MPI_INT, MPI_SUM, win, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (int i = 0; i < N; i++) EQUAL_AT(i, old[i], 2 * mine[i]);
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Barrier(MPI_COMM_WORLD));

    /* A type that was made with large counts. */
    MPI_Datatype type;
    OK(MPI_Type_vector_c(N, 1, 2, MPI_INT, &type));
    OK(MPI_Type_commit(&type));
    memset(base, 0, sizeof memory);
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put(mine, N, MPI_INT, right(), 0, 1, type, win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    for (int i = 0; i < 2 * N; i++) EQUAL_AT(i, base[i], i % 2 ? 0 : left() * 100 + i / 2);
    OK(MPI_Type_free(&type));
    OK(MPI_Win_free(&win));
  }
#endif
  return end();
}
