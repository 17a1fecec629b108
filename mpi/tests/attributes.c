/* What a program hangs on a window: attributes with functions, a name, hints, an error handler, and the group. */
#include "check.h"

static int copied, deleted;
static void *deleted_value;

static int copy(MPI_Win win, int keyval, void *extra, void *in, void *out, int *flag) {
  copied++;
  *flag = 0;
  return MPI_SUCCESS;
}

static int delete(MPI_Win win, int keyval, void *value, void *extra) {
  /* The window still says what it is. */
  void *bytes;
  int flag = 0;
  OK(MPI_Win_get_attr(win, MPI_WIN_SIZE, &bytes, &flag));
  CHECK(flag);
  EQUAL(*(MPI_Aint *)bytes, 64);
  CHECK(extra == &deleted);
  deleted++;
  deleted_value = value;
  return MPI_SUCCESS;
}

static void attributes(MPI_Win win) {
  int keyval, other, flag, a = 1, b = 2;
  void *value;
  OK(MPI_Win_create_keyval(copy, delete, &keyval, &deleted));
  OK(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, &other, NULL));
  OK(MPI_Win_get_attr(win, keyval, &value, &flag));
  CHECK(!flag);
  OK(MPI_Win_set_attr(win, keyval, &a));
  OK(MPI_Win_set_attr(win, other, &b));
  OK(MPI_Win_get_attr(win, keyval, &value, &flag));
  CHECK(flag && value == &a);
  OK(MPI_Win_set_attr(win, keyval, &b));
  EQUAL(deleted, 1);
  CHECK(deleted_value == &a);
  OK(MPI_Win_delete_attr(win, keyval));
  EQUAL(deleted, 2);
  OK(MPI_Win_get_attr(win, keyval, &value, &flag));
  CHECK(!flag);
  OK(MPI_Win_set_attr(win, keyval, &a));
  OK(MPI_Win_free_keyval(&keyval));
  EQUAL(keyval, MPI_KEYVAL_INVALID);
  OK(MPI_Win_free_keyval(&other));
}

static void name(MPI_Win win) {
  char text[MPI_MAX_OBJECT_NAME];
  int len = -1;
  OK(MPI_Win_set_name(win, "halo of the field"));
  OK(MPI_Win_get_name(win, text, &len));
  EQUAL(len, 17);
  CHECK(!strcmp(text, "halo of the field"));
}

static int has(MPI_Info info, const char *key, const char *want) {
  char value[MPI_MAX_INFO_VAL + 1];
  int flag = 0;
  OK(MPI_Info_get(info, key, MPI_MAX_INFO_VAL, value, &flag));
  return flag && !strcmp(value, want);
}

static void hints(void) {
  MPI_Info info, got;
  MPI_Win win;
  char *base;
  OK(MPI_Info_create(&info));
  OK(MPI_Info_set(info, "no_locks", "true"));
  OK(MPI_Info_set(info, "accumulate_ordering", "none"));
  OK(MPI_Info_set(info, "accumulate_ops", "same_op_no_op"));
  OK(MPI_Info_set(info, "same_size", "true"));
  OK(MPI_Info_set(info, "same_disp_unit", "perhaps"));
  OK(MPI_Info_set(info, "colour", "blue"));
  OK(MPI_Win_allocate(64, 1, info, MPI_COMM_WORLD, &base, &win));
  OK(MPI_Info_free(&info));
  OK(MPI_Win_get_info(win, &got));
  int count = -1;
  OK(MPI_Info_get_nkeys(got, &count));
  CHECK(count > 0);
  CHECK(has(got, "no_locks", "true"));
  CHECK(has(got, "accumulate_ordering", "none"));
  CHECK(!has(got, "same_disp_unit", "perhaps"));
  OK(MPI_Info_free(&got));
  OK(MPI_Info_create(&info));
  OK(MPI_Info_set(info, "accumulate_ops", "what is this"));
  OK(MPI_Win_set_info(win, info));
  OK(MPI_Info_free(&info));
  OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
  FAILS(MPI_Win_set_info(win, MPI_INFO_NULL), MPI_ERR_INFO);
  OK(MPI_Win_get_info(win, &got));
  OK(MPI_Info_free(&got));
  OK(MPI_Win_free(&win));
}

static int handled;
static void handler(MPI_Win *win, int *code, ...) {
  int class;
  MPI_Error_class(*code, &class);
  EQUAL(class, MPI_ERR_RANK);
  handled++;
}

static void handlers(MPI_Win win) {
  MPI_Errhandler mine, got;
  OK(MPI_Win_get_errhandler(win, &got));
  CHECK(got == MPI_ERRORS_ARE_FATAL);
  OK(MPI_Win_create_errhandler(handler, &mine));
  OK(MPI_Win_set_errhandler(win, mine));
  OK(MPI_Win_get_errhandler(win, &got));
  OK(MPI_Errhandler_free(&got));
  OK(MPI_Errhandler_free(&mine));
  char byte = 0;
  OK(MPI_Win_lock_all(0, win));
  FAILS(MPI_Put(&byte, 1, MPI_CHAR, size, 0, 1, MPI_CHAR, win), MPI_ERR_RANK);
  EQUAL(handled, 1);
  OK(MPI_Win_unlock_all(win));
}

static void groups(MPI_Comm comm, MPI_Win win) {
  MPI_Group theirs, ours;
  int same = -1;
  OK(MPI_Win_get_group(win, &theirs));
  OK(MPI_Comm_group(comm, &ours));
  OK(MPI_Group_compare(theirs, ours, &same));
  EQUAL(same, MPI_IDENT);
  OK(MPI_Group_free(&theirs));
  OK(MPI_Group_free(&ours));
}

static int free_other(MPI_Win win, int keyval, void *other, void *extra) {
  return MPI_Win_free((MPI_Win *)other);
}

/* A window that takes another one with it. */
static void together(void) {
  int keyval;
  long *base;
  MPI_Win outer, inner;
  OK(MPI_Win_allocate(64, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &outer));
  OK(MPI_Win_allocate(64, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &inner));
  OK(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, free_other, &keyval, NULL));
  OK(MPI_Win_set_attr(outer, keyval, &inner));
  OK(MPI_Win_free_keyval(&keyval));
  OK(MPI_Win_free(&outer));
  CHECK(outer == MPI_WIN_NULL);
  CHECK(inner == MPI_WIN_NULL);
}

int main(int argc, char **argv) {
  begin(&argc, &argv);
  char *base;
  MPI_Win win;
  MPI_Comm reversed;
  OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed));
  OK(MPI_Win_allocate(64, 1, MPI_INFO_NULL, reversed, &base, &win));
  attributes(win);
  name(win);
  groups(reversed, win);
  handlers(win);
#ifdef MPI_ABI_VERSION
  CHECK(MPI_Win_fromint(MPI_Win_toint(win)) == win);
#else
  CHECK(MPI_Win_f2c(MPI_Win_c2f(win)) == win);
#endif
  deleted = 0;
  OK(MPI_Win_free(&win));
  EQUAL(deleted, 1);
  EQUAL(copied, 0);
  OK(MPI_Comm_free(&reversed));
  together();
  hints();
  return end();
}
