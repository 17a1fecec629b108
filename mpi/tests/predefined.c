/* Every predefined type with every operation that it has: put, get, accumulate, get_accumulate and fetch_and_op, held
 * against C and against the host's own MPI_Reduce_local. */
#include <complex.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <wchar.h>
#include "check.h"

enum { N = 9 };
typedef void combine(int op, void *into, const void *from);

/* Operations, by number, so that programs for any host can switch over them. */
enum { SUM, PROD, MIN, MAX, BAND, BOR, BXOR, LAND, LOR, LXOR, REPLACE, NO_OP, MINLOC, MAXLOC, OPS };
static MPI_Op ops[OPS];

#define COMMON             \
  case REPLACE: *a = b; return; \
  case NO_OP: return;

#define INTEGER(name, type)                                  \
  static void name(int op, void *into, const void *from) {   \
    type *a = into, b = *(const type *)from;                 \
    switch (op) {                                            \
      case SUM: *a = (type)(*a + b); return;                 \
      case PROD: *a = (type)(*a * b); return;                \
      case MIN: *a = *a < b ? *a : b; return;                \
      case MAX: *a = *a > b ? *a : b; return;                \
      case BAND: *a &= b; return;                            \
      case BOR: *a |= b; return;                             \
      case BXOR: *a ^= b; return;                            \
      case LAND: *a = *a && b; return;                       \
      case LOR: *a = *a || b; return;                        \
      case LXOR: *a = !*a != !b; return;                     \
      COMMON                                                 \
    }                                                        \
  }
#define REAL(name, type)                                     \
  static void name(int op, void *into, const void *from) {   \
    type *a = into, b = *(const type *)from;                 \
    switch (op) {                                            \
      case SUM: *a += b; return;                             \
      case PROD: *a *= b; return;                            \
      case MIN: *a = *a < b ? *a : b; return;                \
      case MAX: *a = *a > b ? *a : b; return;                \
      COMMON                                                 \
    }                                                        \
  }
#define COMPLEX(name, type)                                  \
  static void name(int op, void *into, const void *from) {   \
    type *a = into, b = *(const type *)from;                 \
    switch (op) {                                            \
      case SUM: *a += b; return;                             \
      case PROD: *a *= b; return;                            \
      COMMON                                                 \
    }                                                        \
  }
#define PAIR(name, value, index)                                              \
  typedef struct { value v; index i; } name##_pair;                           \
  static void name(int op, void *into, const void *from) {                    \
    name##_pair *a = into, b = *(const name##_pair *)from;                    \
    switch (op) {                                                             \
      case MINLOC: if (b.v < a->v || (b.v == a->v && b.i < a->i)) *a = b; return; \
      case MAXLOC: if (b.v > a->v || (b.v == a->v && b.i < a->i)) *a = b; return; \
      COMMON                                                                  \
    }                                                                         \
  }

INTEGER(i8, int8_t)
INTEGER(u8, uint8_t)
INTEGER(i16, int16_t)
INTEGER(u16, uint16_t)
INTEGER(i32, int32_t)
INTEGER(u32, uint32_t)
INTEGER(i64, int64_t)
INTEGER(u64, uint64_t)
#define LOGICAL_OF(name, type)                               \
  static void name(int op, void *into, const void *from) {   \
    type *a = into, b = *(const type *)from;                 \
    switch (op) {                                            \
      case LAND: *a = *a && b; return;                       \
      case LOR: *a = *a || b; return;                        \
      case LXOR: *a = !*a != !b; return;                     \
      COMMON                                                 \
    }                                                        \
  }
LOGICAL_OF(boolean, bool)
LOGICAL_OF(logical1, int8_t)
LOGICAL_OF(logical2, int16_t)
LOGICAL_OF(logical4, int32_t)
LOGICAL_OF(logical8, int64_t)
REAL(f32, float)
REAL(f64, double)
REAL(f80, long double)
COMPLEX(c32, float complex)
COMPLEX(c64, double complex)
COMPLEX(c80, long double complex)
PAIR(float_int, float, int)
PAIR(double_int, double, int)
PAIR(long_int, long, int)
PAIR(two_int, int, int)
PAIR(short_int, short, int)
PAIR(long_double_int, long double, int)
PAIR(two_float, float, float)
PAIR(two_double, double, double)

