/* Derived types of every constructor at both sides, in every pair, against what the host's MPI_Pack and
 * MPI_Unpack make of the same types. */
#include "check.h"

enum { INTS = 24, AREA = 2048, MIDDLE = AREA / 2, MOST = 40 };

static MPI_Datatype types[MOST];
static int counts[MOST], ntypes;

static void add(int count, MPI_Datatype type) {
  OK(MPI_Type_commit(&type));
  types[ntypes] = type;
  counts[ntypes++] = count;
}

/* Each has so many ints, `INTS`, in as many elements of the type as `counts` says. */
static void make(void) {
  MPI_Datatype t, u;
  OK(MPI_Type_dup(MPI_INT, &t));
  add(INTS, t);
  OK(MPI_Type_contiguous(INTS, MPI_INT, &t));
  add(1, t);
  OK(MPI_Type_contiguous(4, MPI_INT, &t));
  add(6, t);
  OK(MPI_Type_vector(4, 6, 8, MPI_INT, &t));
  add(1, t);
  OK(MPI_Type_vector(4, 3, 5, MPI_INT, &t));
  add(2, t);
  OK(MPI_Type_vector(4, 6, -8, MPI_INT, &t));
  add(1, t);
  OK(MPI_Type_create_hvector(6, 4, 44, MPI_INT, &t));
  add(1, t);
  OK(MPI_Type_indexed(4, (int[]){10, 0, 2, 12}, (int[]){5, 99, 40, -20}, MPI_INT, &t));
  add(1, t);
  OK(MPI_Type_create_hindexed(3, (int[]){10, 2, 12}, (MPI_Aint[]){400, 0, -200}, MPI_INT, &t));
  add(1, t);
  OK(MPI_Type_create_indexed_block(4, 6, (int[]){30, 0, 7, 60}, MPI_INT, &t));
  add(1, t);
  OK(MPI_Type_create_hindexed_block(6, 4, (MPI_Aint[]){0, 16, 100, 200, -60, 300}, MPI_INT, &t));
  add(1, t);
  OK(MPI_Type_create_struct(3, (int[]){3, 1, 9}, (MPI_Aint[]){8, 0, 100},
                            (MPI_Datatype[]){MPI_INT, MPI_INT, MPI_INT}, &t));
  OK(MPI_Type_create_struct(2, (int[]){1, 11}, (MPI_Aint[]){0, 300}, (MPI_Datatype[]){t, MPI_INT}, &u));
  OK(MPI_Type_free(&t));
  add(1, u);
  OK(MPI_Type_create_subarray(2, (int[]){6, 8}, (int[]){4, 6}, (int[]){1, 2}, MPI_ORDER_C, MPI_INT, &t));
  add(1, t);
  OK(MPI_Type_create_subarray(2, (int[]){6, 8}, (int[]){4, 6}, (int[]){1, 2}, MPI_ORDER_FORTRAN, MPI_INT, &t));
  add(1, t);
  OK(MPI_Type_create_subarray(3, (int[]){5, 4, 7}, (int[]){2, 3, 2}, (int[]){3, 0, 5}, MPI_ORDER_C, MPI_INT, &t));
  add(2, t);
  int block[] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_BLOCK};
  int cyclic[] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_CYCLIC};
  int mixed[] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_NONE};
  int standard[] = {MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG};
  for (int part = 0; part < 4; part += 3)
    for (int order = 0; order < 2; order++) {
      int in = order ? MPI_ORDER_FORTRAN : MPI_ORDER_C;
      OK(MPI_Type_create_darray(4, part, 2, (int[]){12, 8}, block, standard, (int[]){2, 2}, in, MPI_INT, &t));
      add(1, t);
      OK(MPI_Type_create_darray(4, part, 2, (int[]){12, 8}, cyclic, standard, (int[]){2, 2}, in, MPI_INT, &t));
      add(1, t);
      OK(MPI_Type_create_darray(4, part, 2, (int[]){12, 8}, cyclic, (int[]){3, 2}, (int[]){2, 2}, in, MPI_INT, &t));
      add(1, t);
      OK(MPI_Type_create_darray(4, part, 2, (int[]){16, 6}, mixed, (int[]){2, MPI_DISTRIBUTE_DFLT_DARG}, (int[]){4, 1}, in,
                                MPI_INT, &t));
      add(1, t);
    }
  OK(MPI_Type_vector(3, 2, 4, MPI_INT, &t));
  OK(MPI_Type_create_resized(t, -8, 64, &u));
  OK(MPI_Type_free(&t));
  add(4, u);
  /* Elements that lie below the ones before: alone, in each other, and in lists. */
  OK(MPI_Type_create_resized(MPI_INT, 12, -8, &t));
  add(INTS, t);
  OK(MPI_Type_contiguous(3, MPI_INT, &t));
  OK(MPI_Type_create_resized(t, -4, -16, &u));
  OK(MPI_Type_free(&t));
  OK(MPI_Type_vector(2, 2, 3, u, &t));
  OK(MPI_Type_free(&u));
  OK(MPI_Type_create_resized(t, 0, -112, &u));
  OK(MPI_Type_free(&t));
  add(2, u);
  OK(MPI_Type_create_resized(MPI_INT, 4, -8, &t));
  OK(MPI_Type_indexed(2, (int[]){4, 8}, (int[]){-5, 1}, t, &u));
  OK(MPI_Type_free(&t));
  OK(MPI_Type_create_resized(u, 28, -100, &t));
  OK(MPI_Type_free(&u));
  add(2, t);
  OK(MPI_Type_vector(3, 4, 5, MPI_INT, &t));
  OK(MPI_Type_create_hvector(2, 1, 200, t, &u));
  OK(MPI_Type_free(&t));
  OK(MPI_Type_dup(u, &t));
  OK(MPI_Type_free(&u));
  add(1, t);
  CHECK(ntypes <= MOST);
}

