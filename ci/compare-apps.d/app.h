// What the programs of ci/compare-apps share. A program is called with its size, and checks its result outside of the
// time that it measures. Rank 0 prints a line `NAME SECONDS` for each measurement, and `passed` when all ranks have
// checked theirs.
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

static void check(int is_right, const char *what) {
  if (!is_right) {
    fprintf(stderr, "rank %d: wrong: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

// Initialises MPI, and returns the program's size.
static long begin(int *argc, char ***argv) {
  MPI_Init(argc, argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  long amount = *argc > 1 ? atol((*argv)[1]) : 0;
  check(amount > 0 && size > 1, "call it with a size, and with two ranks or more");
  return amount;
}

// Says that all is right before MPI_Finalize, in which some hosts hang.
static void end(void) {
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) puts("passed");
  fflush(stdout);
  MPI_Finalize();
}

static void print(const char *name, double seconds) {
  if (rank == 0) printf("%s %.9f\n", name, seconds);
}

static double begun;
static inline void begin_time(void) {
  MPI_Barrier(MPI_COMM_WORLD);
  begun = MPI_Wtime();
}
// Until the last rank has come here.
static inline double end_time(void) {
  MPI_Barrier(MPI_COMM_WORLD);
  return MPI_Wtime() - begun;
}

// Pseudo-random numbers from a counter.
static inline uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}
static inline uint64_t below(uint64_t number, uint64_t bound) { return (unsigned __int128)number * bound >> 64; }

static inline void *memory(size_t bytes) {
  void *base = calloc(1, bytes ? bytes : 1);
  check(base != NULL, "no memory");
  return base;
}

// A window of bytes on this rank, all zero. Its size is a whole number of cache lines, for the sake of MPICH 4.0, which
// otherwise finds a rank's part at a different place than the rank itself does.
static inline MPI_Win window(size_t bytes, int unit, void *base) {
  MPI_Win win;
  bytes = (bytes + 63) / 64 * 64;
  MPI_Win_allocate(bytes, unit, MPI_INFO_NULL, MPI_COMM_WORLD, base, &win);
  memset(*(void **)base, 0, bytes);
  MPI_Barrier(MPI_COMM_WORLD);
  return win;
}

// Completes the operations of all ranks inside lock_all, so that this rank's part may be read.
static inline void complete(MPI_Win win) {
  MPI_Win_flush_all(win);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_sync(win);
}

static inline long sum_of_all(long mine) {
  MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  return mine;
}
