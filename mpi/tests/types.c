/* A datatype's life: used and freed at once, its handle used again for another; absolute addresses; bytes
 * against other types; mixed members; Fortran's types by precision. */
#include <stddef.h>
#include "check.h"

static int *base;
static MPI_Win win;
enum { LEN = 256 };

static void clear(void) {
  OK(MPI_Barrier(MPI_COMM_WORLD));
  memset(base, 0, LEN * sizeof(int));
  OK(MPI_Win_fence(0, win));
}

static void reused(void) {
  int mine[LEN];
  for (int i = 0; i < LEN; i++) mine[i] = 1000 * rank + i;
  for (int round = 0; round < 60; round++) {
    clear();
    MPI_Datatype type;
    int step = 2 + round % 5, count = 3 + round % 7;
    if (round % 2) OK(MPI_Type_vector(count, 1, step, MPI_INT, &type));
    else OK(MPI_Type_contiguous(count, MPI_INT, &type));
    OK(MPI_Type_commit(&type));
    OK(MPI_Put(mine, count, MPI_INT, right(), 0, 1, type, win));
    OK(MPI_Type_free(&type));
    OK(MPI_Win_fence(0, win));
    for (int i = 0; i < LEN; i++) {
      int at = round % 2 ? i / step : i, hit = round % 2 ? i % step == 0 && at < count : i < count;
      EQUAL_AT(round * 1000 + i, base[i], hit ? 1000 * left() + at : 0);
    }
  }
}

static void absolute(void) {
  static int here[4] = {0}, there[3] = {0};
  int pieces[] = {4, 3};
  MPI_Aint at[2];
  MPI_Datatype type;
  for (int i = 0; i < 4; i++) here[i] = rank * 10 + i;
  for (int i = 0; i < 3; i++) there[i] = rank * 10 + 4 + i;
  OK(MPI_Get_address(here, &at[0]));
  OK(MPI_Get_address(there, &at[1]));
  OK(MPI_Type_create_hindexed(2, pieces, at, MPI_INT, &type));
  OK(MPI_Type_commit(&type));
  clear();
  OK(MPI_Put(MPI_BOTTOM, 1, type, right(), 5, 7, MPI_INT, win));
  OK(MPI_Win_fence(0, win));
  for (int i = 0; i < 7; i++) EQUAL_AT(i, base[5 + i], left() * 10 + i);
  OK(MPI_Get(MPI_BOTTOM, 1, type, rank, 6, 7, MPI_INT, win));
  OK(MPI_Win_fence(0, win));
  for (int i = 0; i < 3; i++) EQUAL_AT(i, here[i], left() * 10 + i + 1);
  EQUAL(there[1], left() * 10 + 6);
  EQUAL(there[2], 0);
  OK(MPI_Type_free(&type));
}

/* Pairs by what is in them: hosts give out those that have names, and null for others. */
static void pairs(void) {
#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
  struct { double value; int index; } mine = {rank + 0.5, rank}, *held = (void *)base;
  MPI_Datatype type;
  OK(MPI_Type_get_value_index(MPI_DOUBLE, MPI_INT, &type));
  CHECK(type != MPI_DATATYPE_NULL);
  clear();
  OK(MPI_Accumulate(&mine, 1, type, 0, 0, 1, type, MPI_MAXLOC, win));
  OK(MPI_Win_fence(0, win));
  if (rank == 0) CHECK(held->value == size - 0.5 && held->index == size - 1);
#endif
}

static void bytes(void) {
  double mine[4] = {rank + 0.25, -rank, 1e300, 3}, got[4];
  clear();
  OK(MPI_Put(mine, sizeof mine, MPI_BYTE, right(), 0, 4, MPI_DOUBLE, win));
  OK(MPI_Win_fence(0, win));
  memcpy(got, base, sizeof got);
  CHECK(got[0] == left() + 0.25 && got[1] == -left() && got[2] == 1e300 && got[3] == 3);
  memset(got, 0, sizeof got);
  OK(MPI_Get(got, 4, MPI_DOUBLE, rank, 0, sizeof got, MPI_BYTE, win));
  OK(MPI_Win_fence(0, win));
  CHECK(got[0] == left() + 0.25 && got[3] == 3);
  MPI_Datatype column;
  OK(MPI_Type_vector(4, 8, 16, MPI_BYTE, &column));
  OK(MPI_Type_commit(&column));
  clear();
  OK(MPI_Put(mine, 4, MPI_DOUBLE, right(), 0, 1, column, win));
  OK(MPI_Win_fence(0, win));
  for (int i = 0; i < 4; i++) {
    memcpy(got, (char *)base + 16 * i, 8);
    CHECK(got[0] == (double[]){left() + 0.25, -left(), 1e300, 3}[i]);
  }
  OK(MPI_Type_free(&column));
}

