/* Requests in epochs of fence and start, and MPI_Win_sync in any: MPI forbids them, but hosts accept them. With the
 * argument "refused", each of them is an error. */
#include "check.h"

static long *base;
static MPI_Win win;

static void requests(void) {
  MPI_Request all[4];
  long value = 100 + rank, one = 1, got = -1, old = -1;
  OK(MPI_Rput(&value, 1, MPI_LONG, right(), 0, 1, MPI_LONG, win, &all[0]));
  OK(MPI_Raccumulate(&one, 1, MPI_LONG, right(), 1, 1, MPI_LONG, MPI_SUM, win, &all[1]));
  OK(MPI_Rget(&got, 1, MPI_LONG, right(), 2, 1, MPI_LONG, win, &all[2]));
  OK(MPI_Rget_accumulate(&one, 1, MPI_LONG, &old, 1, MPI_LONG, right(), 3, 1, MPI_LONG, MPI_SUM, win, &all[3]));
  OK(MPI_Waitall(4, all, MPI_STATUSES_IGNORE));
  EQUAL(got, 20 + right());
  EQUAL(old, 30);
}

static void fill(void) {
  for (int i = 0; i < 4; i++) base[i] = 10 * i;
  base[2] += rank;
}

static void arrived(void) {
  EQUAL(base[0], 100 + left());
  EQUAL(base[1], 11);
  EQUAL(base[3], 31);
}

static void refused(void) {
  long value = 0;
  MPI_Request request;
  OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
  FAILS(MPI_Win_sync(win), MPI_ERR_RMA_SYNC);
  OK(MPI_Win_fence(0, win));
  OK(MPI_Put(&value, 1, MPI_LONG, rank, 4, 1, MPI_LONG, win));
  FAILS(MPI_Rput(&value, 1, MPI_LONG, right(), 0, 1, MPI_LONG, win, &request), MPI_ERR_RMA_SYNC);
  FAILS(MPI_Rget(&value, 1, MPI_LONG, right(), 0, 1, MPI_LONG, win, &request), MPI_ERR_RMA_SYNC);
  FAILS(MPI_Win_sync(win), MPI_ERR_RMA_SYNC);
  OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
}

int main(int argc, char **argv) {
  begin(&argc, &argv);
  OK(MPI_Win_allocate(5 * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
  if (argc > 1 && !strcmp(argv[1], "refused")) {
    refused();
  } else {
    fill();
    OK(MPI_Win_sync(win));
    OK(MPI_Win_fence(0, win));
    requests();
    OK(MPI_Win_sync(win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    arrived();

    MPI_Group world, from, to;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Group_incl(world, 1, (int[]){left()}, &from));
    OK(MPI_Group_incl(world, 1, (int[]){right()}, &to));
    fill();
    OK(MPI_Win_post(from, 0, win));
    OK(MPI_Win_start(to, 0, win));
    requests();
    OK(MPI_Win_sync(win));
    OK(MPI_Win_complete(win));
    OK(MPI_Win_wait(win));
    arrived();
    OK(MPI_Group_free(&world));
    OK(MPI_Group_free(&from));
    OK(MPI_Group_free(&to));

    /* Without any epoch a request is an error still. */
    long value = 0;
    MPI_Request request;
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    FAILS(MPI_Rput(&value, 1, MPI_LONG, rank, 0, 1, MPI_LONG, win, &request), MPI_ERR_RMA_SYNC);
    OK(MPI_Win_sync(win));
  }
  OK(MPI_Win_free(&win));
  return end();
}
