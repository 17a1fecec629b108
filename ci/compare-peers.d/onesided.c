/* One-sided operations of an MPI between two hosts, for ci/compare-peers: lines of `transom bench`, measured by its
 * method. Prints NAME VALUE UNIT. Rank 0 is the target, and the last rank the origin. With more than two ranks: the
 * fence. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { REPEATS = 5, SPAN = 16 << 20 };
static const double LEAST = 0.05; /* seconds of each repetition */

static int rank, ranks;
static char *buffer;
static int64_t one = 1, zero, result;
static MPI_Win w;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static void put(int n) { MPI_Put(buffer, n, MPI_BYTE, 0, 0, n, MPI_BYTE, w); }
static void get(int n) { MPI_Get(buffer, n, MPI_BYTE, 0, 0, n, MPI_BYTE, w); }
static void fetch_add(int n) { MPI_Fetch_and_op(&one, &result, MPI_INT64_T, 0, 0, MPI_SUM, w); }
static void cas(int n) { MPI_Compare_and_swap(&one, &zero, &result, MPI_INT64_T, 0, 0, w); }
static void puts_64(int n) {
    for (int i = 0; i < 64; i++) MPI_Put(buffer, n, MPI_BYTE, 0, n * i, n, MPI_BYTE, w);
}
static void sum(int n) { MPI_Accumulate(buffer, n / 8, MPI_DOUBLE, 0, 0, n / 8, MPI_DOUBLE, MPI_SUM, w); }
static void epoch(int n) {
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, w);
    put(n);
    MPI_Win_unlock(0, w);
}
static void fence(int n) {
    if (rank == ranks - 1) put(n);
    MPI_Win_fence(0, w);
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Seconds of a round: the median of the repetitions. With `all`, all ranks make the same number of rounds. */
static double seconds(void (*operation)(int), int n, int flush, int all) {
    double times[REPEATS], start = now();
    int rounds = 0;
    do {
        operation(n);
        if (flush) MPI_Win_flush(0, w);
        rounds++;
    } while (all ? rounds < 20 : now() - start < LEAST);
    if (all) {
        rounds = 1 + (int)(LEAST * rounds / (now() - start));
        MPI_Bcast(&rounds, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        start = now();
        for (int i = 0; i < rounds; i++) {
            operation(n);
            if (flush) MPI_Win_flush(0, w);
        }
        times[repeat] = (now() - start) / rounds;
    }
    qsort(times, REPEATS, sizeof *times, ascending);
    return times[REPEATS / 2];
}

/* The origin, which is the last rank, prints a result. */
static void say(const char *name, double value, const char *unit) {
    if (rank == ranks - 1) printf("%s %.4g %s\n", name, value, unit);
    fflush(stdout);
}

static void flushed(const char *name, void (*operation)(int)) {
    if (rank) say(name, seconds(operation, 8, 1, 0) * 1e9, "ns");
}

static void moved(const char *name, void (*operation)(int), int n) {
    char line[64];
    snprintf(line, sizeof line, "%s%dK_bw", name, n >> 10);
    if (rank) say(line, n / seconds(operation, n, 1, 0) / 1e9, "GB/s");
}

/* The target computes for 50 ms without a call of MPI. */
static void busy(void) {
    double times[REPEATS];
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = now();
        if (rank) {
            usleep(3000);
            start = now();
            epoch(8);
        } else
            while (now() - start < 0.05) continue;
        times[repeat] = now() - start;
    }
    qsort(times, REPEATS, sizeof *times, ascending);
    say("busy_target_put", times[REPEATS / 2] * 1e6, "us");
}

int main(int argc, char **argv) {
    void *base;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    buffer = calloc(1, SPAN);
    MPI_Win_allocate(SPAN, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &w);
    memset(base, 0, SPAN);
    MPI_Barrier(MPI_COMM_WORLD);
    if (ranks > 2) {
        MPI_Win_fence(0, w);
        say("put8_fence", seconds(fence, 8, 0, 1) * 1e9, "ns");
    } else {
        if (rank) MPI_Win_lock_all(0, w);
        flushed("put8_flush", put);
        flushed("get8_flush", get);
        flushed("fetch_add_flush", fetch_add);
        flushed("cas_flush", cas);
        if (rank) say("put8_rate", 64 / seconds(puts_64, 8, 1, 0) / 1e6, "Mops/s");
        for (int n = 64 << 10; n <= SPAN; n <<= 4) moved("put", put, n);
        for (int n = 64 << 10; n <= SPAN; n <<= 4) moved("get", get, n);
        moved("acc_f64_", sum, 1 << 20);
        if (rank) {
            MPI_Win_unlock_all(w);
            say("excl_lock_put8_unlock", seconds(epoch, 8, 0, 0) * 1e9, "ns");
        }
        busy();
    }
    MPI_Win_free(&w);
    MPI_Finalize();
    return 0;
}
