/* Nobody as a target: every call succeeds and does nothing, in each epoch and in none. */
#include "check.h"

static MPI_Win win;
static int mine = 5, got = 6, expect = 1;

static void ended(MPI_Request *request) {
  OK(MPI_Wait(request, MPI_STATUS_IGNORE));
  CHECK(*request == MPI_REQUEST_NULL);
}

static void operations(void) {
  MPI_Request request;
  OK(MPI_Put(&mine, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win));
  OK(MPI_Get(&got, 1, MPI_INT, MPI_PROC_NULL, 999, 1, MPI_INT, win));
  /* As where a neighbour's count is computed. */
  OK(MPI_Put(&mine, 1, MPI_INT, MPI_PROC_NULL, 0, 0, MPI_INT, win));
  OK(MPI_Get(&got, 0, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win));
  OK(MPI_Accumulate(&mine, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, MPI_SUM, win));
  OK(MPI_Get_accumulate(&mine, 1, MPI_INT, &got, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, MPI_SUM, win));
  OK(MPI_Fetch_and_op(&mine, &got, MPI_INT, MPI_PROC_NULL, 0, MPI_SUM, win));
  OK(MPI_Compare_and_swap(&mine, &expect, &got, MPI_INT, MPI_PROC_NULL, 0, win));
  OK(MPI_Rput(&mine, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win, &request));
  ended(&request);
  OK(MPI_Rput(&mine, 1, MPI_INT, MPI_PROC_NULL, 0, 0, MPI_INT, win, &request));
  ended(&request);
  OK(MPI_Rget(&got, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win, &request));
  ended(&request);
  OK(MPI_Raccumulate(&mine, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, MPI_SUM, win, &request));
  ended(&request);
  OK(MPI_Rget_accumulate(&mine, 1, MPI_INT, &got, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, MPI_SUM, win, &request));
  ended(&request);
  OK(MPI_Win_flush(MPI_PROC_NULL, win));
  OK(MPI_Win_flush_local(MPI_PROC_NULL, win));
}

static void locked(void) {
  OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, MPI_PROC_NULL, 0, win));
  operations();
  OK(MPI_Win_unlock(MPI_PROC_NULL, win));
}

int main(int argc, char **argv) {
  begin(&argc, &argv);
  int *base;
  MPI_Group all, self;
  OK(MPI_Win_allocate(16, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
  OK(MPI_Win_get_group(win, &all));
  OK(MPI_Group_incl(all, 1, &rank, &self));
  base[0] = 8;
  operations();
  locked();
  OK(MPI_Win_lock_all(0, win));
  operations();
  OK(MPI_Win_unlock_all(win));
  OK(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win));
  operations();
  locked();
  OK(MPI_Win_unlock(rank, win));
  OK(MPI_Win_fence(0, win));
  operations();
  OK(MPI_Win_fence(0, win));
  locked();
  /* The fence's epoch may still be used. */
  int seven = 7;
  OK(MPI_Put(&seven, 1, MPI_INT, right(), 1, 1, MPI_INT, win));
  locked();
  OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
  EQUAL(base[1], 7);
  OK(MPI_Win_post(self, 0, win));
  locked();
  OK(MPI_Win_start(self, 0, win));
  operations();
  OK(MPI_Win_complete(win));
  OK(MPI_Win_wait(win));
  OK(MPI_Win_start(MPI_GROUP_EMPTY, 0, win));
  operations();
  OK(MPI_Win_complete(win));
  EQUAL(got, 6);
  EQUAL(base[0], 8);
  OK(MPI_Group_free(&self));
  OK(MPI_Group_free(&all));
  OK(MPI_Win_free(&win));
  return end();
}