#define BIT(op) (1 << (op))
enum {
  MOVED = BIT(REPLACE) | BIT(NO_OP),
  BITS = BIT(BAND) | BIT(BOR) | BIT(BXOR),
  LOGICAL = BIT(LAND) | BIT(LOR) | BIT(LXOR),
  FIELD = BIT(SUM) | BIT(PROD),
  ORDERED = BIT(MIN) | BIT(MAX),
  WHOLE = MOVED | BITS | LOGICAL | FIELD | ORDERED,
  REALS = MOVED | FIELD | ORDERED,
  PAIRS = MOVED | BIT(MINLOC) | BIT(MAXLOC),
};

struct kind {
  const char *name;
  MPI_Datatype type;
  size_t extent;
  combine *combine;
  int ops;
  void (*fill)(void *at, int seed);
};

#define FILL(name, type, value) \
  static void name(void *at, int n) { type v = value; memcpy(at, &v, sizeof v); }
FILL(fill_i8, int8_t, (int8_t)(n * 29 % 120 - 50))
FILL(fill_u8, uint8_t, (uint8_t)(n * 37))
FILL(fill_i16, int16_t, (int16_t)(n * 2999 - 9000))
FILL(fill_u16, uint16_t, (uint16_t)(n * 9973))
FILL(fill_i32, int32_t, n % 5 == 0 ? 0 : n * 77 - 300)
FILL(fill_u32, uint32_t, n * 2654435761u)
FILL(fill_i64, int64_t, n % 7 == 0 ? 0 : n * 123456789ll - 999999999)
FILL(fill_u64, uint64_t, n * 0x9e3779b97f4a7c15ull)
FILL(fill_bool, bool, n % 3 == 1)
FILL(fill_l1, int8_t, n % 3 == 1)
FILL(fill_l2, int16_t, n % 3 == 1)
FILL(fill_l4, int32_t, n % 3 == 1)
FILL(fill_l8, int64_t, n % 3 == 1)
FILL(fill_f32, float, n % 11 ? n * 0.75f - 4 : n % 2 ? INFINITY : -INFINITY)
FILL(fill_f64, double, n % 11 ? n * 1.0625 - 7 : n % 2 ? INFINITY : -INFINITY)
/* With more bits than a double has, and exponents past those of a double. */
FILL(fill_f80, long double, n % 11 ? (n * 1.0625L - 7 + n * 0x1p-59L) * (n % 5 ? 1 : 0x1p2000L) : n % 2 ? INFINITY : -INFINITY)
FILL(fill_c32, float complex, n * 0.5f - n * 1.25f * I)
FILL(fill_c64, double complex, n * 0.5 - n * 1.25 * I)
FILL(fill_c80, long double complex, n * 0.5L + n * 0x1p-60L - n * (1.25L + n * 0x1p-59L) * I)
/* Many values are equal, and indexes of either sign. */
#define FILL_PAIR(name, value) \
  static void fill_##name(void *at, int n) { name##_pair p; memset(&p, 0, sizeof p); p.v = value; p.i = n * 3 % 11 - 5; memcpy(at, &p, sizeof p); }
FILL_PAIR(float_int, n % 4 / 2)
FILL_PAIR(double_int, n % 4 / 2)
FILL_PAIR(long_int, n % 4 / 2)
FILL_PAIR(two_int, n % 4 / 2)
FILL_PAIR(short_int, n % 4 / 2)
FILL_PAIR(long_double_int, 1 + n % 4 / 2 * 0x1p-61L)
FILL_PAIR(two_float, n % 4 / 2)
FILL_PAIR(two_double, n % 4 / 2)

static size_t value_bytes(const struct kind *k, size_t at) {
  /* Of an element, what is its value and not its padding. */
  if (k->combine == f80) return at < 10;
  if (k->combine == c80) return at % 16 < 10;
  if (k->combine == double_int) return at < 12;
  if (k->combine == long_int) return at < 12;
  if (k->combine == short_int) return at < 2 || at >= 4;
  if (k->combine == long_double_int) return at < 10 || (at >= 16 && at < 20);
  return 1;
}

