/* Shared windows: who has how much and where, and loads and stores of each other's memory. Of the ranks of several
 * machines there are none, and those of each make their own. */
#include <stdint.h>
#include "check.h"

static MPI_Comm node;

static void shared(int contiguous, int some_empty) {
  MPI_Info info;
  OK(MPI_Info_create(&info));
  OK(MPI_Info_set(info, "alloc_shared_noncontig", contiguous ? "false" : "true"));
  MPI_Win win;
  long *base;
#define ITEMS(r) (some_empty && (r) % 2 == 0 ? 0 : 5 + 3 * (r))
  OK(MPI_Win_allocate_shared(ITEMS(rank) * sizeof(long), sizeof(long) * (rank + 1), info, node, &base, &win));
  OK(MPI_Info_free(&info));
  OK(MPI_Win_lock_all(0, win));
  for (int i = 0; i < ITEMS(rank); i++) base[i] = rank * 1000 + i;
  OK(MPI_Win_sync(win));
  OK(MPI_Barrier(node));
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
  OK(MPI_Barrier(node));
  if (ITEMS(right())) {
    long *theirs;
    OK(MPI_Win_shared_query(win, right(), &bytes, &unit, &theirs));
    theirs[2] = -rank;
  }
  OK(MPI_Win_sync(win));
  OK(MPI_Barrier(node));
  OK(MPI_Win_sync(win));
  if (ITEMS(rank)) EQUAL(base[2], -left());
  OK(MPI_Win_unlock_all(win));
  OK(MPI_Win_free(&win));
}

int main(int argc, char **argv) {
  begin(&argc, &argv);
  if (!on_one_machine(MPI_COMM_WORLD)) {
    MPI_Win win;
    void *base;
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    FAILS(MPI_Win_allocate_shared(64, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win), MPI_ERR_RMA_SHARED);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
  }
  node = machine(MPI_COMM_WORLD);
  OK(MPI_Comm_rank(node, &rank));
  OK(MPI_Comm_size(node, &size));
  for (int i = 0; i < 4; i++) shared(i & 1, i & 2);
  OK(MPI_Comm_free(&node));
  OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  return end();
}