struct particle {
  char kind;
  double at[3];
  short charge;
  int id;
};

static void particles(void) {
  MPI_Datatype plain, type;
  OK(MPI_Type_create_struct(4, (int[]){1, 3, 1, 1},
                            (MPI_Aint[]){offsetof(struct particle, kind), offsetof(struct particle, at),
                                         offsetof(struct particle, charge), offsetof(struct particle, id)},
                            (MPI_Datatype[]){MPI_CHAR, MPI_DOUBLE, MPI_SHORT, MPI_INT}, &plain));
  OK(MPI_Type_create_resized(plain, 0, sizeof(struct particle), &type));
  OK(MPI_Type_free(&plain));
  OK(MPI_Type_commit(&type));
  struct particle mine[5];
  memset(mine, 0xee, sizeof mine);
  for (int i = 0; i < 5; i++) mine[i] = (struct particle){'a' + i, {rank, i, rank * i + 0.5}, -i, rank * 100 + i};
  clear();
  OK(MPI_Put(mine, 5, type, right(), 0, 5, type, win));
  OK(MPI_Win_fence(0, win));
  struct particle *got = (struct particle *)base;
  for (int i = 0; i < 5; i++) {
    EQUAL_AT(i, got[i].kind, 'a' + i);
    CHECK(got[i].at[0] == left() && got[i].at[1] == i && got[i].at[2] == left() * i + 0.5);
    EQUAL_AT(i, got[i].charge, -i);
    EQUAL_AT(i, got[i].id, left() * 100 + i);
    /* The holes stay as they were. */
    EQUAL_AT(i, ((char *)&got[i])[1], 0);
  }
  OK(MPI_Type_free(&type));
}

static void precision(void) {
  MPI_Datatype type;
  OK(MPI_Type_create_f90_integer(9, &type));
  int one = rank + 1;
  clear();
  OK(MPI_Accumulate(&one, 1, type, right(), 0, 1, type, MPI_SUM, win));
  OK(MPI_Win_fence(0, win));
  EQUAL(base[0], left() + 1);
  OK(MPI_Win_fence(0, win));
  int before = -1, twice = 2 * (rank + 1), after = -1;
  OK(MPI_Fetch_and_op(&one, &before, type, right(), 0, MPI_SUM, win));
  OK(MPI_Win_fence(0, win));
  EQUAL(before, rank + 1);
  OK(MPI_Compare_and_swap(&one, &twice, &after, type, right(), 0, win));
  OK(MPI_Win_fence(0, win));
  EQUAL(after, twice);
  EQUAL(base[0], left() + 1);
  OK(MPI_Type_create_f90_real(15, 300, &type));
  double half = rank + 0.5;
  clear();
  OK(MPI_Accumulate(&half, 1, type, right(), 0, 1, type, MPI_SUM, win));
  OK(MPI_Win_fence(0, win));
  memcpy(&half, base, sizeof half);
  CHECK(half == left() + 0.5);
}

static void nothing(void) {
  MPI_Datatype empty, none;
  OK(MPI_Type_contiguous(0, MPI_INT, &empty));
  OK(MPI_Type_commit(&empty));
  OK(MPI_Type_vector(0, 3, 4, MPI_DOUBLE, &none));
  OK(MPI_Type_commit(&none));
  clear();
  int value = 9;
  OK(MPI_Put(NULL, 0, MPI_INT, right(), 0, 0, MPI_INT, win));
  OK(MPI_Put(&value, 1, empty, right(), 0, 1, none, win));
  OK(MPI_Get(&value, 3, none, right(), 0, 0, MPI_INT, win));
  OK(MPI_Accumulate(&value, 0, MPI_INT, right(), 0, 0, MPI_INT, MPI_SUM, win));
  OK(MPI_Win_fence(0, win));
  EQUAL(base[0], 0);
  EQUAL(value, 9);
  OK(MPI_Type_free(&empty));
  OK(MPI_Type_free(&none));
}

int main(int argc, char **argv) {
  begin(&argc, &argv);
  OK(MPI_Win_allocate(LEN * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
  reused();
  absolute();
  bytes();
  pairs();
  particles();
  precision();
  nothing();
  OK(MPI_Win_free(&win));
  return end();
}
