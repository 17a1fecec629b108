/* What a program does wrong is MPI's class and a sentence, where it asked for codes; and the window works on. */
#include "check.h"
#include <limits.h>

static char *base;
static MPI_Win win;
enum { BYTES = 64 };

/* As FAILS, and the sentence says this, and on which rank. */
#define SAYS(call, class, ...)                                                                         \
  do {                                                                                                 \
    int said_ = (call);                                                                                \
    FAILS(said_, class);                                                                               \
    char here_[32];                                                                                    \
    snprintf(here_, sizeof here_, "rank %d: ", rank);                                                  \
    const char *parts_[] = {here_, __VA_ARGS__};                                                       \
    for (size_t i_ = 0; i_ < sizeof parts_ / sizeof *parts_; i_++)                                     \
      if (!strstr(sentence(said_), parts_[i_])) FAIL("%s does not say %s: %s", #call, parts_[i_], sentence(said_)); \
  } while (0)

/* What wraps around or stands for nobody by chance; and what is wrong for nobody, too. */
static void numbers(void) {
  char b[BYTES] = {0}, c[BYTES] = {0};
  MPI_Request request;
  MPI_Datatype wide;
  MPI_Win dynamic;
  OK(MPI_Type_vector(2, 1, 100, MPI_CHAR, &wide));
  OK(MPI_Type_commit(&wide));
  OK(MPI_Win_lock_all(0, win));
  for (int i = 0; i < 2; i++) {
    int target = i ? INT_MIN : -2222;
    const char *says = i ? "rank -2147483648 is" : "rank -2222 is";
    SAYS(MPI_Put(b, 1, MPI_CHAR, target, 0, 1, MPI_CHAR, win), MPI_ERR_RANK, says);
    SAYS(MPI_Get(b, 1, MPI_CHAR, target, 0, 1, MPI_CHAR, win), MPI_ERR_RANK, says);
    SAYS(MPI_Accumulate(b, 1, MPI_INT, target, 0, 1, MPI_INT, MPI_SUM, win), MPI_ERR_RANK, says);
    SAYS(MPI_Get_accumulate(b, 1, MPI_INT, c, 1, MPI_INT, target, 0, 1, MPI_INT, MPI_SUM, win), MPI_ERR_RANK, says);
    SAYS(MPI_Fetch_and_op(b, c, MPI_INT, target, 0, MPI_SUM, win), MPI_ERR_RANK, says);
    SAYS(MPI_Compare_and_swap(b, b, c, MPI_INT, target, 0, win), MPI_ERR_RANK, says);
    SAYS(MPI_Rput(b, 1, MPI_CHAR, target, 0, 1, MPI_CHAR, win, &request), MPI_ERR_RANK, says);
    SAYS(MPI_Rget(b, 1, MPI_CHAR, target, 0, 1, MPI_CHAR, win, &request), MPI_ERR_RANK, says);
    SAYS(MPI_Win_flush(target, win), MPI_ERR_RANK, says);
  }
  SAYS(MPI_Put(b, 1, MPI_CHAR, right(), -1, 1, MPI_CHAR, win), MPI_ERR_DISP, "displacement is -1");
  SAYS(MPI_Get(b, 1, MPI_CHAR, right(), LONG_MIN, 1, MPI_CHAR, win), MPI_ERR_DISP, "displacement is -9223372036854775808");
  SAYS(MPI_Accumulate(b, 1, MPI_INT, right(), -4, 1, MPI_INT, MPI_SUM, win), MPI_ERR_DISP, "displacement is -4");
  SAYS(MPI_Get_accumulate(b, 1, MPI_INT, c, 1, MPI_INT, right(), -4, 1, MPI_INT, MPI_SUM, win), MPI_ERR_DISP, "is -4");
  SAYS(MPI_Fetch_and_op(b, c, MPI_INT, right(), -4, MPI_SUM, win), MPI_ERR_DISP, "displacement is -4");
  SAYS(MPI_Compare_and_swap(b, b, c, MPI_INT, right(), -4, win), MPI_ERR_DISP, "displacement is -4");
  SAYS(MPI_Rput(b, 1, MPI_CHAR, right(), -1, 1, MPI_CHAR, win, &request), MPI_ERR_DISP, "displacement is -1");
  FAILS(MPI_Rput(b, 1, MPI_CHAR, MPI_PROC_NULL, 0, -1, MPI_CHAR, win, &request), MPI_ERR_COUNT);
  FAILS(MPI_Put(b, 1, MPI_CHAR, MPI_PROC_NULL, 0, -1, MPI_CHAR, win), MPI_ERR_COUNT);
  FAILS(MPI_Rget(b, -1, MPI_CHAR, MPI_PROC_NULL, 0, 1, MPI_CHAR, win, &request), MPI_ERR_COUNT);
  FAILS(MPI_Raccumulate(b, 1, MPI_DATATYPE_NULL, MPI_PROC_NULL, 0, 1, MPI_INT, MPI_SUM, win, &request), MPI_ERR_TYPE);
  SAYS(MPI_Get_accumulate(b, 1, MPI_INT, c, -1, MPI_INT, right(), 0, 1, MPI_INT, MPI_NO_OP, win), MPI_ERR_COUNT,
       "the result count is -1");
  SAYS(MPI_Put(b, 3, MPI_INT, right(), 0, 2, MPI_INT, win), MPI_ERR_TYPE, "3 × MPI_INT (12 bytes) of the origin",
       "2 × MPI_INT (8 bytes) of the target");
  SAYS(MPI_Get(b, 1, MPI_CHAR, right(), 0, 1, MPI_DOUBLE, win), MPI_ERR_TYPE, "1 × MPI_DOUBLE (8 bytes) of the target",
       "1 × MPI_CHAR (1 bytes) of the origin");
  SAYS(MPI_Rput(b, 2, MPI_INT, right(), 0, 1, wide, win, &request), MPI_ERR_TYPE, "a derived datatype (2 bytes)");
  OK(MPI_Win_unlock_all(win));
  SAYS(MPI_Win_lock(MPI_LOCK_SHARED, INT_MIN, 0, win), MPI_ERR_RANK, "rank -2147483648 is");
  /* There a displacement is an address. */
  OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &dynamic));
  OK(MPI_Win_set_errhandler(dynamic, MPI_ERRORS_RETURN));
  OK(MPI_Win_lock_all(0, dynamic));
  FAILS(MPI_Put(b, 1, MPI_CHAR, right(), -4096, 1, MPI_CHAR, dynamic), MPI_ERR_RMA_RANGE);
  OK(MPI_Win_unlock_all(dynamic));
  OK(MPI_Win_free(&dynamic));
  OK(MPI_Type_free(&wide));
}

