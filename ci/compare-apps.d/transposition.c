// Transposes a matrix of SIZE * SIZE doubles, of which each rank has a block of columns, as in PRK. Prints
// `transposition_put` for blocks that are transposed and put, and `transposition_get` for blocks that are got as a
// vector of their columns, and transposed then.
#include "app.h"

enum { ITERATIONS = 20 };

static long n, block;

// The element at `row` of this rank's column `column`, of the matrix that is transposed.
static double element(long row, long column) { return row * n + column; }

static void transpose(const double *from, long from_column, double *to, long to_column) {
  for (long c = 0; c < block; c++)
    for (long r = 0; r < block; r++) to[r * to_column + c] += from[c * from_column + r];
}

static void is_transposed(const double *b, const char *what) {
  for (long c = 0; c < block; c++)
    for (long r = 0; r < n; r++)
      check(b[c * n + r] == ITERATIONS * element(rank * block + c, r), what);
}

int main(int argc, char **argv) {
  n = begin(&argc, &argv), block = n / size;
  check(n % size == 0, "the size is not a multiple of the ranks");
  double *a, *arrived, *b = memory(n * block * sizeof *b), *blocks = memory(n * block * sizeof *b);
  MPI_Win of_a = window(n * block * sizeof *a, sizeof *a, &a);
  MPI_Win of_blocks = window(n * block * sizeof *a, sizeof *a, &arrived);
  for (long c = 0; c < block; c++)
    for (long r = 0; r < n; r++) a[c * n + r] = element(r, rank * block + c);

  MPI_Win_lock_all(0, of_blocks);
  begin_time();
  for (int iteration = 0; iteration < ITERATIONS; iteration++) {
    for (int i = 0; i < size; i++) {
      int other = (rank + i) % size;
      double *mine = blocks + other * block * block;
      memset(mine, 0, block * block * sizeof *mine);
      transpose(a + other * block, n, mine, block);
      MPI_Put(mine, block * block, MPI_DOUBLE, other, rank * block * block, block * block, MPI_DOUBLE, of_blocks);
    }
    complete(of_blocks);
    for (int other = 0; other < size; other++)
      for (long c = 0; c < block; c++)
        for (long r = 0; r < block; r++) b[c * n + other * block + r] += arrived[(other * block + c) * block + r];
    // The next iteration's puts come after this one's have been read.
    MPI_Barrier(MPI_COMM_WORLD);
  }
  print("transposition_put", end_time());
  is_transposed(b, "an element that was put");
  MPI_Win_unlock_all(of_blocks);

  MPI_Datatype columns;
  MPI_Type_vector(block, block, n, MPI_DOUBLE, &columns);
  MPI_Type_commit(&columns);
  memset(b, 0, n * block * sizeof *b);
  MPI_Win_fence(0, of_a);
  begin_time();
  for (int iteration = 0; iteration < ITERATIONS; iteration++) {
    for (int i = 0; i < size; i++) {
      int other = (rank + i) % size;
      MPI_Get(blocks + other * block * block, block * block, MPI_DOUBLE, other, rank * block, 1, columns, of_a);
    }
    MPI_Win_fence(0, of_a);
    for (int other = 0; other < size; other++)
      transpose(blocks + other * block * block, block, b + other * block, n);
  }
  print("transposition_get", end_time());
  is_transposed(b, "an element that was got");
  MPI_Win_fence(MPI_MODE_NOSUCCEED, of_a);
  MPI_Type_free(&columns);
  MPI_Win_free(&of_a);
  MPI_Win_free(&of_blocks);
  free(b);
  free(blocks);
  end();
}
