/* MPI_Alloc_mem: many small pieces, large ones, and windows over parts of them. */
#include <stdint.h>
#include "check.h"

enum { PIECES = 100000, PIECE = 64 };

static void pieces(void) {
  char **at = malloc(PIECES * sizeof *at);
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < PIECES; i++) {
      OK(MPI_Alloc_mem(PIECE, MPI_INFO_NULL, &at[i]));
      CHECK(at[i] && (uintptr_t)at[i] % 8 == 0);
      memset(at[i], i * 7 + round, PIECE);
    }
    for (int i = 0; i < PIECES; i++) EQUAL_AT(i, at[i][i % PIECE], (char)(i * 7 + round));
    /* In another order than they came. */
    for (int i = 0; i < PIECES; i++) OK(MPI_Free_mem(at[(i * 7919ll + round) % PIECES]));
  }
  free(at);
}

static void windows(MPI_Aint bytes, MPI_Aint from) {
  char *memory;
  MPI_Win win;
  OK(MPI_Alloc_mem(bytes, MPI_INFO_NULL, &memory));
  memset(memory, 1, bytes);
  OK(MPI_Win_create(memory + from, bytes - from, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
  OK(MPI_Win_fence(0, win));
  char value = 20 + rank;
  OK(MPI_Put(&value, 1, MPI_CHAR, right(), 0, 1, MPI_CHAR, win));
  OK(MPI_Put(&value, 1, MPI_CHAR, right(), bytes - from - 1, 1, MPI_CHAR, win));
  OK(MPI_Win_fence(0, win));
  EQUAL(memory[from], 20 + left());
  EQUAL(memory[bytes - 1], 20 + left());
  for (MPI_Aint i = 0; i < bytes - 1; i++)
    if (i != from) EQUAL_AT(i, memory[i], 1);
  OK(MPI_Win_free(&win));
  OK(MPI_Free_mem(memory));
}

int main(int argc, char **argv) {
  begin(&argc, &argv);
  pieces();
  windows(64, 0);
  windows(64, 24);
  windows(1 << 20, 0);
  windows(1 << 20, 12345);
  MPI_Info info;
  void *hinted;
  OK(MPI_Info_create(&info));
  OK(MPI_Info_set(info, "alloc_shared_noncontig", "maybe"));
  OK(MPI_Info_set(info, "mpi_minimum_memory_alignment", "4096"));
  OK(MPI_Alloc_mem(100, info, &hinted));
  OK(MPI_Free_mem(hinted));
  OK(MPI_Info_free(&info));

  /* Many windows over pieces at once. */
  enum { WINDOWS = 30 };
  MPI_Win wins[WINDOWS];
  int *at[WINDOWS];
  for (int i = 0; i < WINDOWS; i++) {
    OK(MPI_Alloc_mem(PIECE, MPI_INFO_NULL, &at[i]));
    memset(at[i], 0, PIECE);
    OK(MPI_Win_create(at[i], PIECE, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &wins[i]));
  }
  for (int i = 0; i < WINDOWS; i++) {
    int value = rank * 100 + i;
    OK(MPI_Win_fence(0, wins[i]));
    OK(MPI_Put(&value, 1, MPI_INT, right(), i % 16, 1, MPI_INT, wins[i]));
    OK(MPI_Win_fence(0, wins[i]));
  }
  for (int i = 0; i < WINDOWS; i++) {
    for (int j = 0; j < 16; j++) EQUAL_AT(i * 100 + j, at[i][j], j == i % 16 ? left() * 100 + i : 0);
    OK(MPI_Win_free(&wins[i]));
    OK(MPI_Free_mem(at[i]));
  }
  return end();
}