/* Places for results that are none. */
static void nowhere(void) {
  MPI_Win shared;
  MPI_Comm near = machine(MPI_COMM_WORLD);
  MPI_Aint bytes;
  int unit, flag;
  char *at, memory[8];
  void *value;
  OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
  FAILS(MPI_Win_free(NULL), MPI_ERR_ARG);
  FAILS(MPI_Win_create(memory, 8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, NULL), MPI_ERR_ARG);
  FAILS(MPI_Win_allocate(8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &at, NULL), MPI_ERR_ARG);
  FAILS(MPI_Win_allocate(8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, NULL, &shared), MPI_ERR_ARG);
  FAILS(MPI_Win_allocate_shared(8, 1, MPI_INFO_NULL, MPI_COMM_SELF, &at, NULL), MPI_ERR_ARG);
  FAILS(MPI_Win_allocate_shared(8, 1, MPI_INFO_NULL, MPI_COMM_SELF, NULL, &shared), MPI_ERR_ARG);
  FAILS(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, NULL), MPI_ERR_ARG);
  FAILS(MPI_Alloc_mem(8, MPI_INFO_NULL, NULL), MPI_ERR_ARG);
  FAILS(MPI_Win_get_info(win, NULL), MPI_ERR_ARG);
  FAILS(MPI_Win_get_group(win, NULL), MPI_ERR_ARG);
  FAILS(MPI_Win_set_info(win, MPI_INFO_NULL), MPI_ERR_INFO);
  CHECK(MPI_Win_get_attr(win, MPI_WIN_SIZE, NULL, &flag) != MPI_SUCCESS);
  CHECK(MPI_Win_get_attr(win, MPI_WIN_SIZE, &value, NULL) != MPI_SUCCESS);
  FAILS(MPI_Win_test(win, NULL), MPI_ERR_ARG);
  OK(MPI_Win_allocate_shared(8, 1, MPI_INFO_NULL, near, &at, &shared));
  OK(MPI_Win_set_errhandler(shared, MPI_ERRORS_RETURN));
  FAILS(MPI_Win_shared_query(shared, 0, NULL, &unit, &at), MPI_ERR_ARG);
  FAILS(MPI_Win_shared_query(shared, 0, &bytes, NULL, &at), MPI_ERR_ARG);
  FAILS(MPI_Win_shared_query(shared, 0, &bytes, &unit, NULL), MPI_ERR_ARG);
  SAYS(MPI_Win_shared_query(shared, INT_MIN, &bytes, &unit, &at), MPI_ERR_RANK, "rank -2147483648 is");
  OK(MPI_Win_lock_all(0, win));
  FAILS(MPI_Rput(memory, 1, MPI_CHAR, right(), 0, 1, MPI_CHAR, win, NULL), MPI_ERR_ARG);
  OK(MPI_Win_unlock_all(win));
  OK(MPI_Win_free(&shared));
  OK(MPI_Comm_free(&near));
}

