// A hash table with open addresses: each rank inserts SIZE keys by compare-and-swap, and the next place of the table is
// tried where one is taken. A third of the places stay free.
#include "app.h"

static MPI_Win win;
static uint64_t places; // of each rank
static const uint64_t none;

static uint64_t key(int of, long number) { return mix((uint64_t)of << 40 | number) | 1; }

int main(int argc, char **argv) {
  long keys = begin(&argc, &argv);
  uint64_t *table, found;
  places = keys + keys / 2;
  win = window(places * sizeof *table, sizeof *table, &table);
  MPI_Win_lock_all(0, win);

  begin_time();
  for (long i = 0; i < keys; i++) {
    uint64_t mine = key(rank, i), place = below(mix(mine), places * size);
    for (;; place = (place + 1) % (places * size)) {
      MPI_Compare_and_swap(&mine, &none, &found, MPI_UINT64_T, place / places, place % places, win);
      MPI_Win_flush(place / places, win);
      if (found == none || found == mine) break;
    }
  }
  complete(win);
  print("hashes", end_time());

  // Every key is where a search finds it, and nothing else is there. A key has its last bit set, which is cleared in
  // the copy of the table when the key is met for the first time.
  uint64_t *whole = memory(places * size * sizeof *table), filled = 0, different = 0;
  for (int other = 0; other < size; other++)
    MPI_Get(whole + other * places, places, MPI_UINT64_T, other, 0, places, MPI_UINT64_T, win);
  MPI_Win_flush_all(win);
  for (uint64_t i = 0; i < places * size; i++) filled += whole[i] != none;
  for (int other = 0; other < size; other++)
    for (long i = 0; i < keys; i++) {
      uint64_t wanted = key(other, i), place = below(mix(wanted), places * size);
      while (whole[place] != none && (whole[place] | 1) != wanted) place = (place + 1) % (places * size);
      check(whole[place] != none, "a key is missing");
      different += whole[place] & 1;
      whole[place] &= ~UINT64_C(1);
    }
  check(filled == different, "the number of keys");
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_unlock_all(win);
  MPI_Win_free(&win);
  free(whole);
  end();
}
