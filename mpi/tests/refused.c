/* Functions of attributes that refuse to let a window go: MPICH keeps it then, Open MPI does not ask. And windows that
 * cannot be freed since not all ranks do. */
#include "check.h"

enum { N = 16 };
static int refuses, asked, other_goes;

static int delete(MPI_Win win, int keyval, void *value, void *extra) {
  int *base, flag = 0;
  OK(MPI_Win_get_attr(win, MPI_WIN_BASE, &base, &flag));
  CHECK(flag && base[1] == 1000 + rank);
  asked++;
  return refuses ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static int delete_other(MPI_Win win, int keyval, void *value, void *extra) {
  other_goes++;
  return MPI_SUCCESS;
}

/* One rank refuses, or all do, and so often. */
static void refused(int who, int times) {
  int *base, keyval, other, flag;
  MPI_Win win;
  OK(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, delete, &keyval, NULL));
  OK(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, delete_other, &other, NULL));
  OK(MPI_Win_allocate(N * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
  OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
  OK(MPI_Win_set_name(win, "kept"));
  for (int i = 0; i < N; i++) base[i] = 1000 * i + rank;
  OK(MPI_Win_set_attr(win, other, &flag));
  /* MPICH asks the one that was set last, too, when another has refused, and follows it alone. */
  OK(MPI_Win_set_attr(win, keyval, &flag));
  OK(MPI_Barrier(MPI_COMM_WORLD));
  int one_refuses = who == rank || who < 0;
  asked = other_goes = 0;
  for (refuses = one_refuses ? times : 0; refuses; refuses--) {
    MPI_Win before = win;
    int code = MPI_Win_free(&win);
    EQUAL(asked, 1 + times - refuses);
    if (win == MPI_WIN_NULL) {
      /* The host does not care. */
      OK(code);
      goto gone;
    }
    CHECK(code != MPI_SUCCESS);
    CHECK(win == before);
    MPI_Aint *bytes;
    OK(MPI_Win_get_attr(win, MPI_WIN_SIZE, &bytes, &flag));
    CHECK(flag && *bytes == N * sizeof(int));
    /* MPICH has deleted what is not to be deleted. */
    OK(MPI_Win_set_attr(win, keyval, &flag));
    MPI_Group group;
    int members = -1, mine = 4711, got = -1;
    OK(MPI_Win_get_group(win, &group));
    OK(MPI_Group_size(group, &members));
    EQUAL(members, size);
    OK(MPI_Group_free(&group));
    /* The others may wait for this rank to free it. */
    for (int r = 0; r < size; r++) {
      OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, r, 0, win));
      OK(MPI_Put(&mine, 1, MPI_INT, r, 2, 1, MPI_INT, win));
      OK(MPI_Win_flush(r, win));
      OK(MPI_Get(&got, 1, MPI_INT, r, 2, 1, MPI_INT, win));
      OK(MPI_Win_unlock(r, win));
      EQUAL(got, 4711);
      OK(MPI_Win_lock(MPI_LOCK_SHARED, r, 0, win));
      OK(MPI_Get(&got, 1, MPI_INT, r, 1, 1, MPI_INT, win));
      OK(MPI_Win_unlock(r, win));
      EQUAL(got, 1000 + r);
    }
    FAILS(MPI_Put(&mine, 1, MPI_INT, 0, 2, 1, MPI_INT, win), MPI_ERR_RMA_SYNC);
  }
  /* Where all have refused, all have it. */
  if (who < 0) {
    int sent = 50 + rank;
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put(&sent, 1, MPI_INT, right(), 3, 1, MPI_INT, win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    EQUAL(base[3], 50 + left());
  }
  OK(MPI_Win_free(&win));
  CHECK(win == MPI_WIN_NULL);
  EQUAL(asked, (one_refuses ? times : 0) + 1);
  EQUAL(other_goes, 1);
gone:
  refuses = 0;
  OK(MPI_Win_free_keyval(&keyval));
  OK(MPI_Win_free_keyval(&other));
}

static int told;
static void handler(MPI_Win *win, int *code, ...) {
  CHECK(strstr(sentence(*code), "MPI_Win_f"));
  CHECK(*win != MPI_WIN_NULL);
  told++;
}

/* One rank frees, the others come to a fence: all hear of it, and have a window that they cannot free. */
static void not_by_all(void) {
  int *base, flag, keyval;
  MPI_Aint *bytes;
  MPI_Win win;
  MPI_Errhandler counts;
  if (size == 1) return;
  OK(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, delete_other, &keyval, NULL));
  OK(MPI_Win_allocate(N * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
  OK(MPI_Win_create_errhandler(handler, &counts));
  OK(MPI_Win_set_errhandler(win, counts));
  OK(MPI_Errhandler_free(&counts));
  OK(MPI_Win_set_attr(win, keyval, &flag));
  OK(MPI_Win_free_keyval(&keyval));
  other_goes = 0;
  if (rank == 0)
    FAILS(MPI_Win_free(&win), MPI_ERR_ARG);
  else
    FAILS(MPI_Win_fence(0, win), MPI_ERR_ARG);
  EQUAL(told, 1);
  EQUAL(other_goes, rank == 0);
  CHECK(win != MPI_WIN_NULL);
  OK(MPI_Win_get_attr(win, MPI_WIN_SIZE, &bytes, &flag));
  CHECK(flag && *bytes == N * sizeof(int));
  CHECK(MPI_Win_free(&win) != MPI_SUCCESS);
  EQUAL(told, 2);
  CHECK(win != MPI_WIN_NULL);
}

int main(int argc, char **argv) {
  begin(&argc, &argv);
  for (int times = 1; times < 4; times += 2) {
    refused(-1, times);
    for (int who = 0; who < size; who++) refused(who, times);
  }
  not_by_all();
  return end();
}