static void sum(void *in, void *inout, int *len, MPI_Datatype *type) {}

static void operations(void) {
  char b[BYTES] = {0}, c[BYTES] = {0};
  int one = 1;
  MPI_Request request;
  MPI_Op own;
  MPI_Datatype uncommitted, wide;
  OK(MPI_Op_create(sum, 1, &own));
  OK(MPI_Type_contiguous(2, MPI_INT, &uncommitted));
  OK(MPI_Type_vector(2, 1, 100, MPI_CHAR, &wide));
  OK(MPI_Type_commit(&wide));
  OK(MPI_Win_lock_all(0, win));
  FAILS(MPI_Put(b, -1, MPI_CHAR, right(), 0, 1, MPI_CHAR, win), MPI_ERR_COUNT);
  FAILS(MPI_Put(b, 1, MPI_CHAR, right(), 0, -1, MPI_CHAR, win), MPI_ERR_COUNT);
  FAILS(MPI_Get(b, -1, MPI_CHAR, right(), 0, 1, MPI_CHAR, win), MPI_ERR_COUNT);
  FAILS(MPI_Get(b, 1, MPI_CHAR, right(), 0, -5, MPI_CHAR, win), MPI_ERR_COUNT);
  FAILS(MPI_Accumulate(b, -1, MPI_CHAR, right(), 0, -1, MPI_CHAR, MPI_SUM, win), MPI_ERR_COUNT);
  FAILS(MPI_Get_accumulate(b, 1, MPI_CHAR, c, -1, MPI_CHAR, right(), 0, 1, MPI_CHAR, MPI_SUM, win), MPI_ERR_COUNT);
  FAILS(MPI_Rput(b, -1, MPI_CHAR, right(), 0, 1, MPI_CHAR, win, &request), MPI_ERR_COUNT);
  FAILS(MPI_Put(b, 1, MPI_CHAR, size, 0, 1, MPI_CHAR, win), MPI_ERR_RANK);
  FAILS(MPI_Put(b, 1, MPI_CHAR, -77, 0, 1, MPI_CHAR, win), MPI_ERR_RANK);
  FAILS(MPI_Get(b, 1, MPI_CHAR, size, 0, 1, MPI_CHAR, win), MPI_ERR_RANK);
  FAILS(MPI_Fetch_and_op(b, c, MPI_INT, size, 0, MPI_SUM, win), MPI_ERR_RANK);
  FAILS(MPI_Compare_and_swap(b, b, c, MPI_INT, -9, 0, win), MPI_ERR_RANK);
  FAILS(MPI_Rget(b, 1, MPI_CHAR, size, 0, 1, MPI_CHAR, win, &request), MPI_ERR_RANK);
  FAILS(MPI_Put(b, 2, MPI_CHAR, right(), BYTES - 1, 2, MPI_CHAR, win), MPI_ERR_RMA_RANGE);
  FAILS(MPI_Put(b, 1, MPI_CHAR, right(), BYTES, 1, MPI_CHAR, win), MPI_ERR_RMA_RANGE);
  FAILS(MPI_Get(b, 1, MPI_CHAR, right(), (MPI_Aint)1 << 60, 1, MPI_CHAR, win), MPI_ERR_RMA_RANGE);
  FAILS(MPI_Put(b, 2, MPI_CHAR, right(), 0, 1, wide, win), MPI_ERR_RMA_RANGE);
  FAILS(MPI_Accumulate(&one, 1, MPI_INT, right(), BYTES - 3, 1, MPI_INT, MPI_SUM, win), MPI_ERR_RMA_RANGE);
  FAILS(MPI_Put(b, 4, MPI_CHAR, right(), 0, 4, MPI_DATATYPE_NULL, win), MPI_ERR_TYPE);
  FAILS(MPI_Put(b, 4, MPI_DATATYPE_NULL, right(), 0, 4, MPI_CHAR, win), MPI_ERR_TYPE);
  FAILS(MPI_Fetch_and_op(b, c, wide, right(), 0, MPI_SUM, win), MPI_ERR_TYPE);
  FAILS(MPI_Put(b, 1, uncommitted, right(), 0, 8, MPI_BYTE, win), MPI_ERR_TYPE);
  FAILS(MPI_Accumulate(b, 1, MPI_INT, right(), 0, 1, MPI_INT, own, win), MPI_ERR_OP);
  FAILS(MPI_Fetch_and_op(b, c, MPI_INT, right(), 0, own, win), MPI_ERR_OP);
  FAILS(MPI_Accumulate(b, 1, MPI_INT, right(), 0, 1, MPI_INT, MPI_OP_NULL, win), MPI_ERR_OP);
  FAILS(MPI_Accumulate(b, 1, MPI_DOUBLE, right(), 0, 1, MPI_DOUBLE, MPI_BXOR, win), MPI_ERR_OP);
  FAILS(MPI_Accumulate(b, 1, MPI_INT, right(), 0, 1, MPI_INT, MPI_MAXLOC, win), MPI_ERR_OP);
  FAILS(MPI_Accumulate(b, 1, MPI_INT, right(), 0, 1, MPI_INT, MPI_NO_OP, win), MPI_ERR_OP);
  OK(MPI_Win_flush(right(), win));
  OK(MPI_Win_unlock_all(win));
  OK(MPI_Op_free(&own));
  OK(MPI_Type_free(&uncommitted));
  OK(MPI_Type_free(&wide));
}

