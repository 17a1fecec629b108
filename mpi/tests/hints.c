/* Hints that differ between ranks, and locks of windows for which all ranks have said that there are none. */
#include "check.h"

static int has(MPI_Win win, const char *key, const char *want) {
  MPI_Info info;
  char value[MPI_MAX_INFO_VAL + 1] = "";
  int flag = 0;
  OK(MPI_Win_get_info(win, &info));
  OK(MPI_Info_get(info, key, MPI_MAX_INFO_VAL, value, &flag));
  OK(MPI_Info_free(&info));
  return flag && !strcmp(value, want);
}

static MPI_Info hint(const char *key, const char *value) {
  MPI_Info info;
  OK(MPI_Info_create(&info));
  OK(MPI_Info_set(info, key, value));
  return info;
}

enum { CREATE, ALLOCATE, SHARED, DYNAMIC, KINDS };

static MPI_Win make(int kind, MPI_Aint bytes, long *own, MPI_Info info, MPI_Comm comm) {
  MPI_Win win;
  void *base;
  switch (kind) {
    case CREATE: OK(MPI_Win_create(own, bytes, 8, info, comm, &win)); break;
    case ALLOCATE: OK(MPI_Win_allocate(bytes, 8, info, comm, &base, &win)); break;
    case SHARED: OK(MPI_Win_allocate_shared(bytes, 8, info, comm, &base, &win)); break;
    default: OK(MPI_Win_create_dynamic(info, comm, &win));
  }
  return win;
}

/* Everybody adds to everybody's first number. */
static void adds(int kind, MPI_Win win) {
  long one = 1, sum = -1;
  if (kind == DYNAMIC) return;
  OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win));
  long zero = 0;
  OK(MPI_Put(&zero, 1, MPI_LONG, rank, 0, 1, MPI_LONG, win));
  OK(MPI_Win_unlock(rank, win));
  OK(MPI_Win_fence(0, win));
  for (int i = 0; i < 100; i++)
    for (int r = 0; r < size; r++) OK(MPI_Accumulate(&one, 1, MPI_LONG, r, 0, 1, MPI_LONG, MPI_SUM, win));
  OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
  OK(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win));
  OK(MPI_Get(&sum, 1, MPI_LONG, rank, 0, 1, MPI_LONG, win));
  OK(MPI_Win_unlock(rank, win));
  EQUAL(sum, 100 * size);
}

/* What rank 0 gives, what the others do, and what then holds. */
static const char *differing[][4] = {
    {"accumulate_ordering", "none", "waw,rar", "rar,waw"},
    {"accumulate_ordering", "rar,raw,war,waw", "none", "rar,raw,war,waw"},
    {"accumulate_ops", "same_op", "same_op_no_op", "same_op_no_op"},
    {"mpi_accumulate_granularity", "1048576", "1", "1"},
    {"mpi_accumulate_granularity", "64", "4096", "64"},
    {"same_size", "true", "false", "false"},
    {"same_disp_unit", "false", "true", "false"},
    {"alloc_shared_noncontig", "true", "false", "false"},
    {"no_locks", "true", "false", "false"},
};

static void differ(MPI_Comm node) {
  static long own[16];
  int local;
  OK(MPI_Comm_rank(node, &local));
  for (size_t i = 0; i < sizeof differing / sizeof *differing; i++)
    for (int kind = 0; kind < KINDS; kind++) {
      const char **it = differing[i];
      MPI_Comm comm = kind == SHARED ? node : MPI_COMM_WORLD;
      int me, all;
      OK(MPI_Comm_rank(comm, &me));
      OK(MPI_Comm_size(comm, &all));
      MPI_Info info = hint(it[0], it[me ? 2 : 1]);
      MPI_Win win = make(kind, 8 * (1 + me), own, info, comm);
      OK(MPI_Info_free(&info));
      if (all > 1 && !has(win, it[0], it[3])) FAIL("%s, kind %d: not %s", it[0], kind, it[3]);
      if (comm == MPI_COMM_WORLD && all > 1) adds(kind, win);
      OK(MPI_Win_free(&win));
    }
}

/* Locks that were promised away exclude each other nevertheless, and nobody's window goes before they are given back. */
static void locked(int kind, MPI_Comm comm) {
  static long own[16];
  int me, all;
  OK(MPI_Comm_rank(comm, &me));
  OK(MPI_Comm_size(comm, &all));
  MPI_Info info = hint("no_locks", "true");
  memset(own, 0, sizeof own);
  MPI_Win win = make(kind, sizeof own, own, info, comm);
  OK(MPI_Info_free(&info));
  OK(MPI_Win_lock_all(MPI_MODE_NOCHECK, win));
  OK(MPI_Win_unlock_all(win));
  OK(MPI_Win_lock_all(0, win));
  OK(MPI_Win_unlock_all(win));
  if (kind != DYNAMIC) {
    for (int i = 0; i < 200; i++) {
      long count = -1;
      OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
      OK(MPI_Get(&count, 1, MPI_LONG, 0, 3, 1, MPI_LONG, win));
      OK(MPI_Win_flush(0, win));
      count++;
      OK(MPI_Put(&count, 1, MPI_LONG, 0, 3, 1, MPI_LONG, win));
      OK(MPI_Win_unlock(0, win));
    }
    OK(MPI_Barrier(comm));
    long count = -1;
    OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
    OK(MPI_Get(&count, 1, MPI_LONG, 0, 3, 1, MPI_LONG, win));
    OK(MPI_Win_unlock(0, win));
    EQUAL(count, 200 * all);
  }
  OK(MPI_Win_free(&win));
}

int main(int argc, char **argv) {
  begin(&argc, &argv);
  MPI_Comm node = machine(MPI_COMM_WORLD);
  differ(node);
  for (int kind = 0; kind < KINDS; kind++) locked(kind, kind == SHARED ? node : MPI_COMM_WORLD);
  OK(MPI_Comm_free(&node));
  return end();
}
