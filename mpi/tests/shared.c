/* Shared windows: who has how much and where, and loads and stores of each other's memory. */
#include <stdint.h>
#include "check.h"

static void shared(int contiguous, int some_empty) {
  MPI_Info info;
  OK(MPI_Info_create(&info));
  OK(MPI_Info_set(info, "alloc_shared_noncontig", contiguous ? "false" : "true"));
  MPI_Win win;
  long *base;
#define ITEMS(r) (some_empty && (r) % 2 == 0 ? 0 : 5 + 3 * (r))
  OK(MPI_Win_allocate_shared(ITEMS(rank) * sizeof(long), sizeof(long) * (rank + 1), info, MPI_COMM_WORLD, &base, &win));
  OK(MPI_Info_free(&info));
  OK(MPI_Win_lock_all(0, win));
  for (int i = 0; i < ITEMS(rank); i++) base[i] = rank * 1000 + i;
  OK(MPI_Win_sync(win));
  OK(MPI_Barrier(MPI_COMM_WORLD));
  OK(MPI_Win_sync(win));
  long *last = NULL;
  for (int r = 0; r < size; r++) {
    MPI_Aint bytes = -1;
    int unit = -1;
    long *theirs = NULL;
    OK(MPI_Win_shared_query(win, r, &bytes, &unit, &theirs));
    EQUAL_AT(r, bytes, ITEMS(r) * sizeof(long));
    EQUAL_AT(r, unit, sizeof(long) * (r + 1));
    if (r == rank && ITEMS(r)) CHECK(theirs == base);
    for (int i = 0; i < ITEMS(r); i++) EQUAL_AT(i, theirs[i], r * 1000 + i);
    if (contiguous && last && ITEMS(r)) CHECK(theirs == last);
    if (ITEMS(r)) last = theirs + ITEMS(r);
  }
  MPI_Aint bytes = -1;
  int unit = -1;
  long *first = NULL;
  OK(MPI_Win_shared_query(win, MPI_PROC_NULL, &bytes, &unit, &first));
  int lowest = some_empty ? 1 : 0;
  if (lowest < size) {
    EQUAL(bytes, ITEMS(lowest) * sizeof(long));
    EQUAL(unit, sizeof(long) * (lowest + 1));
    EQUAL(first[1], lowest * 1000 + 1);
  }
  OK(MPI_Barrier(MPI_COMM_WORLD));
  if (ITEMS(right())) {
    long *theirs;
    OK(MPI_Win_shared_query(win, right(), &bytes, &unit, &theirs));
    theirs[2] = -rank;
  }
  OK(MPI_Win_sync(win));
  OK(MPI_Barrier(MPI_COMM_WORLD));
  OK(MPI_Win_sync(win));
  if (ITEMS(rank)) EQUAL(base[2], -left());
  OK(MPI_Win_unlock_all(win));
  OK(MPI_Win_free(&win));
}

int main(int argc, char **argv) {
  begin(&argc, &argv);
  MPI_Comm node;
  int count;
  OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
  OK(MPI_Comm_size(node, &count));
  EQUAL(count, size);
  OK(MPI_Comm_free(&node));
  for (int i = 0; i < 4; i++) shared(i & 1, i & 2);
  return end();
}