/* Which only collective calls take. Buffers that a call ignores may be anything. */
static void in_place(void) {
  char b[BYTES] = {0}, c[BYTES] = {0};
  MPI_Request request;
  MPI_Datatype wide;
  OK(MPI_Type_vector(2, 1, 100, MPI_CHAR, &wide));
  OK(MPI_Type_commit(&wide));
  OK(MPI_Win_lock_all(0, win));
  for (int i = 0; i < 2; i++) {
    int to = i ? right() : rank;
    SAYS(MPI_Put(MPI_IN_PLACE, 1, MPI_LONG, to, 0, 1, MPI_LONG, win), MPI_ERR_BUFFER, "the origin buffer is MPI_IN_PLACE");
    FAILS(MPI_Put(MPI_IN_PLACE, 7, MPI_CHAR, to, 0, 7, MPI_CHAR, win), MPI_ERR_BUFFER);
    FAILS(MPI_Put(MPI_IN_PLACE, 1, wide, to, 0, 2, MPI_CHAR, win), MPI_ERR_BUFFER);
    FAILS(MPI_Get(MPI_IN_PLACE, 1, MPI_LONG, to, 0, 1, MPI_LONG, win), MPI_ERR_BUFFER);
    FAILS(MPI_Get(MPI_IN_PLACE, 7, MPI_CHAR, to, 0, 7, MPI_CHAR, win), MPI_ERR_BUFFER);
    FAILS(MPI_Get(MPI_IN_PLACE, 1, wide, to, 0, 2, MPI_CHAR, win), MPI_ERR_BUFFER);
    FAILS(MPI_Accumulate(MPI_IN_PLACE, 1, MPI_LONG, to, 0, 1, MPI_LONG, MPI_SUM, win), MPI_ERR_BUFFER);
    FAILS(MPI_Accumulate(MPI_IN_PLACE, 3, MPI_INT, to, 0, 3, MPI_INT, MPI_MAX, win), MPI_ERR_BUFFER);
    FAILS(MPI_Get_accumulate(MPI_IN_PLACE, 1, MPI_INT, c, 1, MPI_INT, to, 0, 1, MPI_INT, MPI_SUM, win), MPI_ERR_BUFFER);
    SAYS(MPI_Get_accumulate(b, 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, to, 0, 1, MPI_INT, MPI_SUM, win), MPI_ERR_BUFFER,
         "the result buffer is MPI_IN_PLACE");
    FAILS(MPI_Rput(MPI_IN_PLACE, 1, MPI_LONG, to, 0, 1, MPI_LONG, win, &request), MPI_ERR_BUFFER);
    FAILS(MPI_Rget(MPI_IN_PLACE, 1, MPI_LONG, to, 0, 1, MPI_LONG, win, &request), MPI_ERR_BUFFER);
    FAILS(MPI_Raccumulate(MPI_IN_PLACE, 1, MPI_INT, to, 0, 1, MPI_INT, MPI_SUM, win, &request), MPI_ERR_BUFFER);
    FAILS(MPI_Rget_accumulate(b, 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, to, 0, 1, MPI_INT, MPI_SUM, win, &request),
          MPI_ERR_BUFFER);
    FAILS(MPI_Fetch_and_op(MPI_IN_PLACE, c, MPI_LONG, to, 0, MPI_SUM, win), MPI_ERR_BUFFER);
    FAILS(MPI_Fetch_and_op(b, MPI_IN_PLACE, MPI_LONG, to, 0, MPI_SUM, win), MPI_ERR_BUFFER);
    FAILS(MPI_Fetch_and_op(MPI_IN_PLACE, MPI_IN_PLACE, MPI_LONG, to, 0, MPI_NO_OP, win), MPI_ERR_BUFFER);
    FAILS(MPI_Compare_and_swap(MPI_IN_PLACE, b, c, MPI_LONG, to, 0, win), MPI_ERR_BUFFER);
    FAILS(MPI_Compare_and_swap(b, MPI_IN_PLACE, c, MPI_LONG, to, 0, win), MPI_ERR_BUFFER);
    FAILS(MPI_Compare_and_swap(b, b, MPI_IN_PLACE, MPI_LONG, to, 0, win), MPI_ERR_BUFFER);
    OK(MPI_Fetch_and_op(MPI_IN_PLACE, c, MPI_LONG, to, 0, MPI_NO_OP, win));
    OK(MPI_Get_accumulate(MPI_IN_PLACE, 1, MPI_INT, c, 1, MPI_INT, to, 0, 1, MPI_INT, MPI_NO_OP, win));
    OK(MPI_Win_flush(to, win));
    EQUAL(c[0], 7);
  }
  OK(MPI_Win_unlock_all(win));
  OK(MPI_Type_free(&wide));
}

