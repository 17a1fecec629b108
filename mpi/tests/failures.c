/* Requests that fail, among requests of the host's own that do not: what each wait and test says of them. Over a device
 * of which one operation of many fails, and with it the connection; the number of the way to wait is the argument. */
#include <stdarg.h>
#include "check.h"

/* The last two are statuses by which ci/mpi knows: a request failed and was told; the operation that failed was one
 * whose call said so. */
enum { N = 512, ALL = 6, ROUNDS = 100000, PASSED = 33, REFUSED = 34 };
static int told, failed, refused;
static MPI_Request r[ALL];

static void handler(MPI_Win *win, int *code, ...) {
  CHECK(strstr(sentence(*code), "MPI_Rget"));
  told++;
}

/* Operations of windows are those in the middle. */
static int is_ours(int at) { return at > 0 && at < ALL - 1; }

/* What a call returned that ends one request. */
static void ended_one(int code, int at) {
  CHECK(at >= 0 && at < ALL && r[at] == MPI_REQUEST_NULL);
  if (code == MPI_SUCCESS) return;
  CHECK(is_ours(at));
  CHECK(strstr(sentence(code), "MPI_Rget"));
  failed++;
}

/* What a call returned that ends several, whose statuses are of these requests. */
static void ended_several(int code, int done, const int *at, const MPI_Status *statuses) {
  int class, before = failed;
  for (int i = 0; i < done; i++) CHECK(r[at[i]] == MPI_REQUEST_NULL);
  if (code == MPI_SUCCESS) return;
  MPI_Error_class(code, &class);
  EQUAL(class, MPI_ERR_IN_STATUS);
  for (int i = 0; i < done; i++)
    if (is_ours(at[i]))
      ended_one(statuses[i].MPI_ERROR, at[i]);
    else
      EQUAL_AT(at[i], statuses[i].MPI_ERROR, MPI_SUCCESS);
  CHECK(failed > before);
}

static void finish(int how) {
  static const int each[ALL] = {0, 1, 2, 3, 4, 5};
  MPI_Status statuses[ALL];
  int flag, at, code, class, before, left = 0, some[ALL];
  for (int i = 0; i < ALL; i++) statuses[i].MPI_ERROR = 4711, left += r[i] != MPI_REQUEST_NULL;
  switch (how) {
    case 0:
      for (int i = 0; i < ALL; i++) ended_one(MPI_Wait(&r[i], &statuses[i]), i);
      break;
    case 1:
      ended_several(MPI_Waitall(ALL, r, statuses), ALL, each, statuses);
      break;
    case 2:
      before = told;
      code = MPI_Waitall(ALL, r, MPI_STATUSES_IGNORE);
      MPI_Error_class(code, &class);
      EQUAL(class, told > before ? MPI_ERR_IN_STATUS : MPI_SUCCESS);
      failed += told - before;
      break;
    case 3:
      for (int i = 0; i < ALL; i++) {
        do {
          before = told;
          code = MPI_Test(&r[i], &flag, MPI_STATUS_IGNORE);
          if (!flag) EQUAL(code, MPI_SUCCESS);
          EQUAL(told - before, code != MPI_SUCCESS);
        } while (!flag);
        ended_one(code, i);
      }
      break;
    case 4:
      for (; left; left--) {
        code = MPI_Waitany(ALL, r, &at, MPI_STATUS_IGNORE);
        ended_one(code, at);
      }
      break;
    case 5:
      do {
        before = told;
        code = MPI_Testall(ALL, r, &flag, statuses);
        if (!flag) {
          EQUAL(code, MPI_SUCCESS);
          EQUAL(told, before);
          CHECK(r[0] != MPI_REQUEST_NULL && r[ALL - 1] != MPI_REQUEST_NULL);
        }
      } while (!flag);
      ended_several(code, ALL, each, statuses);
      break;
    case 6:
    case 8:
      while (left) {
        for (int i = 0; i < ALL; i++) statuses[i].MPI_ERROR = 4711;
        code = how == 6 ? MPI_Waitsome(ALL, r, &at, some, statuses) : MPI_Testsome(ALL, r, &at, some, statuses);
        CHECK(at >= (how == 6) && at <= left);
        ended_several(code, at, some, statuses);
        left -= at;
      }
      break;
    case 7:
      while (left) {
        before = told;
        code = MPI_Testany(ALL, r, &at, &flag, MPI_STATUS_IGNORE);
        EQUAL(told - before, code != MPI_SUCCESS);
        if (flag) ended_one(code, at), left--;
      }
      break;
    case 9:
      /* Looking ends nothing, and so tells nothing. */
      for (int i = 0; i < ALL; i++)
        if (r[i] != MPI_REQUEST_NULL) {
          before = told;
          do OK(MPI_Request_get_status(r[i], &flag, MPI_STATUS_IGNORE));
          while (!flag);
          CHECK(r[i] != MPI_REQUEST_NULL);
          EQUAL(told, before);
        }
      ended_several(MPI_Waitall(ALL, r, statuses), ALL, each, statuses);
      break;
  }
  for (int i = 0; i < ALL; i++) CHECK(r[i] == MPI_REQUEST_NULL);
}

int main(int argc, char **argv) {
  begin(&argc, &argv);
  int *base, got[ALL][N], sent = 0, received, how = argc > 1 ? atoi(argv[1]) : 1;
  MPI_Win win;
  MPI_Errhandler counts;
  EQUAL(size, 2);
  OK(MPI_Win_allocate(N * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
  OK(MPI_Win_create_errhandler(handler, &counts));
  OK(MPI_Win_set_errhandler(win, counts));
  for (int i = 0; i < N; i++) base[i] = i;
  OK(MPI_Barrier(MPI_COMM_WORLD));
  if (rank == 1) {
    /* Until the other ends the job. */
    OK(MPI_Recv(&received, 1, MPI_INT, 0, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    FAIL("no request failed");
  }
  OK(MPI_Win_lock_all(0, win));
  for (int round = 0; round < ROUNDS && !told; round++) {
    for (int i = 0; i < ALL; i++) r[i] = MPI_REQUEST_NULL;
    OK(MPI_Irecv(&received, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &r[0]));
    for (int i = 1; i < ALL - 1; i++) {
      memset(got[i], 0x55, sizeof got[i]);
      /* The connection may have failed by now: then there is no request. */
      if (MPI_Rget(got[i], N, MPI_INT, 1, 0, N, MPI_INT, win, &r[i]) != MPI_SUCCESS) refused++;
    }
    OK(MPI_Isend(&sent, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &r[ALL - 1]));
    finish(how);
    EQUAL(told, failed + refused);
    if (told) continue;
    for (int i = 1; i < ALL - 1; i++)
      for (int j = 0; j < N; j++) EQUAL_AT(j, got[i][j], j);
  }
  CHECK(told > 0);
  /* Nothing goes over that connection any more, the end of the window neither. What is printed just before such an
   * end may be lost. */
  MPI_Abort(MPI_COMM_WORLD, failed ? PASSED : REFUSED);
  return 0;
}
