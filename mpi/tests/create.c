/* Windows of every flavour, of sizes and units that differ between ranks, say what they are and hold what is
 * put to them. */
#include "check.h"

static const MPI_Aint sizes[] = {0, 1, 7, 64, 4096, 100001};
static const int units[] = {1, 3, 8, 4096};
enum { SIZES = sizeof sizes / sizeof *sizes, UNITS = sizeof units / sizeof *units };

static void says(MPI_Win win, void *base, MPI_Aint bytes, int unit, int flavor) {
  void *value;
  int flag = 0;
  OK(MPI_Win_get_attr(win, MPI_WIN_BASE, &value, &flag));
  CHECK(flag);
  if (bytes > 0 || flavor == MPI_WIN_FLAVOR_CREATE) CHECK(value == base);
  OK(MPI_Win_get_attr(win, MPI_WIN_SIZE, &value, &flag));
  CHECK(flag);
  EQUAL(*(MPI_Aint *)value, bytes);
  OK(MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, &value, &flag));
  CHECK(flag);
  EQUAL(*(int *)value, unit);
  OK(MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &value, &flag));
  CHECK(flag);
  EQUAL(*(int *)value, flavor);
  OK(MPI_Win_get_attr(win, MPI_WIN_MODEL, &value, &flag));
  CHECK(flag);
  EQUAL(*(int *)value, MPI_WIN_UNIFIED);
}

/* The left one puts a byte to the beginning of each of its right one's units, and one to the end. */
static void holds(MPI_Win win, MPI_Comm comm, unsigned char *base, const MPI_Aint *all_bytes, const int *all_units) {
  int me, count;
  MPI_Comm_rank(comm, &me);
  MPI_Comm_size(comm, &count);
  int to = (me + 1) % count, from = (me + count - 1) % count;
  unsigned char mine = 10 + me, theirs = 10 + from;
  memset(base, 0, all_bytes[me]);
  OK(MPI_Win_fence(MPI_MODE_NOPRECEDE, win));
  MPI_Aint disps = (all_bytes[to] + all_units[to] - 1) / all_units[to];
  MPI_Aint step = disps / 20 + 1;
  for (MPI_Aint disp = 0; disp < disps; disp += step) OK(MPI_Put(&mine, 1, MPI_BYTE, to, disp, 1, MPI_BYTE, win));
  OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
  MPI_Aint my_disps = (all_bytes[me] + all_units[me] - 1) / all_units[me];
  MPI_Aint my_step = my_disps / 20 + 1;
  for (MPI_Aint at = 0; at < all_bytes[me]; at++) {
    int hit = at % all_units[me] == 0 && at / all_units[me] % my_step == 0;
    EQUAL_AT(at, base[at], hit ? theirs : 0);
  }
}

static void all_flavors(MPI_Comm comm, int s, int u) {
  int me, count;
  MPI_Comm_rank(comm, &me);
  MPI_Comm_size(comm, &count);
  MPI_Aint all_bytes[64];
  int all_units[64];
  for (int r = 0; r < count; r++) all_bytes[r] = sizes[(s + r) % SIZES], all_units[r] = units[(u + r) % UNITS];
  MPI_Aint bytes = all_bytes[me];
  int unit = all_units[me];
  MPI_Win win = MPI_WIN_NULL;

  unsigned char *memory = malloc(bytes + 1), *base = memory + 1;
  OK(MPI_Win_create(base, bytes, unit, MPI_INFO_NULL, comm, &win));
  says(win, base, bytes, unit, MPI_WIN_FLAVOR_CREATE);
  holds(win, comm, base, all_bytes, all_units);
  OK(MPI_Win_free(&win));
  CHECK(win == MPI_WIN_NULL);
  free(memory);

  OK(MPI_Win_allocate(bytes, unit, MPI_INFO_NULL, comm, &base, &win));
  says(win, base, bytes, unit, MPI_WIN_FLAVOR_ALLOCATE);
  holds(win, comm, base, all_bytes, all_units);
  OK(MPI_Win_free(&win));
  CHECK(win == MPI_WIN_NULL);

  if (!on_one_machine(comm)) return;
  OK(MPI_Win_allocate_shared(bytes, unit, MPI_INFO_NULL, comm, &base, &win));
  says(win, base, bytes, unit, MPI_WIN_FLAVOR_SHARED);
  holds(win, comm, base, all_bytes, all_units);
  OK(MPI_Win_free(&win));
}

static void dynamic(MPI_Comm comm) {
  MPI_Win win;
  OK(MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &win));
  says(win, MPI_BOTTOM, 0, 1, MPI_WIN_FLAVOR_DYNAMIC);
  OK(MPI_Win_free(&win));
}

/* Memory of every kind a program has. */
static void everywhere(void) {
  static double statics[512];
  double stack[512];
  double *places[] = {statics, stack, malloc(sizeof stack)};
  for (int i = 0; i < 3; i++) {
    MPI_Win win;
    memset(places[i], 0, sizeof stack);
    OK(MPI_Win_create(places[i], sizeof stack, sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    OK(MPI_Win_fence(0, win));
    double value = rank + 0.5;
    OK(MPI_Put(&value, 1, MPI_DOUBLE, right(), 511, 1, MPI_DOUBLE, win));
    OK(MPI_Win_fence(0, win));
    CHECK(places[i][511] == left() + 0.5 && places[i][510] == 0);
    /* What was there before is there, and stays when the window goes. */
    OK(MPI_Win_free(&win));
    CHECK(places[i][511] == left() + 0.5);
  }
  free(places[2]);
}

int main(int argc, char **argv) {
  begin(&argc, &argv);
  for (int s = 0; s < SIZES; s++)
    for (int u = 0; u < UNITS; u += 1 + s % 2) all_flavors(MPI_COMM_WORLD, s, u);
  dynamic(MPI_COMM_WORLD);
  everywhere();

  MPI_Comm comms[3];
  OK(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &comms[0]));
  OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comms[1]));
  OK(MPI_Comm_dup(MPI_COMM_SELF, &comms[2]));
  for (int c = 0; c < 3; c++) {
    all_flavors(comms[c], c + 2, c);
    dynamic(comms[c]);
    OK(MPI_Comm_free(&comms[c]));
  }

  /* Many at once, freed in another order, that outlive their communicator. */
  MPI_Win wins[40];
  int *bases[40];
  MPI_Comm dup;
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &dup));
  for (int i = 0; i < 40; i++) {
    OK(MPI_Win_allocate(4, 4, MPI_INFO_NULL, dup, &bases[i], &wins[i]));
    *bases[i] = 0;
  }
  OK(MPI_Comm_free(&dup));
  for (int i = 0; i < 40; i++) {
    int value = 100 * rank + i;
    OK(MPI_Win_fence(0, wins[i]));
    OK(MPI_Put(&value, 1, MPI_INT, right(), 0, 1, MPI_INT, wins[i]));
    OK(MPI_Win_fence(0, wins[i]));
  }
  for (int i = 0; i < 40; i++) EQUAL_AT(i, *bases[i], 100 * left() + i);
  for (int i = 0; i < 40; i++) OK(MPI_Win_free(&wins[i * 7 % 40]));
  return end();
}