static void epochs(void) {
  char b = 0;
  MPI_Group world;
  OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
  FAILS(MPI_Put(&b, 1, MPI_CHAR, right(), 0, 1, MPI_CHAR, win), MPI_ERR_RMA_SYNC);
  FAILS(MPI_Win_unlock(right(), win), MPI_ERR_RMA_SYNC);
  FAILS(MPI_Win_unlock_all(win), MPI_ERR_RMA_SYNC);
  FAILS(MPI_Win_complete(win), MPI_ERR_RMA_SYNC);
  FAILS(MPI_Win_wait(win), MPI_ERR_RMA_SYNC);
  FAILS(MPI_Win_flush(right(), win), MPI_ERR_RMA_SYNC);
  FAILS(MPI_Win_flush_all(win), MPI_ERR_RMA_SYNC);
  FAILS(MPI_Win_flush_local(right(), win), MPI_ERR_RMA_SYNC);
  OK(MPI_Win_lock(MPI_LOCK_SHARED, right(), 0, win));
  FAILS(MPI_Win_lock(MPI_LOCK_SHARED, right(), 0, win), MPI_ERR_RMA_SYNC);
  FAILS(MPI_Win_lock_all(0, win), MPI_ERR_RMA_SYNC);
  FAILS(MPI_Win_start(world, 0, win), MPI_ERR_RMA_SYNC);
  FAILS(MPI_Win_fence(0, win), MPI_ERR_RMA_SYNC);
  if (size > 1) FAILS(MPI_Put(&b, 1, MPI_CHAR, rank, 0, 1, MPI_CHAR, win), MPI_ERR_RMA_SYNC);
  OK(MPI_Win_unlock(right(), win));
  FAILS(MPI_Win_lock(12345, right(), 0, win), MPI_ERR_LOCKTYPE);
  FAILS(MPI_Win_lock(MPI_LOCK_SHARED, size, 0, win), MPI_ERR_RANK);
  FAILS(MPI_Win_lock(MPI_LOCK_SHARED, right(), 1 << 30, win), MPI_ERR_ASSERT);
  FAILS(MPI_Win_lock_all(1 << 30, win), MPI_ERR_ASSERT);
  FAILS(MPI_Win_fence(1 << 30, win), MPI_ERR_ASSERT);
  FAILS(MPI_Win_post(MPI_GROUP_NULL, 0, win), MPI_ERR_GROUP);
  FAILS(MPI_Win_start(MPI_GROUP_NULL, 0, win), MPI_ERR_GROUP);
  OK(MPI_Group_free(&world));
}

