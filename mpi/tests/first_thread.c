/* A process lives as long as any of its threads: of odd ranks the first one ends before the windows are made, and another goes
 * on. (The call that ends it is the system's, since what runs at pthread_exit is the C library's and the host's.) */
#define _GNU_SOURCE
#include "check.h"
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LEN = 20000, ROUNDS = 4 };

static void exchange(MPI_Win win, long *memory) {
  int next = (rank + 1) % size, before = (rank + size - 1) % size;
  long *sent = malloc(LEN * sizeof *sent);
  for (int round = 1; round <= ROUNDS; round++) {
    for (int i = 0; i < LEN; i++) sent[i] = 1000 * round + rank;
    MPI_Win_fence(0, win);
    MPI_Put(sent, LEN, MPI_LONG, next, 0, LEN, MPI_LONG, win);
    /* Ranks that wait long look whether the others live. */
    if (rank == 0) usleep(120000);
    MPI_Win_fence(0, win);
    for (int i = 0; i < LEN; i++) EQUAL_AT(i, memory[i], 1000 * round + before);
  }
  MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
  free(sent);
}

static void *go_on(void *unused) {
  long *allocated, *created = calloc(LEN, sizeof *created);
  MPI_Win win;
  usleep(100000);
  MPI_Win_allocate(LEN * sizeof *allocated, sizeof *allocated, MPI_INFO_NULL, MPI_COMM_WORLD, &allocated, &win);
  exchange(win, allocated);
  MPI_Win_free(&win);
  MPI_Win_create(created, LEN * sizeof *created, sizeof *created, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  exchange(win, created);
  MPI_Win_free(&win);
  free(created);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) puts("passed");
  fflush(stdout);
  MPI_Finalize();
  exit(0);
}

int main(int argc, char **argv) {
  int level;
  pthread_t other;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  EQUAL(level, MPI_THREAD_MULTIPLE);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (rank % 2 == 0) go_on(NULL);
  CHECK(pthread_create(&other, NULL, go_on, NULL) == 0);
  syscall(SYS_exit, 0);
}
