/* Checks that say where, what and how much, and end the whole job with 1. */
#ifndef CHECK_H
#define CHECK_H
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __GNUC__
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-variable"
#endif

static int rank, size;

#define FAIL(...)                                                         \
  do {                                                                    \
    fprintf(stderr, "%s:%d: rank %d of %d: ", __FILE__, __LINE__, rank, size); \
    fprintf(stderr, __VA_ARGS__);                                         \
    fputc('\n', stderr);                                                  \
    MPI_Abort(MPI_COMM_WORLD, 1);                                         \
    exit(1);                                                              \
  } while (0)

#define CHECK(...)                                        \
  do {                                                    \
    if (!(__VA_ARGS__)) FAIL("not so: %s", #__VA_ARGS__); \
  } while (0)

#define EQUAL(got, want)                                                                   \
  do {                                                                                     \
    long long got_ = (long long)(got), want_ = (long long)(want);                          \
    if (got_ != want_) FAIL("%s is %lld and not %lld, %s", #got, got_, want_, #want);      \
  } while (0)

/* With the index of a loop. */
#define EQUAL_AT(at, got, want)                                                                     \
  do {                                                                                              \
    long long got_ = (long long)(got), want_ = (long long)(want);                                   \
    if (got_ != want_) FAIL("at %lld: %s is %lld and not %lld, %s", (long long)(at), #got, got_, want_, #want); \
  } while (0)

#define OK(call)                                                                  \
  do {                                                                            \
    int code_ = (call);                                                           \
    if (code_ != MPI_SUCCESS) FAIL("%s failed: %s", #call, sentence(code_));      \
  } while (0)

/* The call has to fail with this class, and to say which call it was. */
#define FAILS(call, class)                                                                             \
  do {                                                                                                 \
    int code_ = (call), class_ = -1;                                                                   \
    if (code_ == MPI_SUCCESS) FAIL("%s did not fail", #call);                                          \
    MPI_Error_class(code_, &class_);                                                                   \
    if (class_ != (class)) FAIL("%s failed with class %d and not %s: %s", #call, class_, #class, sentence(code_)); \
    if (!strstr(sentence(code_), "MPI_")) FAIL("%s does not say what failed: %s", #call, sentence(code_)); \
  } while (0)

static char *sentence(int code) {
  static char text[MPI_MAX_ERROR_STRING + 1];
  int len = 0;
  MPI_Error_string(code, text, &len);
  text[len] = 0;
  return text;
}

static void begin(int *argc, char ***argv) {
  MPI_Init(argc, argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
}

static int end(void) {
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) puts("passed");
  MPI_Finalize();
  return 0;
}

/* Of the ranks that share memory with this one. */
static MPI_Comm machine(MPI_Comm comm) {
  MPI_Comm some;
  OK(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &some));
  return some;
}

static int on_one_machine(MPI_Comm comm) {
  MPI_Comm some = machine(comm);
  int here = -1, all = -2;
  OK(MPI_Comm_size(some, &here));
  OK(MPI_Comm_size(comm, &all));
  OK(MPI_Comm_free(&some));
  return here == all;
}

static int left(void) { return (rank + size - 1) % size; }
static int right(void) { return (rank + 1) % size; }
#endif
