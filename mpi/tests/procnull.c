/* Nobody as a target: every call succeeds and does nothing. */
#include "check.h"

int main(int argc, char **argv) {
  begin(&argc, &argv);
  int *base, mine = 5, got = 6, expect = 1;
  MPI_Win win;
  MPI_Request request;
  OK(MPI_Win_allocate(16, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
  base[0] = 8;
  for (int kind = 0; kind < 3; kind++) {
    if (kind == 0) OK(MPI_Win_fence(0, win));
    if (kind == 1) OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, MPI_PROC_NULL, 0, win));
    if (kind == 2) OK(MPI_Win_lock_all(0, win));
    if (kind < 1 || kind > 1) {
      OK(MPI_Put(&mine, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win));
      OK(MPI_Get(&got, 1, MPI_INT, MPI_PROC_NULL, 999, 1, MPI_INT, win));
      /* As where a neighbour's count is computed. */
      OK(MPI_Put(&mine, 1, MPI_INT, MPI_PROC_NULL, 0, 0, MPI_INT, win));
      OK(MPI_Get(&got, 0, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win));
      OK(MPI_Accumulate(&mine, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, MPI_SUM, win));
      OK(MPI_Get_accumulate(&mine, 1, MPI_INT, &got, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, MPI_SUM, win));
      OK(MPI_Fetch_and_op(&mine, &got, MPI_INT, MPI_PROC_NULL, 0, MPI_SUM, win));
      OK(MPI_Compare_and_swap(&mine, &expect, &got, MPI_INT, MPI_PROC_NULL, 0, win));
    }
    if (kind == 2) {
      OK(MPI_Rput(&mine, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win, &request));
      OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
      OK(MPI_Rput(&mine, 1, MPI_INT, MPI_PROC_NULL, 0, 0, MPI_INT, win, &request));
      OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
      OK(MPI_Rget(&got, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win, &request));
      OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
      OK(MPI_Raccumulate(&mine, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, MPI_SUM, win, &request));
      OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
      OK(MPI_Rget_accumulate(&mine, 1, MPI_INT, &got, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, MPI_SUM, win, &request));
      OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
      OK(MPI_Win_flush(MPI_PROC_NULL, win));
      OK(MPI_Win_flush_local(MPI_PROC_NULL, win));
    }
    if (kind == 0) OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    if (kind == 1) OK(MPI_Win_unlock(MPI_PROC_NULL, win));
    if (kind == 2) OK(MPI_Win_unlock_all(win));
  }
  EQUAL(got, 6);
  EQUAL(base[0], 8);
  OK(MPI_Win_free(&win));
  return end();
}
