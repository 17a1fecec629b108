/* Epochs of every kind: fences with assertions, post and start with groups of all shapes, locks, flushes. */
#include "check.h"

static int *base;
static MPI_Win win;
enum { N = 16 };

static void clear(void) {
  OK(MPI_Barrier(MPI_COMM_WORLD));
  OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win));
  memset(base, 0, N * sizeof(int));
  OK(MPI_Win_unlock(rank, win));
  OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void fences(void) {
  OK(MPI_Win_fence(MPI_MODE_NOPRECEDE, win));
  for (int i = 1; i < 20; i++) {
    int value = rank * 100 + i;
    OK(MPI_Put(&value, 1, MPI_INT, right(), 0, 1, MPI_INT, win));
    OK(MPI_Win_fence(i % 3 ? 0 : MPI_MODE_NOSTORE, win));
    EQUAL(base[0], left() * 100 + i);
    int got = -1;
    OK(MPI_Get(&got, 1, MPI_INT, right(), 0, 1, MPI_INT, win));
    OK(MPI_Win_fence(MPI_MODE_NOPUT, win));
    EQUAL(got, rank * 100 + i);
  }
  OK(MPI_Win_fence(MPI_MODE_NOSUCCEED | MPI_MODE_NOSTORE, win));
}

static MPI_Group only(int n, const int *ranks) {
  MPI_Group world, group;
  OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
  OK(MPI_Group_incl(world, n, ranks, &group));
  OK(MPI_Group_free(&world));
  return group;
}

/* Each rank exposes to its left and accesses its right. */
static void ring(int by_test, int assert) {
  MPI_Group from = only(1, (int[]){left()}), to = only(1, (int[]){right()});
  for (int i = 0; i < 10; i++) {
    int value = rank * 100 + i;
    OK(MPI_Win_post(from, assert, win));
    OK(MPI_Win_start(to, 0, win));
    OK(MPI_Put(&value, 1, MPI_INT, right(), 3, 1, MPI_INT, win));
    OK(MPI_Win_complete(win));
    if (by_test) {
      int flag = 0;
      while (!flag) OK(MPI_Win_test(win, &flag));
    } else {
      OK(MPI_Win_wait(win));
    }
    EQUAL(base[3], left() * 100 + i);
  }
  OK(MPI_Group_free(&from));
  OK(MPI_Group_free(&to));
}

/* One is the target of all others; and a rank is alone with itself; and with nobody. */
static void shapes(void) {
  if (size > 1) {
    int others[64], one = 1 + rank;
    for (int i = 1; i < size; i++) others[i - 1] = size - i;
    MPI_Group group = rank == 0 ? only(size - 1, others) : only(1, (int[]){0});
    if (rank == 0) {
      OK(MPI_Win_post(group, 0, win));
      OK(MPI_Win_wait(win));
      int all = 0;
      for (int r = 1; r < size; r++) all += 1 + r;
      EQUAL(base[4], all);
    } else {
      OK(MPI_Win_start(group, 0, win));
      OK(MPI_Accumulate(&one, 1, MPI_INT, 0, 4, 1, MPI_INT, MPI_SUM, win));
      OK(MPI_Win_complete(win));
    }
    OK(MPI_Group_free(&group));
  }
  MPI_Group me = only(1, (int[]){rank});
  int value = 321;
  OK(MPI_Win_post(me, 0, win));
  OK(MPI_Win_start(me, 0, win));
  OK(MPI_Put(&value, 1, MPI_INT, rank, 5, 1, MPI_INT, win));
  OK(MPI_Win_complete(win));
  OK(MPI_Win_wait(win));
  EQUAL(base[5], 321);
  OK(MPI_Group_free(&me));
  OK(MPI_Win_post(MPI_GROUP_EMPTY, 0, win));
  OK(MPI_Win_start(MPI_GROUP_EMPTY, 0, win));
  OK(MPI_Win_complete(win));
  OK(MPI_Win_wait(win));
}

/* Handles of groups come again for others once they are freed. */
static void handles(void) {
  enum { KEPT = 20 };
  MPI_Group kept[KEPT];
  for (int i = 0; i < KEPT; i++) {
    kept[i] = only(1, (int[]){i % size});
    if (i % size == rank) {
      int value = 100 + i;
      OK(MPI_Win_post(kept[i], 0, win));
      OK(MPI_Win_start(kept[i], 0, win));
      OK(MPI_Put(&value, 1, MPI_INT, rank, 6, 1, MPI_INT, win));
      OK(MPI_Win_complete(win));
      OK(MPI_Win_wait(win));
      EQUAL(base[6], 100 + i);
    }
  }
  for (int round = 0; round < 3 * size; round++) {
    int to = (rank + round) % size, from = (rank + 2 * size * round - round) % size, value = 100 * round + rank;
    MPI_Group origin = only(1, &from), target = only(1, &to);
    OK(MPI_Win_post(origin, 0, win));
    OK(MPI_Win_start(target, 0, win));
    OK(MPI_Put(&value, 1, MPI_INT, to, 7, 1, MPI_INT, win));
    OK(MPI_Win_complete(win));
    OK(MPI_Win_wait(win));
    EQUAL(base[7], 100 * round + from);
    OK(MPI_Group_free(&origin));
    OK(MPI_Group_free(&target));
    EQUAL(origin == MPI_GROUP_NULL, 1);
  }
  for (int i = 0; i < KEPT; i++) OK(MPI_Group_free(&kept[i]));
}

