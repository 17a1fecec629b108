/* What the host calls at the end of a window and of the program may still use windows. */
#include "check.h"

static MPI_Win last;
static void *piece;
static int freed;

static int window_goes(MPI_Win win, int keyval, void *value, void *extra) {
  int *base, flag;
  MPI_Info info;
  OK(MPI_Win_get_attr(win, MPI_WIN_BASE, &base, &flag));
  CHECK(flag);
  EQUAL(base[0], 3);
  OK(MPI_Win_get_info(win, &info));
  OK(MPI_Info_free(&info));
  EQUAL(*(int *)value, 17);
  freed++;
  return MPI_SUCCESS;
}

static int program_ends(MPI_Comm comm, int keyval, void *value, void *extra) {
  int sent = 40 + rank, *base, flag;
  OK(MPI_Win_get_attr(last, MPI_WIN_BASE, &base, &flag));
  OK(MPI_Win_fence(0, last));
  OK(MPI_Put(&sent, 1, MPI_INT, right(), 0, 1, MPI_INT, last));
  OK(MPI_Win_fence(0, last));
  EQUAL(base[0], 40 + left());
  OK(MPI_Win_free(&last));
  OK(MPI_Free_mem(piece));
  if (rank == 0) puts("passed");
  return MPI_SUCCESS;
}

int main(int argc, char **argv) {
  begin(&argc, &argv);
  int keyval, value = 17, *base;
  MPI_Win win;
  OK(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, window_goes, &keyval, NULL));
  OK(MPI_Win_allocate(64, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
  base[0] = 3;
  OK(MPI_Win_set_attr(win, keyval, &value));
  OK(MPI_Win_free(&win));
  EQUAL(freed, 1);
  CHECK(win == MPI_WIN_NULL);

  OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, program_ends, &keyval, NULL));
  OK(MPI_Comm_set_attr(MPI_COMM_SELF, keyval, NULL));
  OK(MPI_Win_allocate(64, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &last));
  OK(MPI_Alloc_mem(100, MPI_INFO_NULL, &piece));
  MPI_Finalize();
  return 0;
}
