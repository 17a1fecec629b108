/* What happens to a word at once: counters, tickets and locks by fetch_and_op and compare_and_swap, words by bytes. */
#include "check.h"

enum { TIMES = 400 };
static long *base;
static MPI_Win win;

static void counters(void) {
  memset(base, 0, 64);
  OK(MPI_Barrier(MPI_COMM_WORLD));
  OK(MPI_Win_lock_all(0, win));
  long one = 1, old, last = -1, sum = 0;
  for (int i = 0; i < TIMES; i++) {
    OK(MPI_Fetch_and_op(&one, &old, MPI_LONG, 0, 0, MPI_SUM, win));
    OK(MPI_Win_flush(0, win));
    CHECK(old > last);
    last = old;
    sum += old;
  }
  OK(MPI_Win_unlock_all(win));
  OK(MPI_Barrier(MPI_COMM_WORLD));
  long all = (long)TIMES * size, sums;
  /* Each number came to one rank. */
  OK(MPI_Allreduce(&sum, &sums, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
  EQUAL(sums, all * (all - 1) / 2);
  if (rank == 0) EQUAL(base[0], all);
  OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* A lock of the program's own, which guards what is read and written one after the other. */
static void guarded(void) {
  memset(base, 0, 64);
  OK(MPI_Barrier(MPI_COMM_WORLD));
  OK(MPI_Win_lock_all(0, win));
  long none = 0, me = rank + 1, old, value;
  for (int i = 0; i < TIMES / 8; i++) {
    do {
      OK(MPI_Compare_and_swap(&me, &none, &old, MPI_LONG, 0, 1, win));
      OK(MPI_Win_flush(0, win));
      CHECK(old >= 0 && old <= size && old != me);
    } while (old != 0);
    OK(MPI_Get(&value, 1, MPI_LONG, 0, 2, 1, MPI_LONG, win));
    OK(MPI_Win_flush(0, win));
    value++;
    OK(MPI_Put(&value, 1, MPI_LONG, 0, 2, 1, MPI_LONG, win));
    OK(MPI_Win_flush(0, win));
    OK(MPI_Fetch_and_op(&none, &old, MPI_LONG, 0, 1, MPI_REPLACE, win));
    OK(MPI_Win_flush(0, win));
    EQUAL(old, me);
  }
  OK(MPI_Win_unlock_all(win));
  OK(MPI_Barrier(MPI_COMM_WORLD));
  if (rank == 0) EQUAL(base[2], (long)(TIMES / 8) * size);
  OK(MPI_Barrier(MPI_COMM_WORLD));
}

#define SWAP(c, mpi)                                                                         \
  do {                                                                                       \
    memset(base, 0, 64);                                                                     \
    *(c *)base = (c)(rank + 5);                                                              \
    OK(MPI_Win_fence(0, win));                                                               \
    c new = (c)99, wrong = (c)100, old = 0, expect = (c)(right() + 5);                       \
    OK(MPI_Compare_and_swap(&new, &wrong, &old, mpi, right(), 0, win));                      \
    OK(MPI_Win_fence(0, win));                                                               \
    EQUAL(old, expect);                                                                      \
    EQUAL(*(c *)base, rank + 5);                                                             \
    OK(MPI_Win_fence(0, win));                                                               \
    OK(MPI_Compare_and_swap(&new, &expect, &old, mpi, right(), 0, win));                     \
    OK(MPI_Win_fence(0, win));                                                               \
    EQUAL(old, expect);                                                                      \
    EQUAL(*(c *)base, new);                                                                  \
    if (sizeof(c) < 8) EQUAL(((char *)base)[sizeof(c)], 0);                                  \
  } while (0)

/* Sums of many ranks to the same elements, in one go and in pieces. */
static void sums(void) {
  double many[100], *at = (double *)base;
  for (int i = 0; i < 100; i++) many[i] = i + rank, at[i] = 0.5;
  OK(MPI_Win_fence(0, win));
  for (int target = 0; target < size; target++) {
    OK(MPI_Accumulate(many, 100, MPI_DOUBLE, target, 0, 100, MPI_DOUBLE, MPI_SUM, win));
    for (int i = 0; i < 100; i += 7)
      OK(MPI_Accumulate(&many[i], 1, MPI_DOUBLE, target, i, 1, MPI_DOUBLE, MPI_SUM, win));
  }
  OK(MPI_Win_fence(0, win));
  for (int i = 0; i < 100; i++) {
    double all = (double)size * i + size * (size - 1) / 2;
    CHECK(at[i] == 0.5 + all * (i % 7 == 0 ? 2 : 1));
  }
}

/* A rank and an address, published by bytes: each comes as it was written. From every other byte of the origin, too. */
static void published(void) {
  enum { BYTES = 16, ROUNDS = 50 * TIMES };
  MPI_Datatype spread;
  char from[2 * BYTES], to[2 * BYTES];
  OK(MPI_Type_vector(BYTES, 1, 2, MPI_BYTE, &spread));
  OK(MPI_Type_commit(&spread));
  memset(base, 0, BYTES);
  OK(MPI_Barrier(MPI_COMM_WORLD));
  OK(MPI_Win_lock_all(0, win));
  for (int i = 0; i < ROUNDS; i++) {
    int sparse = i / (ROUNDS / 2), count = sparse ? 1 : BYTES - i % 2 * 4;
    MPI_Datatype type = sparse ? spread : MPI_BYTE;
    if (rank % 2) {
      memset(from, i, sizeof from);
      OK(MPI_Accumulate(from, count, type, 0, 0, sparse ? BYTES : count, MPI_BYTE, MPI_REPLACE, win));
      OK(MPI_Win_flush(0, win));
      continue;
    }
    OK(MPI_Get_accumulate(NULL, 0, MPI_BYTE, to, count, type, 0, 0, sparse ? BYTES : count, MPI_BYTE, MPI_NO_OP, win));
    OK(MPI_Win_flush(0, win));
    int bytes = sparse ? BYTES : count, step = sparse ? 2 : 1, width;
    /* Every other write ends amid the second word. */
    for (int w = 0; w < bytes; w += width) {
      width = w == 0 ? 8 : 4;
      for (int b = 1; b < width; b++) EQUAL_AT(i, to[(w + b) * step], to[w * step]);
    }
  }
  OK(MPI_Win_unlock_all(win));
  OK(MPI_Barrier(MPI_COMM_WORLD));
  OK(MPI_Type_free(&spread));
}

int main(int argc, char **argv) {
  begin(&argc, &argv);
  OK(MPI_Win_allocate(1024, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
  counters();
  guarded();
  SWAP(signed char, MPI_SIGNED_CHAR);
  SWAP(char, MPI_CHAR);
  SWAP(unsigned char, MPI_BYTE);
  SWAP(short, MPI_SHORT);
  SWAP(unsigned short, MPI_UINT16_T);
  SWAP(int, MPI_INT);
  SWAP(unsigned, MPI_UNSIGNED);
  SWAP(int, MPI_LOGICAL);
  SWAP(int, MPI_INTEGER);
  SWAP(long, MPI_LONG);
  SWAP(unsigned long, MPI_UINT64_T);
  SWAP(MPI_Aint, MPI_AINT);
  sums();
  published();
  OK(MPI_Win_free(&win));
  return end();
}