static void same(const struct kind *k, const char *call, int op, const char *got, const char *want) {
  for (int i = 0; i < N; i++)
    for (size_t b = 0; b < k->extent; b++)
      if (value_bytes(k, b) && got[i * k->extent + b] != want[i * k->extent + b])
        FAIL("%s of %s with operation %d: element %d is wrong at byte %zu: %#x and not %#x", call, k->name, op, i, b,
             (unsigned char)got[i * k->extent + b], (unsigned char)want[i * k->extent + b]);
}

static int seed(int who, int i) { return 3 + who * 5 + i * 2; }

static void fill(const struct kind *k, char *at, int who) {
  memset(at, 0, N * k->extent);
  for (int i = 0; i < N; i++) k->fill(at + i * k->extent, seed(who, i));
}

enum { ROOM = 32 * N };
static char *base;
static MPI_Win win;

/* MPICH 4.0 takes unsigned integers for signed ones when it compares them. So does Open MPI 4.1 with those of 64 bits, and
 * it takes MPI_OFFSET for an unsigned one; its sums of short integers stop at the ends of their range, where the processor
 * has instructions for that. */
static int host_is_wrong(const struct kind *k, int op) {
#ifdef MPICH_VERSION
  return (op == MIN || op == MAX) && (k->combine == u8 || k->combine == u16 || k->combine == u32 || k->combine == u64);
#else
  if (op == MIN || op == MAX) return k->combine == u64 || k->type == MPI_OFFSET;
  return op == SUM && (k->combine == i8 || k->combine == u8 || k->combine == i16 || k->combine == u16);
#endif
}

/* What the host makes of the same values by itself. */
static void compare_with_host(const struct kind *k, int op, const char *from, const char *before, const char *want) {
  char found[ROOM];
  if (op == REPLACE || op == NO_OP || host_is_wrong(k, op)) return;
  memcpy(found, before, ROOM);
  if (MPI_Reduce_local(from, found, N, k->type, ops[op]) == MPI_SUCCESS)
    same(k, "MPI_Reduce_local", op, found, want);
  else
    FAIL("the host does not combine %s with operation %d", k->name, op);
}

static void try(const struct kind *k) {
  char mine[ROOM], theirs[ROOM], before[ROOM], want[ROOM], got[ROOM], lefts[ROOM];
  MPI_Aint lb, extent;
  OK(MPI_Type_get_extent(k->type, &lb, &extent));
  if ((size_t)extent != k->extent) FAIL("%s: the test takes it for %zu bytes, of which it has %ld", k->name, k->extent, (long)extent);
  fill(k, mine, rank);
  fill(k, lefts, left());
  fill(k, theirs, right() + 50);
  fill(k, before, rank + 50);

  memset(base, 0, ROOM);
  OK(MPI_Win_fence(0, win));
  OK(MPI_Put(mine, N, k->type, right(), 0, N, k->type, win));
  OK(MPI_Win_fence(0, win));
  same(k, "MPI_Put", -1, base, lefts);
  memcpy(base, before, ROOM);
  memset(got, 0x55, ROOM);
  OK(MPI_Win_fence(0, win));
  OK(MPI_Get(got, N, k->type, right(), 0, N, k->type, win));
  OK(MPI_Win_fence(0, win));
  same(k, "MPI_Get", -1, got, theirs);

  for (int op = 0; op < OPS; op++) {
    if (!(k->ops & BIT(op))) continue;
    memcpy(want, before, ROOM);
    for (int i = 0; i < N; i++) k->combine(op, want + i * k->extent, lefts + i * k->extent);
    compare_with_host(k, op, lefts, before, want);
    if (op != NO_OP) {
      memcpy(base, before, ROOM);
      OK(MPI_Win_fence(0, win));
      OK(MPI_Accumulate(mine, N, k->type, right(), 0, N, k->type, ops[op], win));
      OK(MPI_Win_fence(0, win));
      same(k, "MPI_Accumulate", op, base, want);
    }
    memcpy(base, before, ROOM);
    memset(got, 0x55, ROOM);
    OK(MPI_Win_fence(0, win));
    OK(MPI_Get_accumulate(mine, N, k->type, got, N, k->type, right(), 0, N, k->type, ops[op], win));
    OK(MPI_Win_fence(0, win));
    same(k, "MPI_Get_accumulate, the target,", op, base, want);
    same(k, "MPI_Get_accumulate, the result,", op, got, theirs);

    memcpy(base, before, ROOM);
    memset(got, 0x55, ROOM);
    OK(MPI_Win_fence(0, win));
    OK(MPI_Fetch_and_op(mine, got, k->type, right(), 0, ops[op], win));
    OK(MPI_Win_fence(0, win));
    memcpy(want + k->extent, before + k->extent, ROOM - k->extent);
    same(k, "MPI_Fetch_and_op", op, base, want);
    memcpy(got + k->extent, theirs + k->extent, ROOM - k->extent);
    same(k, "MPI_Fetch_and_op, the result,", op, got, theirs);
  }
}

