// Search of an unbalanced tree by work stealing, as in UTS: the tree has about SIZE nodes for each rank. A rank has its
// nodes in a stack in its window, which it and thieves change under an exclusive lock. A rank without nodes steals half
// of another's. How many nodes wait or are being searched is in a word of rank 0.
#include "app.h"

enum { NODES = 1 << 16, AT_ONCE = 32 };
// The top of the stack, in front of its nodes.
enum { TOP, COUNT_OF_ALL, HEAD };

// A node takes about a microsecond. It has four children with probability 0.24, and so 24 descendants on average.
static int children(uint64_t node) {
  uint64_t state = node;
  for (int i = 0; i < 300; i++) state = mix(state);
  return state % 100 < 24 ? 4 : 0;
}
static uint64_t child(uint64_t node, int number) { return mix(node * 4 + number); }

// The number of nodes of this tree.
static long serial(uint64_t node) {
  long count = 1;
  for (int i = 0, all = children(node); i < all; i++) count += serial(child(node, i));
  return count;
}

int main(int argc, char **argv) {
  long amount = begin(&argc, &argv), searched = 0;
  uint64_t *stack, mine[NODES];
  MPI_Win win = window((HEAD + NODES) * sizeof *stack, sizeof *stack, &stack);
  long roots = amount * size / 25 + 1;
  check(roots < NODES / 2, "too large a size");

  // Rank 0 has all of the roots.
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
  if (rank == 0) {
    for (long i = 0; i < roots; i++) stack[HEAD + i] = mix(i);
    stack[TOP] = stack[COUNT_OF_ALL] = roots;
  }
  MPI_Win_unlock(rank, win);

  begin_time();
  for (;;) {
    uint64_t taken = 0, left = 0;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
    taken = stack[TOP] < AT_ONCE ? stack[TOP] : AT_ONCE;
    memcpy(mine, stack + HEAD + stack[TOP] - taken, taken * sizeof *mine);
    stack[TOP] -= taken;
    MPI_Win_unlock(rank, win);
    for (int i = 1; taken == 0 && i < size; i++) {
      int victim = (rank + i) % size;
      uint64_t top;
      MPI_Win_lock(MPI_LOCK_EXCLUSIVE, victim, 0, win);
      MPI_Get(&top, 1, MPI_UINT64_T, victim, TOP, 1, MPI_UINT64_T, win);
      MPI_Win_flush(victim, win);
      taken = (top + 1) / 2;
      if (taken > 0) {
        top -= taken;
        MPI_Get(mine, taken, MPI_UINT64_T, victim, HEAD + top, taken, MPI_UINT64_T, win);
        MPI_Put(&top, 1, MPI_UINT64_T, victim, TOP, 1, MPI_UINT64_T, win);
      }
      MPI_Win_unlock(victim, win);
    }

    // Searches AT_ONCE of them, and leaves the rest and their children.
    left = taken;
    for (int i = 0; i < AT_ONCE && left > 0; i++) {
      uint64_t node = mine[--left];
      searched++;
      for (int c = 0, all = children(node); c < all; c++) mine[left++] = child(node, c);
    }
    int64_t more = left - taken;
    uint64_t before;
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
    MPI_Fetch_and_op(&more, &before, MPI_UINT64_T, 0, COUNT_OF_ALL, MPI_SUM, win);
    MPI_Win_unlock(0, win);
    if (before + more == 0) break;
    if (left > 0) {
      MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
      check(stack[TOP] + left + AT_ONCE * 4 < NODES, "the stack is full");
      memcpy(stack + HEAD + stack[TOP], mine, left * sizeof *mine);
      stack[TOP] += left;
      MPI_Win_unlock(rank, win);
    }
  }
  print("stealing", end_time());

  long right = 0;
  for (long i = rank; i < roots; i += size) right += serial(mix(i));
  check(sum_of_all(searched) == sum_of_all(right), "the number of nodes");
  MPI_Win_free(&win);
  end();
}
