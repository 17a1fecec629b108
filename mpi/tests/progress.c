/* A rank that waits in a call on a window still takes part in what the host has under way with it. */
#include "check.h"

enum { LEN = 1 << 18 };
static int *base, data[LEN];
static MPI_Win win;

/* Two ranks: one sends much and only then comes to the wait, in which the other is already. */
static void begin_receive(MPI_Request *request) {
  OK(MPI_Irecv(data, LEN, MPI_INT, 1, 5, MPI_COMM_WORLD, request));
}

static void send(void) {
  for (int i = 0; i < LEN; i++) data[i] = 3 * i;
  OK(MPI_Send(data, LEN, MPI_INT, 0, 5, MPI_COMM_WORLD));
}

static void end_receive(MPI_Request *request) {
  OK(MPI_Wait(request, MPI_STATUS_IGNORE));
  for (int i = 0; i < LEN; i++) EQUAL_AT(i, data[i], 3 * i);
  memset(data, 0, sizeof data);
}

static void fence(void) {
  MPI_Request request;
  if (rank == 0) begin_receive(&request);
  if (rank == 1) send();
  OK(MPI_Win_fence(0, win));
  if (rank == 0) end_receive(&request);
}

static void lock(void) {
  MPI_Request request;
  if (rank == 0) begin_receive(&request);
  if (rank == 1) OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
  /* Rank 0 comes for a lock which rank 1 has. */
  if (rank < 2) OK(MPI_Sendrecv(NULL, 0, MPI_INT, 1 - rank, 6, NULL, 0, MPI_INT, 1 - rank, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  if (rank == 0) OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
  if (rank == 1) send();
  if (rank < 2) OK(MPI_Win_unlock(0, win));
  if (rank == 0) end_receive(&request);
}

static void post(int by_test) {
  if (rank > 1) return;
  MPI_Request request;
  MPI_Group world, other;
  OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
  OK(MPI_Group_incl(world, 1, (int[]){1 - rank}, &other));
  if (rank == 0) {
    begin_receive(&request);
    OK(MPI_Win_post(other, 0, win));
    if (by_test) {
      int flag = 0;
      while (!flag) OK(MPI_Win_test(win, &flag));
    } else {
      OK(MPI_Win_wait(win));
    }
    end_receive(&request);
  } else {
    OK(MPI_Win_start(other, 0, win));
    send();
    OK(MPI_Win_complete(win));
  }
  OK(MPI_Group_free(&world));
  OK(MPI_Group_free(&other));
}

/* The same in a start, whose post comes late. */
static void start(void) {
  if (rank > 1) return;
  MPI_Request request;
  MPI_Group world, other;
  int value = 9;
  OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
  OK(MPI_Group_incl(world, 1, (int[]){1 - rank}, &other));
  if (rank == 0) {
    begin_receive(&request);
    OK(MPI_Win_start(other, 0, win));
    OK(MPI_Put(&value, 1, MPI_INT, 1, 0, 1, MPI_INT, win));
    OK(MPI_Win_complete(win));
    end_receive(&request);
  } else {
    send();
    OK(MPI_Win_post(other, 0, win));
    OK(MPI_Win_wait(win));
    EQUAL(base[0], 9);
  }
  OK(MPI_Group_free(&world));
  OK(MPI_Group_free(&other));
}

/* No call waits here, but the program does: for a word of its own, or of another's. */
static void spin(int by_sync) {
  if (rank > 1) return;
  MPI_Request request;
  int value = 77, got = 0;
  if (rank == 0) *(volatile int *)base = 0;
  OK(MPI_Sendrecv(NULL, 0, MPI_INT, 1 - rank, 7, NULL, 0, MPI_INT, 1 - rank, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  OK(MPI_Win_lock_all(0, win));
  if (rank == 0) {
    begin_receive(&request);
    while (got != 77) {
      if (by_sync) {
        OK(MPI_Win_sync(win));
        got = *(volatile int *)base;
      } else {
        OK(MPI_Get(&got, 1, MPI_INT, 0, 0, 1, MPI_INT, win));
        OK(MPI_Win_flush(0, win));
      }
    }
    end_receive(&request);
  } else {
    send();
    OK(MPI_Accumulate(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_REPLACE, win));
  }
  OK(MPI_Win_unlock_all(win));
}

/* And in the calls that create and free. */
static void creation(void) {
  MPI_Request request;
  MPI_Win other;
  int *memory;
  if (rank == 0) begin_receive(&request);
  if (rank == 1) send();
  OK(MPI_Win_allocate(64, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &other));
  if (rank == 0) end_receive(&request), begin_receive(&request);
  if (rank == 1) send();
  OK(MPI_Win_free(&other));
  if (rank == 0) end_receive(&request);
}

int main(int argc, char **argv) {
  begin(&argc, &argv);
  OK(MPI_Win_allocate(64, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
  for (int round = 0; size > 1 && round < 3; round++) {
    OK(MPI_Win_fence(0, win));
    fence();
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    lock();
    post(0);
    post(1);
    start();
    spin(0);
    spin(1);
    creation();
  }
  OK(MPI_Win_free(&win));
  return end();
}
