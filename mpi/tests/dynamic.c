/* Dynamic windows: memory comes and goes while the window stays; addresses are absolute. */
#include "check.h"

int main(int argc, char **argv) {
  begin(&argc, &argv);
  MPI_Win win;
  OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
  OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
  static int statics[32];
  for (int round = 0; round < 5; round++) {
    int stack[16], *heap = malloc(4096 * sizeof(int)), *allocated;
    OK(MPI_Alloc_mem(256, MPI_INFO_NULL, &allocated));
    int *places[] = {statics, stack, heap, allocated};
    MPI_Aint bytes[] = {sizeof statics, sizeof stack, 4096 * sizeof(int), 256};
    MPI_Aint mine[4], theirs[4];
    for (int i = 0; i < 4; i++) {
      memset(places[i], 0, bytes[i]);
      OK(MPI_Win_attach(win, places[i], bytes[i]));
      OK(MPI_Get_address(places[i], &mine[i]));
    }
    OK(MPI_Sendrecv(mine, 4, MPI_AINT, left(), 0, theirs, 4, MPI_AINT, right(), 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock_all(0, win));
    for (int i = 0; i < 4; i++) {
      int value = rank * 100 + i, one = 1, old = -1, got = -1;
      MPI_Aint at = MPI_Aint_add(theirs[i], bytes[i] - sizeof(int));
      OK(MPI_Put(&value, 1, MPI_INT, right(), at, 1, MPI_INT, win));
      OK(MPI_Win_flush(right(), win));
      OK(MPI_Fetch_and_op(&one, &old, MPI_INT, right(), at, MPI_SUM, win));
      OK(MPI_Win_flush(right(), win));
      EQUAL(old, value);
      OK(MPI_Get(&got, 1, MPI_INT, right(), at, 1, MPI_INT, win));
      OK(MPI_Win_flush(right(), win));
      EQUAL(got, value + 1);
      FAILS(MPI_Put(&value, 1, MPI_INT, right(), MPI_Aint_add(theirs[2], 4096 * sizeof(int)), 1, MPI_INT, win),
            MPI_ERR_RMA_RANGE);
    }
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < 4; i++) EQUAL_AT(i, places[i][bytes[i] / sizeof(int) - 1], left() * 100 + i + 1);
    FAILS(MPI_Win_attach(win, heap, 8), MPI_ERR_RMA_ATTACH);
    for (int i = 3; i >= 0; i--) OK(MPI_Win_detach(win, places[i]));
    FAILS(MPI_Win_detach(win, heap), MPI_ERR_RMA_ATTACH);
    OK(MPI_Free_mem(allocated));
    free(heap);
  }
  OK(MPI_Win_free(&win));
  return end();
}
