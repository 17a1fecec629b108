// Random updates of a table by exclusive or, as in HPCC's RandomAccess: SIZE updates by each rank. A rank keeps at most
// 1,024 under way. Prints `updates` for MPI_Accumulate, and `updates_fetched` for MPI_Fetch_and_op, 64 under way.
#include "app.h"

enum { WORDS = 1 << 16, UNDER_WAY = 1024, FETCHED_UNDER_WAY = 64 };

static uint64_t update(int of, long number) { return mix((uint64_t)of << 40 | number); }
static int target(uint64_t update) { return below(update, size); }
static MPI_Aint place(uint64_t update) { return update % WORDS; }

// Takes all updates of all ranks from this rank's part of the table, which has to be zeros then.
static void take_back(uint64_t *table, long updates, const char *what) {
  for (int other = 0; other < size; other++)
    for (long i = 0; i < updates; i++)
      if (target(update(other, i)) == rank) table[place(update(other, i))] ^= update(other, i);
  for (int i = 0; i < WORDS; i++) check(table[i] == 0, what);
}

int main(int argc, char **argv) {
  long updates = begin(&argc, &argv);
  uint64_t *table, values[UNDER_WAY], old[FETCHED_UNDER_WAY];
  MPI_Win win = window(WORDS * sizeof *table, sizeof *table, &table);
  MPI_Win_lock_all(0, win);

  begin_time();
  for (long i = 0; i < updates; i++) {
    uint64_t *value = &values[i % UNDER_WAY];
    *value = update(rank, i);
    MPI_Accumulate(value, 1, MPI_UINT64_T, target(*value), place(*value), 1, MPI_UINT64_T, MPI_BXOR, win);
    if (i % UNDER_WAY == UNDER_WAY - 1) MPI_Win_flush_all(win);
  }
  complete(win);
  print("updates", end_time());

  take_back(table, updates, "a word after the accumulates");
  MPI_Win_sync(win);

  updates /= 4;
  begin_time();
  for (long i = 0; i < updates; i++) {
    uint64_t *value = &values[i % FETCHED_UNDER_WAY];
    *value = update(rank, i);
    MPI_Fetch_and_op(value, &old[i % FETCHED_UNDER_WAY], MPI_UINT64_T, target(*value), place(*value), MPI_BXOR, win);
    if (i % FETCHED_UNDER_WAY == FETCHED_UNDER_WAY - 1) MPI_Win_flush_all(win);
  }
  complete(win);
  print("updates_fetched", end_time());

  take_back(table, updates, "a word after the fetches");
  MPI_Win_unlock_all(win);
  MPI_Win_free(&win);
  end();
}
