/* Random nested types of every constructor, several elements of each, at both sides of puts: against what the
 * host's MPI_Pack and MPI_Unpack make of them. */
#include "check.h"

enum { PROGRAMS = 200, AREA = 1 << 21, MIDDLE = AREA / 2, FAR = 400000 };

/* Types of a negative extent, most of them in others. */
static int backwards;

static int below(int n) { return n > 0 ? rand() % n : 0; }

static MPI_Datatype predefined(void) {
  MPI_Datatype all[] = {MPI_CHAR, MPI_SHORT, MPI_INT, MPI_DOUBLE, MPI_DOUBLE_INT, MPI_SHORT_INT, MPI_FLOAT_INT};
  return all[below(7)];
}

static MPI_Datatype array(MPI_Datatype old) {
  MPI_Datatype type;
  int sizes[] = {3, 4, 2}, parts[3], starts[3];
  for (int i = 0; i < 3; i++) {
    parts[i] = 1 + below(sizes[i]);
    starts[i] = below(sizes[i] - parts[i] + 1);
  }
  int order = below(2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN;
  OK(MPI_Type_create_subarray(3, sizes, parts, starts, order, old, &type));
  return type;
}

static MPI_Datatype spread(MPI_Datatype old) {
  MPI_Datatype type;
  int sizes[] = {7, 5}, grid[] = {2, 2}, kinds[2], args[2];
  for (int i = 0; i < 2; i++) {
    int kind = below(5);
    kinds[i] = kind < 2 ? MPI_DISTRIBUTE_BLOCK : kind < 4 ? MPI_DISTRIBUTE_CYCLIC : MPI_DISTRIBUTE_NONE;
    args[i] = kind == 1 ? 4 : kind == 3 ? 2 : MPI_DISTRIBUTE_DFLT_DARG;
    if (kind == 4) grid[i] = 1;
  }
  int processes = grid[0] * grid[1], order = below(2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN;
  OK(MPI_Type_create_darray(processes, below(processes), 2, sizes, kinds, args, grid, order, old, &type));
  return type;
}

static MPI_Datatype nested(int depth) {
  if (depth == 0) return predefined();
  MPI_Datatype old = nested(depth - 1), type;
  int n = 1 + below(3), lens[4], at[4];
  MPI_Aint lb, extent, bytes[4];
  OK(MPI_Type_get_extent(old, &lb, &extent));
  MPI_Aint step = extent ? extent : 8;
  for (int i = 0; i < 4; i++) {
    lens[i] = i == 0 ? 1 + below(2) : below(3);
    at[i] = i * 3 + below(2) - 1;
    bytes[i] = (i * 3 + below(2)) * step + below(3);
  }
  switch (below(13)) {
    case 0: OK(MPI_Type_contiguous(n, old, &type)); break;
    case 1: OK(MPI_Type_vector(n, 1 + below(2), 2 + below(2), old, &type)); break;
    case 2: OK(MPI_Type_create_hvector(n, 1 + below(2), 3 * step + below(3), old, &type)); break;
    case 3: OK(MPI_Type_indexed(n, lens, at, old, &type)); break;
    case 4: OK(MPI_Type_create_hindexed(n, lens, bytes, old, &type)); break;
    case 5: OK(MPI_Type_create_indexed_block(n, 2, at, old, &type)); break;
    case 6: OK(MPI_Type_create_hindexed_block(n, 1, bytes, old, &type)); break;
    case 7: {
      MPI_Datatype types[] = {old, MPI_INT, MPI_CHAR, old};
      MPI_Aint places[] = {bytes[0], bytes[0] + 400 + below(5), bytes[0] + 800, bytes[0] + 1600};
      OK(MPI_Type_create_struct(n, lens, places, types, &type));
      break;
    }
    case 8: type = array(old); break;
    /* Open MPI 4 makes none of a type that is derived. */
    case 9: type = depth == 1 ? spread(old) : array(old); break;
    case 10: OK(MPI_Type_create_resized(old, below(9) - 4, step + below(5), &type)); break;
    case 11:
      backwards++;
      OK(MPI_Type_create_resized(old, below(9) - 4, -labs(step) - below(5), &type));
      break;
    default: OK(MPI_Type_dup(old, &type));
  }
  if (depth > 1) OK(MPI_Type_free(&old));
  return type;
}

int main(int argc, char **argv) {
  begin(&argc, &argv);
  char *memory;
  MPI_Win win;
  OK(MPI_Win_allocate(AREA, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
  OK(MPI_Win_lock_all(0, win));
  char *area = malloc(AREA), *packed = malloc(AREA), *unpacked = malloc(AREA);
  int tried = 0;
  /* The ranks share the programs out: none needs another rank. */
  for (int program = rank; program < PROGRAMS; program += size) {
    srand(program * 7 + 1);
    MPI_Datatype type = nested(1 + below(3));
    OK(MPI_Type_commit(&type));
    int count = 1 + below(3), bytes, place = 0;
    MPI_Aint lb, extent, lowest, span;
    OK(MPI_Type_get_extent(type, &lb, &extent));
    OK(MPI_Type_get_true_extent(type, &lowest, &span));
    OK(MPI_Type_size(type, &bytes));
    bytes *= count;
    MPI_Aint reach = labs(extent) * count;
    if (lowest - reach > -FAR && lowest + span + reach < FAR) {
      tried++;
      for (int i = 0; i < AREA; i++) area[i] = rand() >> 7;
      OK(MPI_Pack(area + MIDDLE, count, type, packed, AREA, &place, MPI_COMM_SELF));
      OK(MPI_Put(area + MIDDLE, count, type, rank, 0, bytes, MPI_BYTE, win));
      OK(MPI_Win_flush(rank, win));
      for (int i = 0; i < bytes; i++)
        if (memory[i] != packed[i]) FAIL("program %d: byte %d of %d from the origin", program, i, bytes);

      memset(unpacked, 0, AREA);
      memset(memory, 0, AREA);
      place = 0;
      OK(MPI_Unpack(packed, bytes, &place, unpacked + MIDDLE, count, type, MPI_COMM_SELF));
      OK(MPI_Put(packed, bytes, MPI_BYTE, rank, MIDDLE, count, type, win));
      OK(MPI_Win_flush(rank, win));
      for (int i = 0; i < AREA; i++)
        if (memory[i] != unpacked[i]) FAIL("program %d: byte %d at the target", program, i - MIDDLE);
    }
    OK(MPI_Type_free(&type));
  }
  int counts[] = {tried, backwards};
  OK(MPI_Allreduce(MPI_IN_PLACE, counts, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
  CHECK(counts[0] > PROGRAMS / 2);
  CHECK(counts[1] > PROGRAMS / 10);
  OK(MPI_Win_unlock_all(win));
  OK(MPI_Win_free(&win));
  free(area);
  free(packed);
  free(unpacked);
  return end();
}
