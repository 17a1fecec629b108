/* Rank 0 waits in calls of the host, which call the library meanwhile, or computes, while the others use its windows:
   allocated and created memory. Argument `multiple`: with several threads on each rank. */
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include "check.h"

enum { TIMES = 300, PLACES = 256, MOST_THREADS = 3 };
static int threads = 1;
static MPI_Comm comms[MOST_THREADS];
static MPI_Win wins[2];
static long *bases[2];

/* Adds to one word, and puts, gets and changes words that no other thread uses. */
static void use(int thread) {
  int mine = PLACES * (1 + rank * MOST_THREADS + thread);
  for (int i = 0; i < TIMES; i++) {
    MPI_Win win = wins[i % 2];
    long one = 1, old = -1, put[40], got[40], many = 1 + i % 40, swapped = 7 + i;
    for (int k = 0; k < many; k++) put[k] = 1000L * i + k;
    OK(MPI_Accumulate(&one, 1, MPI_LONG, 0, 0, 1, MPI_LONG, MPI_SUM, win));
    OK(MPI_Put(put, many, MPI_LONG, 0, mine, many, MPI_LONG, win));
    OK(MPI_Win_flush(0, win));
    OK(MPI_Get(got, many, MPI_LONG, 0, mine, many, MPI_LONG, win));
    OK(MPI_Fetch_and_op(&one, &old, MPI_LONG, 0, mine + 100, MPI_SUM, win));
    OK(MPI_Win_flush(0, win));
    for (int k = 0; k < many; k++) EQUAL_AT(k, got[k], put[k]);
    EQUAL(old, i / 2);
    OK(MPI_Compare_and_swap(&swapped, &put[0], &old, MPI_LONG, 0, mine, win));
    OK(MPI_Win_flush(0, win));
    EQUAL(old, put[0]);
  }
  for (int w = 0; w < 2; w++) {
    long none = 0, old;
    OK(MPI_Fetch_and_op(&none, &old, MPI_LONG, 0, mine + 100, MPI_REPLACE, wins[w]));
    OK(MPI_Win_flush(0, wins[w]));
    EQUAL(old, TIMES / 2);
  }
}

static void in_barrier(int thread) {
  if (rank > 0) use(thread);
  OK(MPI_Barrier(comms[thread]));
}

static void in_receive(int thread) {
  int sent = rank, got;
  if (rank > 0) {
    use(thread);
    OK(MPI_Send(&sent, 1, MPI_INT, 0, 1, comms[thread]));
  } else {
    for (int from = 1; from < size; from++) {
      OK(MPI_Recv(&got, 1, MPI_INT, from, 1, comms[thread], MPI_STATUS_IGNORE));
      EQUAL(got, from);
    }
  }
}

/* The host is called seldom. */
static void in_tests(int thread) {
  MPI_Request request;
  if (rank > 0) use(thread);
  OK(MPI_Ibarrier(comms[thread], &request));
  for (int done = 0; !done;) {
    double until = MPI_Wtime() + 0.002;
    while (MPI_Wtime() < until) {
    }
    OK(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
  }
}

static void (*phase)(int);

static void *run(void *thread) {
  phase((int)(long)thread);
  return NULL;
}

static void all(void (*which)(int)) {
  pthread_t others[MOST_THREADS];
  for (int w = 0; w < 2; w++)
    if (rank == 0) bases[w][0] = 0;
  OK(MPI_Barrier(MPI_COMM_WORLD));
  for (int w = 0; w < 2; w++) OK(MPI_Win_lock_all(0, wins[w]));
  phase = which;
  for (long i = 1; i < threads; i++) CHECK(pthread_create(&others[i], NULL, run, (void *)i) == 0);
  which(0);
  for (int i = 1; i < threads; i++) pthread_join(others[i], NULL);
  for (int w = 0; w < 2; w++) OK(MPI_Win_unlock_all(wins[w]));
  OK(MPI_Barrier(MPI_COMM_WORLD));
  for (int w = 0; w < 2; w++)
    if (rank == 0) EQUAL(bases[w][0], (long)TIMES / 2 * threads * (size - 1));
}

/* A child has a copy of everything, and must not serve. */
static void beside_a_child(void) {
  pid_t child = -1;
  if (rank == 0) {
    child = fork();
    CHECK(child >= 0);
    if (child == 0)
      for (;;) pause();
  }
  all(in_barrier);
  if (rank == 0) {
    CHECK(kill(child, SIGKILL) == 0);
    CHECK(waitpid(child, NULL, 0) == child);
  }
}

/* What a child calls is refused, and must not take the host's messages for the rank. */
static void after_calls_of_a_child(void) {
  for (int w = 0; w < 2; w++) OK(MPI_Win_lock_all(0, wins[w]));
  if (rank == 0) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      for (int w = 0; w < 2; w++) MPI_Win_set_errhandler(wins[w], MPI_ERRORS_RETURN);
      int refused = 0, calls = 1000;
      // Those of the barrier arrive meanwhile.
      for (int i = 0; i < calls; i++, usleep(100)) refused += MPI_Win_unlock_all(wins[i % 2]) != MPI_SUCCESS;
      _exit(refused == calls ? 0 : 1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  OK(MPI_Barrier(comms[0]));
  for (int w = 0; w < 2; w++) OK(MPI_Win_unlock_all(wins[w]));
}

/* When MPI_Finalize has begun. No other thread may call MPI any more. */
static int program_ends(MPI_Comm comm, int keyval, void *value, void *extra) {
  threads = 1;
  all(in_barrier);
  for (int w = 0; w < 2; w++) OK(MPI_Win_free(&wins[w]));
  if (rank == 0) puts("passed");
  return MPI_SUCCESS;
}

int main(int argc, char **argv) {
  int is_multiple = argc > 1 && strcmp(argv[1], "multiple") == 0, provided, keyval;
  MPI_Init_thread(&argc, &argv, is_multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (is_multiple) {
    EQUAL(provided, MPI_THREAD_MULTIPLE);
    threads = MOST_THREADS;
  }
  for (int i = 0; i < threads; i++) OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
  OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, program_ends, &keyval, NULL));
  OK(MPI_Comm_set_attr(MPI_COMM_SELF, keyval, NULL));
  MPI_Aint bytes = 8L * PLACES * (1 + size * MOST_THREADS);
  OK(MPI_Win_allocate(bytes, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &bases[0], &wins[0]));
  CHECK((bases[1] = malloc(bytes)) != NULL);
  OK(MPI_Win_create(bases[1], bytes, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &wins[1]));
  for (int w = 0; w < 2; w++) memset(bases[w], 0, bytes);
  // First: once there were many messages, Open MPI passes them on by other ways, which a child does not disturb.
  after_calls_of_a_child();
  all(in_barrier);
  all(in_receive);
  all(in_tests);
  beside_a_child();
  MPI_Finalize();
  free(bases[1]);
  return 0;
}