static void flavours(void) {
  MPI_Win dynamic;
  MPI_Aint bytes;
  int unit;
  void *at;
  char memory[8], b = 0;
  FAILS(MPI_Win_attach(win, memory, 8), MPI_ERR_RMA_FLAVOR);
  FAILS(MPI_Win_detach(win, memory), MPI_ERR_RMA_FLAVOR);
  OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &dynamic));
  OK(MPI_Win_set_errhandler(dynamic, MPI_ERRORS_RETURN));
  FAILS(MPI_Win_attach(dynamic, memory, -8), MPI_ERR_SIZE);
  FAILS(MPI_Win_shared_query(dynamic, 0, &bytes, &unit, &at), MPI_ERR_RMA_FLAVOR);
  OK(MPI_Win_lock_all(0, dynamic));
  FAILS(MPI_Put(&b, 1, MPI_CHAR, right(), 4096, 1, MPI_CHAR, dynamic), MPI_ERR_RMA_RANGE);
  OK(MPI_Win_unlock_all(dynamic));
  OK(MPI_Win_free(&dynamic));
}

static void creation(void) {
  MPI_Win none;
  char *at, memory[8];
  OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  FAILS(MPI_Win_allocate(8, 0, MPI_INFO_NULL, MPI_COMM_WORLD, &at, &none), MPI_ERR_DISP);
  FAILS(MPI_Win_allocate(8, -1, MPI_INFO_NULL, MPI_COMM_WORLD, &at, &none), MPI_ERR_DISP);
  FAILS(MPI_Win_create(memory, -8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &none), MPI_ERR_SIZE);
  FAILS(MPI_Win_create(memory, 8, 1, MPI_INFO_NULL, MPI_COMM_NULL, &none), MPI_ERR_COMM);
  /* Wrong on one rank only: nobody waits for ever. */
  int code = MPI_Win_allocate(rank == size - 1 ? -8 : 8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &at, &none);
  CHECK(code != MPI_SUCCESS);
  if (rank == size - 1) FAILS(code, MPI_ERR_SIZE);
  code = MPI_Win_create(memory, 8, rank == 0 ? 0 : 1, MPI_INFO_NULL, MPI_COMM_WORLD, &none);
  CHECK(code != MPI_SUCCESS);
  none = MPI_WIN_NULL;
  FAILS(MPI_Win_free(&none), MPI_ERR_WIN);
  FAILS(MPI_Win_fence(0, none), MPI_ERR_WIN);
  FAILS(MPI_Put(memory, 1, MPI_CHAR, 0, 0, 1, MPI_CHAR, none), MPI_ERR_WIN);
}

int main(int argc, char **argv) {
  begin(&argc, &argv);
  OK(MPI_Win_allocate(BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
  OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
  memset(base, 7, BYTES);
  MPI_Barrier(MPI_COMM_WORLD);
  operations();
  in_place();
  MPI_Barrier(MPI_COMM_WORLD);
  epochs();
  flavours();
  creation();
  numbers();
  nowhere();
  for (int i = 0; i < BYTES; i++) EQUAL_AT(i, base[i], 7);
  char value = 1 + rank;
  OK(MPI_Win_fence(0, win));
  OK(MPI_Put(&value, 1, MPI_CHAR, right(), 0, 1, MPI_CHAR, win));
  OK(MPI_Win_fence(0, win));
  EQUAL(base[0], 1 + left());
  /* An open epoch keeps the window. */
  OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
  OK(MPI_Win_lock(MPI_LOCK_SHARED, right(), 0, win));
  FAILS(MPI_Win_free(&win), MPI_ERR_RMA_SYNC);
  OK(MPI_Win_unlock(right(), win));
  OK(MPI_Win_free(&win));
  return end();
}
