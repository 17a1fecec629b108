// The kernels of bale over MPI's windows: `kernels KERNEL ELEMENTS`, with this many elements on each rank. They are
// written from the kernels' descriptions, in a way that suits MPI: all targets are locked, and there is a flush after
// each BATCH of operations, since MPICH otherwise runs out of requests.
//
// Each kernel checks its result, and rank 0 prints `KERNEL RANKS SECONDS MOPS`. ci/compare-bale defines the operations.
// Index `i` of the job is at rank `i % size`, at displacement `i / size`.
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 4096, ENTRIES_PER_ROW = 16 };
#define NOBODY UINT64_MAX

static int rank, size;

static void check(int is_right, const char *what) {
  if (!is_right) {
    fprintf(stderr, "rank %d: wrong: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

// Pseudo-random numbers from a counter.
static uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

static uint64_t state;
static void seed(uint64_t of) { state = mix(of) << 1; }
static uint64_t below(uint64_t bound) { return (unsigned __int128)mix(state++) * bound >> 64; }

static void *memory(size_t elements) {
  void *base = malloc(elements ? elements * sizeof(uint64_t) : 1);
  check(base != NULL, "no memory");
  return base;
}

// A window of 8-byte elements on this rank, with all targets locked. Its size is a whole number of cache lines: if
// lower ranks have an odd number of elements, MPICH 4.0 finds a rank's part at a different place than the rank itself
// does.
static MPI_Win window(size_t elements, uint64_t fill, uint64_t **base) {
  MPI_Info info;
  MPI_Win win;
  elements = (elements + 7) / 8 * 8;
  MPI_Info_create(&info);
  MPI_Info_set(info, "accumulate_ordering", "none");
  MPI_Win_allocate(elements * sizeof(uint64_t), sizeof(uint64_t), info, MPI_COMM_WORLD, base, &win);
  MPI_Info_free(&info);
  for (size_t i = 0; i < elements; i++) (*base)[i] = fill;
  MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
  MPI_Win_sync(win);
  MPI_Barrier(MPI_COMM_WORLD);
  return win;
}

// Completes the operations of all ranks, so that this rank's part may be read.
static void complete(MPI_Win win) {
  MPI_Win_flush_all(win);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_sync(win);
}

static void release(MPI_Win win) {
  MPI_Win_unlock_all(win);
  MPI_Win_free(&win);
}

static uint64_t sum_of_all(uint64_t mine) {
  MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  return mine;
}

// The sum over the ranks before this one.
static uint64_t sum_before(uint64_t mine) {
  uint64_t before = 0;
  MPI_Exscan(&mine, &before, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  return rank ? before : 0;
}

static double begun, seconds;
static void begin_time(void) {
  MPI_Barrier(MPI_COMM_WORLD);
  begun = MPI_Wtime();
}
static void end_time(void) {
  MPI_Barrier(MPI_COMM_WORLD);
  seconds = MPI_Wtime() - begun;
}

static void print(const char *kernel, uint64_t operations) {
  if (rank == 0) printf("%s %d %.6f %.3f\n", kernel, size, seconds, operations / seconds / 1e6);
}

static void histogram(uint64_t elements) {
  uint64_t *table, one = 1, all = elements * size, *places = memory(elements);
  MPI_Win win = window(elements, 0, &table);
  seed(rank);
  for (uint64_t i = 0; i < elements; i++) places[i] = below(all);

  begin_time();
  for (uint64_t i = 0; i < elements; i++) {
    MPI_Accumulate(&one, 1, MPI_UINT64_T, places[i] % size, places[i] / size, 1, MPI_UINT64_T, MPI_SUM, win);
    if (i % BATCH == BATCH - 1) MPI_Win_flush_all(win);
  }
  complete(win);
  end_time();
  print("histogram", all);

  for (int other = 0; other < size; other++) {
    seed(other);
    for (uint64_t i = 0; i < elements; i++) {
      uint64_t place = below(all);
      if (place % size == (uint64_t)rank) table[place / size]--;
    }
  }
  for (uint64_t i = 0; i < elements; i++) check(table[i] == 0, "a count");
  release(win);
  free(places);
}

static void gather(uint64_t elements) {
  uint64_t *table, all = elements * size, *places = memory(elements), *found = memory(elements);
  MPI_Win win = window(elements, 0, &table);
  for (uint64_t i = 0; i < elements; i++) table[i] = mix(i * size + rank);
  MPI_Win_sync(win);
  seed(rank);
  for (uint64_t i = 0; i < elements; i++) places[i] = below(all);

  begin_time();
  for (uint64_t i = 0; i < elements; i++) {
    MPI_Get(&found[i], 1, MPI_UINT64_T, places[i] % size, places[i] / size, 1, MPI_UINT64_T, win);
    if (i % BATCH == BATCH - 1) MPI_Win_flush_all(win);
  }
  complete(win);
  end_time();
  print("gather", all);

  for (uint64_t i = 0; i < elements; i++) check(found[i] == mix(places[i]), "an element");
  release(win);
  free(places);
  free(found);
}

// Throws the darts `rank`, `rank + size`, ... at a board with twice as many places. The permutation is the order of the
// darts on the board. Rank 0 has its first `elements`. The caller frees it.
static uint64_t *permute(uint64_t elements) {
  uint64_t *board, *part, none = NOBODY, places = 2 * elements * size;
  uint64_t *darts = memory(elements), *where = memory(BATCH), *found = memory(BATCH);
  MPI_Win win = window(2 * elements, NOBODY, &board);
  MPI_Win to = window(elements, NOBODY, &part);
  for (uint64_t i = 0; i < elements; i++) darts[i] = i * size + rank;

  begin_time();
  for (uint64_t left = elements; left > 0;) {
    // Throws the last few of the remaining darts. A dart that hits a taken place is thrown again.
    uint64_t few = left < BATCH ? left : BATCH, *thrown = darts + left - few, missed = 0;
    for (uint64_t i = 0; i < few; i++) {
      where[i] = below(places);
      MPI_Compare_and_swap(&thrown[i], &none, &found[i], MPI_UINT64_T, where[i] % size, where[i] / size, win);
    }
    MPI_Win_flush_all(win);
    for (uint64_t i = 0; i < few; i++)
      if (found[i] != NOBODY) thrown[missed++] = thrown[i];
    left -= few - missed;
  }
  complete(win);
  uint64_t count = 0;
  for (uint64_t i = 0; i < 2 * elements; i++)
    if (board[i] != NOBODY) board[count++] = board[i];
  for (uint64_t first = sum_before(count), i = 0; i < count;) {
    uint64_t displacement = (first + i) % elements, run = elements - displacement;
    if (run > count - i) run = count - i;
    MPI_Put(&board[i], run, MPI_UINT64_T, (first + i) / elements, displacement, run, MPI_UINT64_T, to);
    i += run;
  }
  complete(to);
  end_time();

  uint64_t *result = memory(elements);
  memcpy(result, part, elements * sizeof *result);
  release(win);
  release(to);
  free(darts);
  free(where);
  free(found);
  return result;
}

static void permutation(uint64_t elements) {
  seed(rank);
  uint64_t *result = permute(elements), all = elements * size, sum = 0, wanted = 0;
  print("permutation", all);
  for (uint64_t i = 0; i < elements; i++) {
    check(result[i] < all, "an element");
    sum += mix(result[i]);
    wanted += mix(i * size + rank);
  }
  check(sum_of_all(sum) == sum_of_all(wanted), "an element twice");
  free(result);
}

// The rows `rank`, `rank + size`, ... of a square matrix. Row `i` has columns[begin[i]] to columns[begin[i + 1] - 1].
struct matrix {
  uint64_t rows, *begin, *columns;
};

static void forget(struct matrix a) {
  free(a.begin);
  free(a.columns);
}

// Each row has at most ENTRIES_PER_ROW different columns.
static struct matrix random_matrix(uint64_t rows) {
  struct matrix a = {rows, memory(rows + 1), memory(rows * ENTRIES_PER_ROW)};
  uint64_t entries = 0, all = rows * size;
  for (uint64_t i = 0; i < rows; i++) {
    a.begin[i] = entries;
    for (int k = 0; k < ENTRIES_PER_ROW; k++) {
      uint64_t column = below(all), j = a.begin[i];
      while (j < entries && a.columns[j] != column) j++;
      if (j == entries) a.columns[entries++] = column;
    }
  }
  a.begin[rows] = entries;
  return a;
}

// A row of the result has its entries in the order of their arrival. The result is in the windows of `begin` and of
// `columns`.
static struct matrix transposed(struct matrix a, MPI_Win wins[2]) {
  uint64_t one = 1, entries = a.begin[a.rows], *next, *columns, *begin, *places = memory(BATCH);
  MPI_Win counts = window(a.rows, 0, &next);
  begin_time();
  for (uint64_t k = 0; k < entries; k++) {
    MPI_Accumulate(&one, 1, MPI_UINT64_T, a.columns[k] % size, a.columns[k] / size, 1, MPI_UINT64_T, MPI_SUM, counts);
    if (k % BATCH == BATCH - 1) MPI_Win_flush_all(counts);
  }
  complete(counts);
  wins[0] = window(a.rows + 1, 0, &begin);
  for (uint64_t i = 0; i < a.rows; i++) {
    begin[i + 1] = begin[i] + next[i];
    next[i] = begin[i];
  }
  MPI_Win_sync(counts);
  wins[1] = window(begin[a.rows], NOBODY, &columns); // with a barrier
  uint64_t *rows = memory(BATCH);
  for (uint64_t k = 0, row = 0; k < entries;) {
    uint64_t few = entries - k < BATCH ? entries - k : BATCH;
    for (uint64_t i = 0; i < few; i++) {
      uint64_t column = a.columns[k + i];
      MPI_Fetch_and_op(&one, &places[i], MPI_UINT64_T, column % size, column / size, MPI_SUM, counts);
    }
    MPI_Win_flush_all(counts);
    for (uint64_t i = 0; i < few; i++) {
      while (a.begin[row + 1] <= k + i) row++;
      rows[i] = row * size + rank;
      MPI_Put(&rows[i], 1, MPI_UINT64_T, a.columns[k + i] % size, places[i], 1, MPI_UINT64_T, wins[1]);
    }
    MPI_Win_flush_all(wins[1]);
    k += few;
  }
  complete(wins[1]);
  end_time();
  release(counts);
  free(places);
  free(rows);
  return (struct matrix){a.rows, begin, columns};
}

static void transpose(uint64_t elements) {
  seed(rank);
  MPI_Win wins[2];
  struct matrix a = random_matrix(elements / ENTRIES_PER_ROW), b = transposed(a, wins);
  uint64_t entries = sum_of_all(a.begin[a.rows]), sum[2] = {0, 0};
  print("transpose", entries);
  for (uint64_t i = 0; i < a.rows; i++) {
    for (uint64_t k = a.begin[i]; k < a.begin[i + 1]; k++) sum[0] += mix(mix(i * size + rank) + a.columns[k]);
    for (uint64_t k = b.begin[i]; k < b.begin[i + 1]; k++) sum[1] += mix(mix(b.columns[k]) + i * size + rank);
  }
  check(sum_of_all(b.begin[a.rows]) == entries, "the number of entries");
  check(sum_of_all(sum[0]) == sum_of_all(sum[1]), "an entry");
  release(wins[1]);
  release(wins[0]);
  forget(a);
}

// A whole permutation: element `i` is the place to which `i` goes.
static uint64_t *whole_permutation(uint64_t elements) {
  uint64_t *mine = permute(elements), *all = memory(elements * size);
  MPI_Allgather(mine, elements, MPI_UINT64_T, all, elements, MPI_UINT64_T, MPI_COMM_WORLD);
  free(mine);
  return all;
}

// An upper triangular matrix with a full diagonal. Its rows and columns are then permuted.
static struct matrix hidden_triangle(uint64_t rows) {
  uint64_t all = rows * size, entries = 0, *of_row = whole_permutation(rows), *to = whole_permutation(rows);
  struct matrix a = {rows, memory(rows + 1), memory(rows * ENTRIES_PER_ROW)};
  for (uint64_t i = 0; i < rows; i++) {
    uint64_t row = of_row[i * size + rank];
    a.begin[i] = entries;
    a.columns[entries++] = to[row];
    for (int k = 1; k < ENTRIES_PER_ROW && row + 1 < all; k++) {
      uint64_t column = to[row + 1 + below(all - row - 1)], j = a.begin[i];
      while (j < entries && a.columns[j] != column) j++;
      if (j == entries) a.columns[entries++] = column;
    }
  }
  a.begin[rows] = entries;
  free(of_row);
  free(to);
  return a;
}

// One word that contains the number of a row's entries in columns without a place, and the sum of these columns.
#define COUNT(word) ((word) >> 40)
#define SUM(word) ((word) & (((uint64_t)1 << 40) - 1))
static uint64_t entry(uint64_t column) { return ((uint64_t)1 << 40) + column; }

// Finds places for rows and columns that make the matrix upper triangular. A row with one entry left gets the last free
// place, and so does the column of this entry. Other rows then have one entry less. The rank that removes a row's last
// entry but one processes that row in the next round.
static void toposort(uint64_t elements) {
  seed(rank);
  struct matrix a = hidden_triangle(elements / ENTRIES_PER_ROW);
  MPI_Win of_b[2];
  transposed(a, of_b);
  uint64_t *words, *places[2], all = a.rows * size;
  MPI_Win left = window(a.rows, 0, &words), to[2] = {window(a.rows, NOBODY, &places[0]), window(a.rows, NOBODY, &places[1])};
  for (uint64_t i = 0; i < a.rows; i++)
    for (uint64_t k = a.begin[i]; k < a.begin[i + 1]; k++) words[i] += entry(a.columns[k]);
  MPI_Win_sync(left);
  // Rows with one entry left, as pairs of row and column.
  uint64_t *now_due = memory(2 * all), *next_due = memory(2 * all), due = 0, total;
  uint64_t *place = memory(BATCH), *begins = memory(2 * BATCH), room = BATCH, *rows = memory(room), *found = memory(room),
           *less = memory(BATCH);
  for (uint64_t i = 0; i < a.rows; i++)
    if (COUNT(words[i]) == 1) now_due[2 * due] = i * size + rank, now_due[2 * due++ + 1] = SUM(words[i]);

  begin_time();
  uint64_t entries = sum_of_all(a.begin[a.rows]), free_places = all;
  while ((total = sum_of_all(due)) > 0) {
    uint64_t next = 0, mine = free_places - sum_before(due);
    free_places -= total;
    for (uint64_t first = 0; first < due; first += BATCH) {
      uint64_t few = due - first < BATCH ? due - first : BATCH, *pairs = now_due + 2 * first, many = 0;
      for (uint64_t i = 0; i < few; i++) {
        uint64_t row = pairs[2 * i], column = pairs[2 * i + 1];
        place[i] = --mine;
        MPI_Put(&place[i], 1, MPI_UINT64_T, row % size, row / size, 1, MPI_UINT64_T, to[0]);
        MPI_Put(&place[i], 1, MPI_UINT64_T, column % size, column / size, 1, MPI_UINT64_T, to[1]);
        MPI_Get(&begins[2 * i], 2, MPI_UINT64_T, column % size, column / size, 2, MPI_UINT64_T, of_b[0]);
        less[i] = -entry(column);
      }
      MPI_Win_flush_all(of_b[0]);
      for (uint64_t i = 0; i < few; i++) many += begins[2 * i + 1] - begins[2 * i];
      if (many > room) {
        room = many;
        free(rows), rows = memory(room);
        free(found), found = memory(room);
      }
      many = 0;
      for (uint64_t i = 0; i < few; i++) {
        uint64_t count = begins[2 * i + 1] - begins[2 * i];
        MPI_Get(&rows[many], count, MPI_UINT64_T, pairs[2 * i + 1] % size, begins[2 * i], count, MPI_UINT64_T, of_b[1]);
        many += count;
      }
      MPI_Win_flush_all(of_b[1]);
      for (uint64_t i = 0, k = 0, end = 0; i < few; i++)
        for (end += begins[2 * i + 1] - begins[2 * i]; k < end; k++) {
          MPI_Fetch_and_op(&less[i], &found[k], MPI_UINT64_T, rows[k] % size, rows[k] / size, MPI_SUM, left);
          if (k % BATCH == BATCH - 1) MPI_Win_flush_all(left);
        }
      MPI_Win_flush_all(left);
      for (uint64_t i = 0, k = 0, end = 0; i < few; i++)
        for (end += begins[2 * i + 1] - begins[2 * i]; k < end; k++) {
          uint64_t word = found[k] + less[i];
          if (COUNT(word) == 1) next_due[2 * next] = rows[k], next_due[2 * next++ + 1] = SUM(word);
        }
      MPI_Win_flush_all(to[0]);
      MPI_Win_flush_all(to[1]);
    }
    uint64_t *done = now_due;
    now_due = next_due, next_due = done, due = next;
  }
  complete(to[0]);
  complete(to[1]);
  end_time();
  print("toposort", entries);

  check(free_places == 0, "a row without a place");
  uint64_t *of_columns = memory(all), *seen = memory(all);
  MPI_Allgather(places[1], a.rows, MPI_UINT64_T, of_columns, a.rows, MPI_UINT64_T, MPI_COMM_WORLD);
  for (int which = 0; which < 2; which++) {
    memset(seen, 0, all * sizeof *seen);
    for (uint64_t i = 0; i < a.rows; i++) {
      check(places[which][i] < all, "a place");
      seen[places[which][i]] = 1;
    }
    MPI_Allreduce(MPI_IN_PLACE, seen, all, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    for (uint64_t i = 0; i < all; i++) check(seen[i] == 1, "a place that is taken twice");
  }
  for (uint64_t i = 0; i < a.rows; i++)
    for (uint64_t k = a.begin[i]; k < a.begin[i + 1]; k++)
      check(places[0][i] <= of_columns[a.columns[k] % size * a.rows + a.columns[k] / size], "an entry below the diagonal");
  release(left);
  for (int which = 0; which < 2; which++) release(to[which]), release(of_b[which]);
  forget(a);
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*run)(uint64_t);
  } kernels[] = {
      {"histogram", histogram}, {"gather", gather}, {"permutation", permutation}, {"toposort", toposort}, {"transpose", transpose},
  };
  uint64_t elements = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++)
    if (argc == 3 && elements >= ENTRIES_PER_ROW && !strcmp(argv[1], kernels[k].name)) {
      kernels[k].run(elements);
      MPI_Finalize();
      return 0;
    }
  fprintf(stderr, "usage: %s histogram|gather|permutation|toposort|transpose ELEMENTS\n", argv[0]);
  MPI_Abort(MPI_COMM_WORLD, 2);
}
