/* The classic: a rank accumulates a matrix into the next one's, transposed by a vector in an hvector. */
#include "check.h"

enum { ROWS = 100, COLUMNS = 100 };
static int mine[ROWS][COLUMNS], theirs[ROWS][COLUMNS];

int main(int argc, char **argv) {
  begin(&argc, &argv);
  MPI_Datatype column, transposed;
  OK(MPI_Type_vector(ROWS, 1, COLUMNS, MPI_INT, &column));
  OK(MPI_Type_create_hvector(COLUMNS, 1, sizeof(int), column, &transposed));
  OK(MPI_Type_commit(&transposed));
  OK(MPI_Type_free(&column));
  for (int i = 0; i < ROWS; i++)
    for (int j = 0; j < COLUMNS; j++) mine[i][j] = rank * 100000 + i * COLUMNS + j, theirs[i][j] = 7 * i - j;
  MPI_Win win;
  OK(MPI_Win_create(theirs, sizeof theirs, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
  OK(MPI_Win_fence(0, win));
  OK(MPI_Accumulate(mine, ROWS * COLUMNS, MPI_INT, right(), 0, 1, transposed, MPI_SUM, win));
  OK(MPI_Win_fence(0, win));
  for (int i = 0; i < ROWS; i++)
    for (int j = 0; j < COLUMNS; j++)
      EQUAL_AT(i * COLUMNS + j, theirs[i][j], 7 * i - j + left() * 100000 + j * COLUMNS + i);
  OK(MPI_Type_free(&transposed));
  OK(MPI_Win_free(&win));
  return end();
}
