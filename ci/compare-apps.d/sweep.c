// A sweep over a matrix of SIZE rows, as in the kernel p2p of PRK: an element is the sum of those above and to the left
// without that between them. Ranks have blocks of columns, and pass each row on to the right by
// post-start-complete-wait over memory of their own; the last element goes back to the first rank.
#include "app.h"

enum { COLUMNS = 64, ITERATIONS = 10 };

static MPI_Group group_of(int other) {
  MPI_Group all, one;
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  MPI_Group_incl(all, 1, &other, &one);
  MPI_Group_free(&all);
  return one;
}

int main(int argc, char **argv) {
  long rows = begin(&argc, &argv);
  int left = (rank + size - 1) % size, right = (rank + 1) % size;
  MPI_Group from = group_of(left), to = group_of(right);
  // Column 0 is the left neighbour's last.
  double (*matrix)[COLUMNS + 1] = memory(rows * sizeof *matrix), arrived, corner = 0;
  MPI_Win win;
  MPI_Win_create(&arrived, sizeof arrived, sizeof arrived, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  for (long i = 0; i < rows; i++) matrix[i][0] = i + rank * COLUMNS - (rank > 0);
  for (int j = 0; j < COLUMNS; j++) matrix[0][j + 1] = rank * COLUMNS + j;
  if (rank == 0)
    for (long i = 0; i < rows; i++) matrix[i][1] = i;

  begin_time();
  for (int iteration = 0; iteration < ITERATIONS; iteration++) {
    if (rank > 0) MPI_Win_post(from, 0, win);
    for (long i = 1; i < rows; i++) {
      if (rank > 0) {
        MPI_Win_wait(win);
        matrix[i][0] = arrived;
        if (i < rows - 1) MPI_Win_post(from, 0, win);
      }
      for (int j = rank == 0 ? 2 : 1; j <= COLUMNS; j++)
        matrix[i][j] = matrix[i - 1][j] + matrix[i][j - 1] - matrix[i - 1][j - 1];
      if (rank < size - 1) {
        MPI_Win_start(to, 0, win);
        MPI_Put(&matrix[i][COLUMNS], 1, MPI_DOUBLE, right, 0, 1, MPI_DOUBLE, win);
        MPI_Win_complete(win);
      }
    }
    // So that the next iteration's values differ.
    if (rank == size - 1) {
      double negative = -matrix[rows - 1][COLUMNS];
      MPI_Win_start(to, 0, win);
      MPI_Put(&negative, 1, MPI_DOUBLE, right, 0, 1, MPI_DOUBLE, win);
      MPI_Win_complete(win);
    }
    if (rank == 0) {
      MPI_Win_post(from, 0, win);
      MPI_Win_wait(win);
      matrix[0][1] = corner = arrived;
    }
  }
  print("sweep", end_time());

  double expected = (double)ITERATIONS * (rows - 1 + (long)size * COLUMNS - 1);
  check(rank > 0 || -corner == expected, "the corner");
  MPI_Group_free(&from);
  MPI_Group_free(&to);
  MPI_Win_free(&win);
  free(matrix);
  end();
}