static int start(int who, int area, int at) { return who * 1000003 + area * 4099 + at; }
static int given(int who, int at) { return who * 70001 + at * 3 + 1; }

static int *base, *want, *theirs, mine[AREA], lefts[AREA], result[AREA], result_want[AREA];
static char packed[INTS * sizeof(int)], other[INTS * sizeof(int)];
static MPI_Win win;

static void fill(int *at, int who) {
  for (int area = 0; area < ntypes; area++)
    for (int i = 0; i < AREA; i++) at[area * AREA + i] = start(who, area, i);
}

static void pack(const int *from, int ty, void *to) {
  int at = 0;
  OK(MPI_Pack((void *)(from + MIDDLE), counts[ty], types[ty], to, INTS * sizeof(int), &at, MPI_COMM_WORLD));
  EQUAL(at, INTS * sizeof(int));
}

static void unpack(void *from, int ty, int *to) {
  int at = 0;
  OK(MPI_Unpack(from, INTS * sizeof(int), &at, to + MIDDLE, counts[ty], types[ty], MPI_COMM_WORLD));
}

static void same(const char *call, int origin, int target, const int *got, const int *want_) {
  for (int i = 0; i < AREA; i++)
    if (got[i] != want_[i])
      FAIL("%s from type %d to type %d: int %d is %d and not %d", call, origin, target, i - MIDDLE, got[i], want_[i]);
}

static void sums(void *into, const void *from) {
  int a[INTS], b[INTS];
  memcpy(a, into, sizeof a), memcpy(b, from, sizeof b);
  for (int i = 0; i < INTS; i++) a[i] += b[i];
  memcpy(into, a, sizeof a);
}

/* What the left one's operation with this origin type does to each area. */
static void expect(int origin, int sum) {
  fill(want, rank);
  for (int target = 0; target < ntypes; target++) {
    int *area = want + target * AREA;
    pack(lefts, origin, other);
    if (sum) pack(area, target, packed), sums(packed, other);
    unpack(sum ? packed : other, target, area);
  }
}

/* A target's type with an element twice, as PETSc makes them: both operands count, in their order. */
static void twice(MPI_Win w, MPI_Aint there, double *at) {
  MPI_Datatype t;
  double ones[3] = {1, 10, 100}, olds[3];
  OK(MPI_Type_create_indexed_block(3, 1, (int[]){2, 0, 2}, MPI_DOUBLE, &t));
  OK(MPI_Type_commit(&t));
  OK(MPI_Win_fence(0, w));
  OK(MPI_Accumulate(ones, 3, MPI_DOUBLE, right(), there, 1, t, MPI_SUM, w));
  OK(MPI_Win_fence(0, w));
  CHECK(at[0] == 10 && at[1] == 0 && at[2] == 101);
  OK(MPI_Win_fence(0, w));
  OK(MPI_Get_accumulate(ones, 3, MPI_DOUBLE, olds, 3, MPI_DOUBLE, right(), there, 1, t, MPI_SUM, w));
  OK(MPI_Win_fence(0, w));
  /* Of an element that comes again, other MPIs fetch the first old value again. */
  CHECK(olds[0] == 101 && olds[1] == 10);
  CHECK(at[0] == 20 && at[1] == 0 && at[2] == 202);
  OK(MPI_Win_fence(0, w));
  OK(MPI_Accumulate(ones, 3, MPI_DOUBLE, right(), there, 1, t, MPI_REPLACE, w));
  OK(MPI_Win_fence(0, w));
  CHECK(at[0] == 10 && at[1] == 0 && at[2] == 100);
  OK(MPI_Type_free(&t));
}