/* A window on a part of the world in another order: ranks and groups mean the same processes. */
static void parts(void) {
  MPI_Comm part;
  OK(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &part));
  int me, count, *memory;
  OK(MPI_Comm_rank(part, &me));
  OK(MPI_Comm_size(part, &count));
  MPI_Win inner;
  OK(MPI_Win_allocate(4 * sizeof(int), sizeof(int), MPI_INFO_NULL, part, &memory, &inner));
  int to = (me + 1) % count, from = (me + count - 1) % count;
  MPI_Group all, next, previous;
  OK(MPI_Win_get_group(inner, &all));
  OK(MPI_Group_incl(all, 1, &to, &next));
  OK(MPI_Group_incl(all, 1, &from, &previous));
  int value = rank;
  OK(MPI_Win_post(previous, 0, inner));
  OK(MPI_Win_start(next, 0, inner));
  OK(MPI_Put(&value, 1, MPI_INT, to, 1, 1, MPI_INT, inner));
  OK(MPI_Win_complete(inner));
  OK(MPI_Win_wait(inner));
  int theirs = -1;
  MPI_Group world;
  OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
  OK(MPI_Group_translate_ranks(previous, 1, (int[]){0}, world, &theirs));
  EQUAL(memory[1], theirs);
  OK(MPI_Win_lock(MPI_LOCK_SHARED, to, 0, inner));
  int got = -1;
  OK(MPI_Get(&got, 1, MPI_INT, to, 1, 1, MPI_INT, inner));
  OK(MPI_Win_unlock(to, inner));
  EQUAL(got, rank);
  OK(MPI_Group_free(&all));
  OK(MPI_Group_free(&next));
  OK(MPI_Group_free(&previous));
  OK(MPI_Group_free(&world));
  OK(MPI_Barrier(part));
  OK(MPI_Win_free(&inner));
  OK(MPI_Comm_free(&part));
}

/* Read, then write, under an exclusive lock: nobody comes between. */
static void locks(int kind, int assert) {
  clear();
  for (int i = 0; i < 50; i++) {
    int value;
    OK(MPI_Win_lock(kind, 0, assert, win));
    OK(MPI_Get(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, win));
    OK(MPI_Win_flush(0, win));
    value++;
    OK(MPI_Put(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, win));
    OK(MPI_Win_unlock(0, win));
  }
  OK(MPI_Barrier(MPI_COMM_WORLD));
  OK(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win));
  if (rank == 0) EQUAL(base[0], 50 * size);
  OK(MPI_Win_unlock(rank, win));
}

static void flushes(void) {
  clear();
  OK(MPI_Win_lock_all(0, win));
  for (int i = 1; i <= 30; i++) {
    int value = rank * 100 + i, got = -1;
    for (int target = 0; target < size; target++) OK(MPI_Put(&value, 1, MPI_INT, target, rank, 1, MPI_INT, win));
    switch (i % 3) {
      case 0: OK(MPI_Win_flush_all(win)); break;
      case 1:
        for (int target = 0; target < size; target++) OK(MPI_Win_flush(target, win));
        break;
      case 2:
        OK(MPI_Win_flush_local_all(win));
        value = -1;
        OK(MPI_Win_flush_all(win));
        break;
    }
    OK(MPI_Get(&got, 1, MPI_INT, right(), rank, 1, MPI_INT, win));
    OK(MPI_Win_flush_local(right(), win));
    EQUAL(got, rank * 100 + i);
    OK(MPI_Win_sync(win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_sync(win));
    for (int r = 0; r < size; r++) EQUAL_AT(r, base[r], r * 100 + i);
    OK(MPI_Barrier(MPI_COMM_WORLD));
  }
  OK(MPI_Win_unlock_all(win));
  OK(MPI_Barrier(MPI_COMM_WORLD));
  OK(MPI_Win_lock_all(MPI_MODE_NOCHECK, win));
  OK(MPI_Win_unlock_all(win));
  OK(MPI_Barrier(MPI_COMM_WORLD));
}

int main(int argc, char **argv) {
  begin(&argc, &argv);
  OK(MPI_Win_allocate(N * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
  clear();
  fences();
  ring(0, 0);
  ring(1, 0);
  ring(0, MPI_MODE_NOSTORE);
  clear();
  shapes();
  handles();
  parts();
  locks(MPI_LOCK_EXCLUSIVE, 0);
  flushes();
  fences();
  OK(MPI_Win_free(&win));
  return end();
}
