/* The times of a TCP connection without any library, for ci/compare-peers. It measures a ping-pong of 8 bytes, a
 * stream in which the server answers each piece with one byte, and a stream from the server, which sends a piece for
 * each byte that it gets. `bare` is the server, and sleeps until data arrives, unless a line says that it polls.
 * `bare ADDRESS` is the client, polls for answers, and prints NAME VALUE UNIT. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { REPEATS = 5, PORT = 5999 };

static struct line {
    const char *name;
    size_t there, back;
    int times, flags;
} lines[] = {
    {"pingpong", 8, 8, 1000, 0},
    {"pingpong_polled", 8, 8, 1000, MSG_DONTWAIT},
    {"stream64K", 65536, 1, 500, 0},
    {"stream1024K", 1 << 20, 1, 50, 0},
    {"stream16384K", 16 << 20, 1, 8, 0},
    /* From memory that the streams above have written to. */
    {"back64K", 1, 65536, 500, 0},
    {"back1024K", 1, 1 << 20, 50, 0},
    {"back16384K", 1, 16 << 20, 8, 0},
};
static char buffer[16 << 20];

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static void send_all(int s, size_t left) {
    for (ssize_t sent; left; left -= sent)
        if ((sent = send(s, buffer, left, MSG_NOSIGNAL)) <= 0) exit(1);
}

static void receive_all(int s, size_t left, int flags) {
    while (left) {
        ssize_t got = recv(s, buffer, left, flags);
        if (got == 0 || (got < 0 && errno != EAGAIN)) exit(1);
        if (got > 0) left -= got;
    }
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    int one = 1, s = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    if (argc < 2) {
        setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        if (bind(s, (void *)&at, sizeof at) || listen(s, 1) || (s = accept(s, NULL, NULL)) < 0) return 1;
    } else {
        int tries = 500;
        inet_pton(AF_INET, argv[1], &at.sin_addr);
        while (connect(s, (void *)&at, sizeof at)) {
            if (!--tries) return 1;
            usleep(10000);
        }
    }
    setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    for (struct line *line = lines; line < lines + sizeof lines / sizeof *lines; line++) {
        double seconds[REPEATS];
        for (int repeat = -1; repeat < REPEATS; repeat++) { /* once to warm up */
            double start = now();
            for (int i = 0; i < line->times; i++) {
                if (argc < 2) {
                    receive_all(s, line->there, line->flags);
                    send_all(s, line->back);
                } else {
                    send_all(s, line->there);
                    receive_all(s, line->back, MSG_DONTWAIT);
                }
            }
            if (repeat >= 0) seconds[repeat] = (now() - start) / line->times;
        }
        qsort(seconds, REPEATS, sizeof *seconds, ascending);
        double median = seconds[REPEATS / 2];
        if (argc < 2) continue;
        if (line->there == 8) printf("%s %.4g us\n", line->name, median * 1e6);
        else printf("%s %.4g GB/s\n", line->name, (line->there > line->back ? line->there : line->back) / median / 1e9);
    }
    return 0;
}