static void twice_in_each_window(void) {
  double own[8] = {0}, attached[8] = {0}, *allocated; /* MPICH 4.0 places 3 wrong. */
  MPI_Aint here, there;
  MPI_Win w;
  OK(MPI_Win_create(own, sizeof own, sizeof *own, MPI_INFO_NULL, MPI_COMM_WORLD, &w));
  twice(w, 0, own);
  OK(MPI_Win_free(&w));
  OK(MPI_Win_allocate(sizeof own, sizeof *own, MPI_INFO_NULL, MPI_COMM_WORLD, &allocated, &w));
  memset(allocated, 0, sizeof own);
  twice(w, 0, allocated);
  OK(MPI_Win_free(&w));
  OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &w));
  OK(MPI_Win_attach(w, attached, sizeof attached));
  OK(MPI_Get_address(attached, &here));
  OK(MPI_Sendrecv(&here, 1, MPI_AINT, left(), 0, &there, 1, MPI_AINT, right(), 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  twice(w, there, attached);
  OK(MPI_Win_detach(w, attached));
  OK(MPI_Win_free(&w));
}

int main(int argc, char **argv) {
  begin(&argc, &argv);
  twice_in_each_window();
  make();
  size_t bytes = sizeof(int) * ntypes * AREA;
  OK(MPI_Win_allocate(bytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
  want = malloc(bytes), theirs = malloc(bytes);
  fill(theirs, right());
  for (int i = 0; i < AREA; i++) mine[i] = given(rank, i), lefts[i] = given(left(), i);

  for (int o = 0; o < ntypes; o++) {
    fill(base, rank);
    OK(MPI_Win_fence(0, win));
    for (int t = 0; t < ntypes; t++)
      OK(MPI_Put(mine + MIDDLE, counts[o], types[o], right(), t * AREA + MIDDLE, counts[t], types[t], win));
    OK(MPI_Win_fence(0, win));
    expect(o, 0);
    for (int t = 0; t < ntypes; t++) same("MPI_Put", o, t, base + t * AREA, want + t * AREA);

    fill(base, rank);
    OK(MPI_Win_fence(0, win));
    for (int t = 0; t < ntypes; t++)
      OK(MPI_Accumulate(mine + MIDDLE, counts[o], types[o], right(), t * AREA + MIDDLE, counts[t], types[t], MPI_SUM, win));
    OK(MPI_Win_fence(0, win));
    expect(o, 1);
    for (int t = 0; t < ntypes; t++) same("MPI_Accumulate", o, t, base + t * AREA, want + t * AREA);

    fill(base, rank);
    OK(MPI_Win_fence(0, win));
    for (int t = 0; t < ntypes; t++) {
      int *at = theirs + t * AREA;
      /* Each pair's get alone: its result has no area of its own. */
      memset(result, 0x11, sizeof result), memset(result_want, 0x11, sizeof result_want);
      OK(MPI_Get(result + MIDDLE, counts[o], types[o], right(), t * AREA + MIDDLE, counts[t], types[t], win));
      OK(MPI_Win_fence(0, win));
      pack(at, t, packed);
      unpack(packed, o, result_want);
      same("MPI_Get", o, t, result, result_want);

      memset(result, 0x11, sizeof result);
      OK(MPI_Get_accumulate(mine + MIDDLE, counts[t], types[t], result + MIDDLE, counts[o], types[o], right(),
                            t * AREA + MIDDLE, counts[t], types[t], MPI_SUM, win));
      OK(MPI_Win_fence(0, win));
      same("MPI_Get_accumulate", o, t, result, result_want);
    }
    fill(want, rank);
    for (int t = 0; t < ntypes; t++) {
      pack(lefts, t, other), pack(want + t * AREA, t, packed), sums(packed, other), unpack(packed, t, want + t * AREA);
      same("MPI_Get_accumulate, the target,", o, t, base + t * AREA, want + t * AREA);
    }
  }
  for (int t = 0; t < ntypes; t++) OK(MPI_Type_free(&types[t]));
  OK(MPI_Win_free(&win));
  return end();
}
