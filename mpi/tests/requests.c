/* Operations with requests, waited for in every way, among requests of the host's own. */
#include "check.h"

enum { N = 64 };
static int *base;
static MPI_Win win;

static void clear(void) {
  for (int i = 0; i < 4 * N; i++) base[i] = i < N ? 1000 * rank + i : 0;
  OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void mixed(int how) {
  int put[N], got[N], add[N], old[N], sent = rank + 7, received = -1;
  for (int i = 0; i < N; i++) put[i] = rank * 10 + i, add[i] = i, got[i] = old[i] = -1;
  clear();
  OK(MPI_Win_lock_all(0, win));
  MPI_Request r[6];
  OK(MPI_Irecv(&received, 1, MPI_INT, left(), how, MPI_COMM_WORLD, &r[0]));
  OK(MPI_Rput(put, N, MPI_INT, right(), N, N, MPI_INT, win, &r[1]));
  OK(MPI_Rget(got, N, MPI_INT, right(), 0, N, MPI_INT, win, &r[2]));
  OK(MPI_Raccumulate(add, N, MPI_INT, right(), 2 * N, N, MPI_INT, MPI_SUM, win, &r[3]));
  OK(MPI_Rget_accumulate(add, N, MPI_INT, old, N, MPI_INT, right(), 3 * N, N, MPI_INT, MPI_SUM, win, &r[4]));
  OK(MPI_Isend(&sent, 1, MPI_INT, right(), how, MPI_COMM_WORLD, &r[5]));
  MPI_Status statuses[6];
  int flag, at, done = 0, some[6];
  switch (how) {
    case 0:
      for (int i = 0; i < 6; i++) OK(MPI_Wait(&r[i], i % 2 ? &statuses[i] : MPI_STATUS_IGNORE));
      break;
    case 1: OK(MPI_Waitall(6, r, statuses)); break;
    case 2: OK(MPI_Waitall(6, r, MPI_STATUSES_IGNORE)); break;
    case 3:
      for (int i = 0; i < 6; i++)
        do OK(MPI_Test(&r[i], &flag, MPI_STATUS_IGNORE));
        while (!flag);
      break;
    case 4:
      for (int i = 0; i < 6; i++) {
        OK(MPI_Waitany(6, r, &at, &statuses[0]));
        CHECK(at >= 0 && at < 6 && r[at] == MPI_REQUEST_NULL);
      }
      OK(MPI_Waitany(6, r, &at, MPI_STATUS_IGNORE));
      EQUAL(at, MPI_UNDEFINED);
      break;
    case 5:
      do OK(MPI_Testall(6, r, &flag, statuses));
      while (!flag);
      break;
    case 6:
      while (done < 6) {
        OK(MPI_Waitsome(6, r, &at, some, statuses));
        CHECK(at > 0);
        done += at;
      }
      break;
    case 7:
      while (done < 6) {
        OK(MPI_Testany(6, r, &at, &flag, MPI_STATUS_IGNORE));
        CHECK(!flag || (at >= 0 && at < 6));
        done += flag;
      }
      break;
    case 8:
      while (done < 6) {
        OK(MPI_Testsome(6, r, &at, some, MPI_STATUSES_IGNORE));
        done += at;
      }
      break;
    case 9:
      for (int i = 0; i < 6; i++) {
        do OK(MPI_Request_get_status(r[i], &flag, MPI_STATUS_IGNORE));
        while (!flag);
        CHECK(r[i] != MPI_REQUEST_NULL);
      }
      OK(MPI_Waitall(6, r, MPI_STATUSES_IGNORE));
      break;
  }
#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
  if (how == 10) {
    do OK(MPI_Request_get_status_all(6, r, &flag, statuses));
    while (!flag);
  }
  for (int i = 0; how == 11 && i < 6; i++) {
    do OK(MPI_Request_get_status_any(1, &r[i], &at, &flag, MPI_STATUS_IGNORE));
    while (!flag);
    EQUAL(at, 0);
  }
  /* One by one, since MPICH 5.0.2 names one of several at the most. */
  for (int i = 0; how == 12 && i < 6; i++) {
    do OK(MPI_Request_get_status_some(1, &r[i], &done, some, statuses));
    while (done != 1);
  }
#endif
  if (how >= 10) {
    for (int i = 0; i < 6; i++) CHECK(r[i] != MPI_REQUEST_NULL);
    OK(MPI_Waitall(6, r, MPI_STATUSES_IGNORE));
  }
  for (int i = 0; i < 6; i++) CHECK(r[i] == MPI_REQUEST_NULL);
  EQUAL(received, left() + 7);
  for (int i = 0; i < N; i++) {
    EQUAL_AT(i, got[i], 1000 * right() + i);
    EQUAL_AT(i, old[i], 0);
  }
  /* Done here is not done there. */
  OK(MPI_Win_flush(right(), win));
  OK(MPI_Barrier(MPI_COMM_WORLD));
  for (int i = 0; i < N; i++) {
    EQUAL_AT(i, base[N + i], left() * 10 + i);
    EQUAL_AT(i, base[2 * N + i], i);
    EQUAL_AT(i, base[3 * N + i], i);
  }
  OK(MPI_Win_unlock_all(win));
  OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* Many at once, of large data, and freed ones. */
static void many(void) {
  enum { MANY = 500, LARGE = 100000 };
  MPI_Request r[MANY];
  int values[MANY], *large = malloc(LARGE * sizeof(int)), *memory;
  MPI_Win wide;
  OK(MPI_Win_allocate((LARGE + MANY) * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &wide));
  for (int i = 0; i < LARGE; i++) large[i] = rank + 3 * i;
  OK(MPI_Win_lock_all(0, wide));
  for (int i = 0; i < MANY; i++) {
    values[i] = rank * MANY + i;
    OK(MPI_Rput(&values[i], 1, MPI_INT, right(), i, 1, MPI_INT, wide, &r[i]));
  }
  MPI_Request freed, last;
  OK(MPI_Rput(large, LARGE, MPI_INT, right(), MANY, LARGE, MPI_INT, wide, &last));
  OK(MPI_Rput(&values[0], 1, MPI_INT, right(), 0, 1, MPI_INT, wide, &freed));
  OK(MPI_Request_free(&freed));
  CHECK(freed == MPI_REQUEST_NULL);
  OK(MPI_Waitall(MANY, r, MPI_STATUSES_IGNORE));
  OK(MPI_Wait(&last, MPI_STATUS_IGNORE));
  OK(MPI_Win_unlock_all(wide));
  OK(MPI_Barrier(MPI_COMM_WORLD));
  for (int i = 0; i < MANY; i++) EQUAL_AT(i, memory[i], left() * MANY + i);
  for (int i = 0; i < LARGE; i++) EQUAL_AT(i, memory[MANY + i], left() + 3 * i);
  OK(MPI_Win_free(&wide));
  free(large);
}

int main(int argc, char **argv) {
  begin(&argc, &argv);
  OK(MPI_Win_allocate(4 * N * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
  for (int how = 0; how < 13; how++) mixed(how);
  many();
  OK(MPI_Win_free(&win));
  return end();
}
