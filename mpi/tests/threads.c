/* Threads that use one window, and windows of their own, at the same time. */
#include <pthread.h>
#include <stdatomic.h>
#include "check.h"

enum { THREADS = 3, TIMES = 300 };
static long *base;
static MPI_Win win, own[THREADS];
static long *own_base[THREADS];
static MPI_Comm comms[THREADS];

static void *shared(void *arg) {
  long me = (long)arg, one = 1, old, mine = -1;
  MPI_Datatype type;
  OK(MPI_Type_vector(2, 1, 2, MPI_LONG, &type));
  OK(MPI_Type_commit(&type));
  for (int i = 0; i < TIMES; i++) {
    int target = (rank + i) % size;
    OK(MPI_Accumulate(&one, 1, MPI_LONG, target, 0, 1, MPI_LONG, MPI_SUM, win));
    OK(MPI_Fetch_and_op(&one, &old, MPI_LONG, 0, 1, MPI_SUM, win));
    long two[2] = {i, -i}, got[2];
    OK(MPI_Put(two, 2, MPI_LONG, target, 8 + 4 * (rank * THREADS + me), 1, type, win));
    OK(MPI_Win_flush(target, win));
    OK(MPI_Get(got, 2, MPI_LONG, target, 8 + 4 * (rank * THREADS + me), 1, type, win));
    MPI_Request request;
    OK(MPI_Rget(&mine, 1, MPI_LONG, target, 8 + 4 * (rank * THREADS + me), 1, MPI_LONG, win, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Win_flush(target, win));
    OK(MPI_Win_flush(0, win));
    EQUAL(got[0], i);
    EQUAL(got[1], -i);
    EQUAL(mine, i);
    CHECK(old >= 0 && old < (long)THREADS * TIMES * size);
  }
  OK(MPI_Type_free(&type));
  return NULL;
}

static void *alone(void *arg) {
  long me = (long)arg;
  for (int i = 0; i < 30; i++) {
    long value = rank * 1000 + me * 100 + i;
    OK(MPI_Win_fence(0, own[me]));
    OK(MPI_Put(&value, 1, MPI_LONG, right(), 0, 1, MPI_LONG, own[me]));
    OK(MPI_Win_fence(0, own[me]));
    EQUAL(*own_base[me], left() * 1000 + me * 100 + i);
  }
  return NULL;
}

/* All groups of one communicator have one handle, which one thread frees while others pass it; those of two ranks alone
   have another each time. */
static void *meeting(void *arg) {
  long me = (long)arg;
  for (int i = 0; i < TIMES; i++) {
    long value = rank * 10000 + me * 1000 + i;
    MPI_Group all, some;
    int two[2] = {rank, right()};
    OK(MPI_Comm_group(MPI_COMM_WORLD, &all));
    OK(MPI_Group_incl(all, size > 1 ? 2 : 1, two, &some));
    OK(MPI_Win_post(all, 0, own[me]));
    OK(MPI_Win_start(all, 0, own[me]));
    OK(MPI_Put(&value, 1, MPI_LONG, right(), 0, 1, MPI_LONG, own[me]));
    OK(MPI_Group_free(&all));
    OK(MPI_Win_complete(own[me]));
    OK(MPI_Win_wait(own[me]));
    EQUAL(*own_base[me], left() * 10000 + me * 1000 + i);
    OK(MPI_Win_post(some, 0, own[me]));
    OK(MPI_Group_free(&some));
    int from[2] = {rank, left()};
    OK(MPI_Comm_group(MPI_COMM_WORLD, &all));
    OK(MPI_Group_incl(all, size > 1 ? 2 : 1, from, &some));
    OK(MPI_Win_start(some, 0, own[me]));
    OK(MPI_Put(&value, 1, MPI_LONG, left(), 1, 1, MPI_LONG, own[me]));
    OK(MPI_Group_free(&some));
    OK(MPI_Group_free(&all));
    OK(MPI_Win_complete(own[me]));
    OK(MPI_Win_wait(own[me]));
    EQUAL(own_base[me][1], right() * 10000 + me * 1000 + i);
  }
  return NULL;
}

/* Each on a communicator of its own, as MPI asks of collective calls. */
static void *creating(void *arg) {
  long me = (long)arg;
  for (int i = 0; i < 30; i++) {
    MPI_Win mine;
    long *memory, value = rank + me;
    OK(MPI_Win_allocate(64, 8, MPI_INFO_NULL, comms[me], &memory, &mine));
    OK(MPI_Win_fence(0, mine));
    OK(MPI_Put(&value, 1, MPI_LONG, right(), 0, 1, MPI_LONG, mine));
    OK(MPI_Win_fence(0, mine));
    EQUAL(*memory, left() + me);
    OK(MPI_Win_free(&mine));
  }
  return NULL;
}

/* What a window carries may wait for other processes when it goes: here the threads of two processes wait for each
   other, if each process begins with another window. */
static atomic_int begun;

static int deleting(MPI_Win of, int keyval, void *comm, void *extra) {
  atomic_fetch_add(&begun, 1);
  return MPI_Barrier(*(MPI_Comm *)comm);
}

static void *carrying(void *arg) {
  long me = (long)arg;
  MPI_Win mine;
  long *memory;
  int keyval;
  OK(MPI_Win_allocate(64, 8, MPI_INFO_NULL, comms[me], &memory, &mine));
  OK(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, deleting, &keyval, NULL));
  OK(MPI_Win_set_attr(mine, keyval, &comms[me]));
  OK(MPI_Win_free(&mine));
  OK(MPI_Win_free_keyval(&keyval));
  return NULL;
}

static void all(void *(*what)(void *)) {
  pthread_t threads[THREADS];
  for (long i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, what, (void *)i) == 0);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
}

int main(int argc, char **argv) {
  int provided = -1;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  EQUAL(provided, MPI_THREAD_MULTIPLE);
  OK(MPI_Win_allocate(8 * 1024, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
  memset(base, 0, 8 * 1024);
  for (int i = 0; i < THREADS; i++) {
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
    OK(MPI_Win_allocate(64, 8, MPI_INFO_NULL, comms[i], &own_base[i], &own[i]));
  }
  OK(MPI_Barrier(MPI_COMM_WORLD));
  OK(MPI_Win_lock_all(0, win));
  all(shared);
  OK(MPI_Win_unlock_all(win));
  OK(MPI_Barrier(MPI_COMM_WORLD));
  long sum;
  OK(MPI_Allreduce(&base[0], &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
  EQUAL(sum, (long)THREADS * TIMES * size);
  if (rank == 0) EQUAL(base[1], (long)THREADS * TIMES * size);
  all(alone);
  all(meeting);
  all(creating);
  all(carrying);
  EQUAL(atomic_load(&begun), THREADS);
  for (int i = 0; i < THREADS; i++) {
    OK(MPI_Win_free(&own[i]));
    OK(MPI_Comm_free(&comms[i]));
  }
  OK(MPI_Win_free(&win));
  return end();
}
