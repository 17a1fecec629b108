// Breadth-first search of a graph of 2^SIZE vertices and 16 times as many edges, as in Graph500's one-sided reference:
// for each edge of the last level's vertices, the parent is accumulated by MPI_MIN and the vertex's bit in the next
// level by MPI_BOR, and a fence ends each level. Vertex `v` is at rank `v % size`.
#include "app.h"

enum { EDGES_PER_VERTEX = 16, LEVEL_SHIFT = 40 };
#define NOBODY INT64_MAX

static int scale;
static long edges;

// R-MAT with the probabilities of Graph500: 0.57, 0.19, 0.19, 0.05.
static void edge(long number, long *from, long *to) {
  *from = *to = 0;
  for (int bit = 0; bit < scale; bit++) {
    unsigned chance = mix((uint64_t)number << 8 | bit) % 100;
    *from |= (long)(chance >= 76) << bit;
    *to |= (long)((chance >= 57 && chance < 76) || chance >= 95) << bit;
  }
}

// The edges of this rank's vertices: those of its vertex i are `ends[first[i]]` to `ends[first[i + 1] - 1]`.
static long mine, *first, *ends;
static void graph(void) {
  first = memory((mine + 2) * sizeof *first);
  for (int pass = 0; pass < 2; pass++) {
    for (long i = 0; i < edges; i++) {
      long end[2];
      edge(i, &end[0], &end[1]);
      for (int side = 0; side < 2 && end[0] != end[1]; side++) {
        if (end[side] % size != rank) continue;
        long vertex = end[side] / size;
        if (pass == 0) first[vertex + 2]++;
        else ends[first[vertex + 1]++] = end[!side];
      }
    }
    if (pass == 1) break;
    for (long i = 2; i < mine + 2; i++) first[i] += first[i - 1];
    ends = memory(first[mine + 1] * sizeof *ends);
  }
}

int main(int argc, char **argv) {
  scale = begin(&argc, &argv);
  long vertices = 1L << scale, root = 0;
  edges = vertices * EDGES_PER_VERTEX;
  check(scale < 30 && vertices % size == 0, "too large a size, or a number of ranks that does not divide the vertices");
  mine = vertices / size;
  graph();

  // A parent in its lower bits, and above them the level of the child.
  int64_t *parents;
  uint64_t *next;
  long words = (mine + 63) / 64;
  MPI_Win of_parents = window(mine * sizeof *parents, sizeof *parents, &parents);
  MPI_Win of_next = window(words * sizeof *next, sizeof *next, &next);
  uint64_t *level = memory(words * sizeof *level), *seen = memory(words * sizeof *seen), *bits = memory(64 * 8);
  // Operands stay as they are until the fence.
  int64_t *operands = memory(mine * sizeof *operands);
  for (int i = 0; i < 64; i++) bits[i] = UINT64_C(1) << i;
  for (long i = 0; i < mine; i++) parents[i] = NOBODY;
  // The root is the first vertex with an edge.
  for (long i = 0, found = 0; !found; i++) {
    long a, b;
    edge(i, &a, &b);
    if ((found = a != b)) root = a;
  }
  if (root % size == rank) {
    parents[root / size] = root;
    level[root / size / 64] |= bits[root / size % 64];
    seen[root / size / 64] |= bits[root / size % 64];
  }
  MPI_Win_fence(MPI_MODE_NOPRECEDE, of_parents);
  MPI_Win_fence(MPI_MODE_NOPRECEDE, of_next);

  begin_time();
  for (int64_t depth = 1, any = 1; any; depth++) {
    for (long i = 0; i < mine; i++) {
      if (!(level[i / 64] & bits[i % 64])) continue;
      operands[i] = depth << LEVEL_SHIFT | (i * size + rank);
      for (long e = first[i]; e < first[i + 1]; e++) {
        int owner = ends[e] % size;
        long place = ends[e] / size;
        MPI_Accumulate(&operands[i], 1, MPI_INT64_T, owner, place, 1, MPI_INT64_T, MPI_MIN, of_parents);
        MPI_Accumulate(&bits[place % 64], 1, MPI_UINT64_T, owner, place / 64, 1, MPI_UINT64_T, MPI_BOR, of_next);
      }
    }
    MPI_Win_fence(0, of_parents);
    MPI_Win_fence(0, of_next);
    any = 0;
    for (long i = 0; i < words; i++) {
      level[i] = next[i] & ~seen[i];
      seen[i] |= next[i];
      next[i] = 0;
      any |= level[i] != 0;
    }
    any = sum_of_all(any);
  }
  print("search", end_time());

  // Neighbours are in levels that differ by one at most, a vertex's parent is its neighbour in the level before, and
  // all neighbours of a vertex that was found were found.
  int64_t *all = memory(vertices * sizeof *all);
  MPI_Allgather(parents, mine, MPI_INT64_T, all, mine, MPI_INT64_T, MPI_COMM_WORLD);
#define FOUND(v) all[(v) % size * mine + (v) / size]
#define LEVEL(v) (FOUND(v) >> LEVEL_SHIFT)
  for (long i = 0; i < mine; i++) {
    long vertex = i * size + rank, parent = parents[i] & ((INT64_C(1) << LEVEL_SHIFT) - 1);
    int is_neighbour = vertex == root;
    for (long e = first[i]; e < first[i + 1]; e++) {
      check((FOUND(ends[e]) == NOBODY) == (parents[i] == NOBODY), "a vertex was not reached");
      check(parents[i] == NOBODY || labs(LEVEL(ends[e]) - LEVEL(vertex)) <= 1, "neighbours too far apart");
      is_neighbour |= ends[e] == parent;
    }
    check(parents[i] == NOBODY || is_neighbour, "a parent is no neighbour");
    check(parents[i] == NOBODY || vertex == root || LEVEL(parent) == LEVEL(vertex) - 1, "a parent's level");
  }
  MPI_Win_fence(MPI_MODE_NOSUCCEED, of_parents);
  MPI_Win_fence(MPI_MODE_NOSUCCEED, of_next);
  MPI_Win_free(&of_parents);
  MPI_Win_free(&of_next);
  free(all);
  free(operands);
  free(level);
  free(seen);
  free(bits);
  free(first);
  free(ends);
  end();
}
