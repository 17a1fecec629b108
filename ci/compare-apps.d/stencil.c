// Iterations of a star-shaped stencil on a matrix of SIZE * SIZE elements, as in PRK. Ranks have blocks of rows, and
// put their first and last row to their neighbours; a fence ends each iteration's puts.
#include "app.h"

enum { ITERATIONS = 200 };

int main(int argc, char **argv) {
  long n = begin(&argc, &argv), rows = n / size;
  check(n % size == 0 && rows > 2, "the size is not a multiple of the ranks, or too small");
  // Rows 0 and rows + 1 are the neighbours'.
  double *in, *out = memory((rows + 2) * n * sizeof *out);
  MPI_Win win = window((rows + 2) * n * sizeof *in, sizeof *in, &in);
  for (long i = 1; i <= rows; i++)
    for (long j = 0; j < n; j++) in[i * n + j] = rank * rows + i + j;

  MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
  begin_time();
  for (int iteration = 0; iteration < ITERATIONS; iteration++) {
    if (rank > 0) MPI_Put(in + n, n, MPI_DOUBLE, rank - 1, (rows + 1) * n, n, MPI_DOUBLE, win);
    if (rank < size - 1) MPI_Put(in + rows * n, n, MPI_DOUBLE, rank + 1, 0, n, MPI_DOUBLE, win);
    MPI_Win_fence(0, win);
    long first = rank == 0 ? 2 : 1, last = rank == size - 1 ? rows - 1 : rows;
    for (long i = first; i <= last; i++)
      for (long j = 1; j < n - 1; j++)
        out[i * n + j] += 0.5 * (in[(i + 1) * n + j] - in[(i - 1) * n + j] + in[i * n + j + 1] - in[i * n + j - 1]);
    for (long i = 1; i <= rows; i++)
      for (long j = 0; j < n; j++) in[i * n + j] += 1;
    // The neighbours have read the rows that the next iteration's puts change.
    MPI_Win_fence(0, win);
  }
  print("stencil", end_time());

  long inside = 0;
  for (long i = 1; i <= rows; i++)
    for (long j = 1; j < n - 1; j++) {
      if (out[i * n + j] == 0) continue;
      check(out[i * n + j] == 2.0 * ITERATIONS, "an element");
      inside++;
    }
  check(sum_of_all(inside) == (n - 2) * (n - 2), "the number of elements inside");
  MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
  MPI_Win_free(&win);
  free(out);
  end();
}