int main(int argc, char **argv) {
  begin(&argc, &argv);
  MPI_Op all[OPS] = {MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_LAND, MPI_LOR, MPI_LXOR,
                     MPI_REPLACE, MPI_NO_OP, MPI_MINLOC, MPI_MAXLOC};
  memcpy(ops, all, sizeof ops);
#define K(type, c, combine, ops, fill) {#type, type, sizeof(c), combine, ops, fill}
  const struct kind kinds[] = {
      K(MPI_CHAR, char, i8, WHOLE, fill_i8),
      K(MPI_SIGNED_CHAR, char, i8, WHOLE, fill_i8),
      K(MPI_UNSIGNED_CHAR, char, u8, WHOLE, fill_u8),
      K(MPI_BYTE, char, u8, MOVED | BITS, fill_u8),
      K(MPI_SHORT, short, i16, WHOLE, fill_i16),
      K(MPI_UNSIGNED_SHORT, short, u16, WHOLE, fill_u16),
      K(MPI_INT, int, i32, WHOLE, fill_i32),
      K(MPI_UNSIGNED, int, u32, WHOLE, fill_u32),
      K(MPI_LONG, long, i64, WHOLE, fill_i64),
      K(MPI_UNSIGNED_LONG, long, u64, WHOLE, fill_u64),
      K(MPI_LONG_LONG, long, i64, WHOLE, fill_i64),
      K(MPI_LONG_LONG_INT, long, i64, WHOLE, fill_i64),
      K(MPI_UNSIGNED_LONG_LONG, long, u64, WHOLE, fill_u64),
      K(MPI_INT8_T, char, i8, WHOLE, fill_i8),
      K(MPI_INT16_T, short, i16, WHOLE, fill_i16),
      K(MPI_INT32_T, int, i32, WHOLE, fill_i32),
      K(MPI_INT64_T, long, i64, WHOLE, fill_i64),
      K(MPI_UINT8_T, char, u8, WHOLE, fill_u8),
      K(MPI_UINT16_T, short, u16, WHOLE, fill_u16),
      K(MPI_UINT32_T, int, u32, WHOLE, fill_u32),
      K(MPI_UINT64_T, long, u64, WHOLE, fill_u64),
      K(MPI_AINT, long, i64, WHOLE, fill_i64),
      K(MPI_OFFSET, long, i64, WHOLE, fill_i64),
      K(MPI_COUNT, long, i64, WHOLE, fill_i64),
      K(MPI_WCHAR, wchar_t, i32, MOVED, fill_i32),
      K(MPI_FLOAT, float, f32, REALS, fill_f32),
      K(MPI_DOUBLE, double, f64, REALS, fill_f64),
      K(MPI_LONG_DOUBLE, long double, f80, REALS, fill_f80),
      K(MPI_CXX_BOOL, bool, boolean, MOVED | LOGICAL, fill_bool),
      K(MPI_CXX_FLOAT_COMPLEX, float complex, c32, MOVED | FIELD, fill_c32),
      K(MPI_CXX_DOUBLE_COMPLEX, double complex, c64, MOVED | FIELD, fill_c64),
      K(MPI_CXX_LONG_DOUBLE_COMPLEX, long double complex, c80, MOVED | FIELD, fill_c80),
      K(MPI_C_BOOL, bool, boolean, MOVED | LOGICAL, fill_bool),
      K(MPI_C_COMPLEX, float complex, c32, MOVED | FIELD, fill_c32),
      K(MPI_C_FLOAT_COMPLEX, float complex, c32, MOVED | FIELD, fill_c32),
      K(MPI_C_DOUBLE_COMPLEX, double complex, c64, MOVED | FIELD, fill_c64),
      K(MPI_C_LONG_DOUBLE_COMPLEX, long double complex, c80, MOVED | FIELD, fill_c80),
      K(MPI_FLOAT_INT, float_int_pair, float_int, PAIRS, fill_float_int),
      K(MPI_DOUBLE_INT, double_int_pair, double_int, PAIRS, fill_double_int),
      K(MPI_LONG_INT, long_int_pair, long_int, PAIRS, fill_long_int),
      K(MPI_2INT, two_int_pair, two_int, PAIRS, fill_two_int),
      K(MPI_SHORT_INT, short_int_pair, short_int, PAIRS, fill_short_int),
      K(MPI_LONG_DOUBLE_INT, long_double_int_pair, long_double_int, PAIRS, fill_long_double_int),
      K(MPI_INTEGER, int, i32, WHOLE & ~LOGICAL, fill_i32),
      K(MPI_REAL, float, f32, REALS, fill_f32),
      K(MPI_DOUBLE_PRECISION, double, f64, REALS, fill_f64),
      K(MPI_COMPLEX, float complex, c32, MOVED | FIELD, fill_c32),
      K(MPI_DOUBLE_COMPLEX, double complex, c64, MOVED | FIELD, fill_c64),
      K(MPI_LOGICAL, int, logical4, MOVED | LOGICAL, fill_l4),
#ifdef MPI_LOGICAL1
      K(MPI_LOGICAL1, char, logical1, MOVED | LOGICAL, fill_l1),
#endif
#ifdef MPI_LOGICAL2
      K(MPI_LOGICAL2, short, logical2, MOVED | LOGICAL, fill_l2),
#endif
#ifdef MPI_LOGICAL4
      K(MPI_LOGICAL4, int, logical4, MOVED | LOGICAL, fill_l4),
#endif
#ifdef MPI_LOGICAL8
      K(MPI_LOGICAL8, long, logical8, MOVED | LOGICAL, fill_l8),
#endif
#ifdef MPI_2COMPLEX
      K(MPI_2COMPLEX, two_double_pair, two_double, MOVED, fill_two_double),
#endif
      K(MPI_CHARACTER, char, i8, MOVED, fill_i8),
      K(MPI_2INTEGER, two_int_pair, two_int, PAIRS, fill_two_int),
      K(MPI_2REAL, two_float_pair, two_float, PAIRS, fill_two_float),
      K(MPI_2DOUBLE_PRECISION, two_double_pair, two_double, PAIRS, fill_two_double),
      K(MPI_INTEGER1, char, i8, WHOLE & ~LOGICAL, fill_i8),
      K(MPI_INTEGER2, short, i16, WHOLE & ~LOGICAL, fill_i16),
      K(MPI_INTEGER4, int, i32, WHOLE & ~LOGICAL, fill_i32),
      K(MPI_INTEGER8, long, i64, WHOLE & ~LOGICAL, fill_i64),
      K(MPI_REAL4, float, f32, REALS, fill_f32),
      K(MPI_REAL8, double, f64, REALS, fill_f64),
      K(MPI_COMPLEX8, float complex, c32, MOVED | FIELD, fill_c32),
      K(MPI_COMPLEX16, double complex, c64, MOVED | FIELD, fill_c64),
  };
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  OK(MPI_Win_allocate(ROOM, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
    if (kinds[k].type != MPI_DATATYPE_NULL) try(&kinds[k]);
  OK(MPI_Win_free(&win));
  return end();
}
