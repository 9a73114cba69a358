/* How much processor time other processes take, to the nanosecond: all their threads, by their CPU clocks. */
#ifndef LOAD_WATCH_H
#define LOAD_WATCH_H

#include "load_net.h"

enum { WATCHED_MAX = 64 };

static clockid_t watched[WATCHED_MAX];
static int watched_count;

static void watch(const char *pids) {
    for (char *rest = (char *)pids; *rest; rest += *rest == ',') {
        long pid = strtol(rest, &rest, 10);
        if (pid <= 0 || (*rest && *rest != ',') || watched_count == WATCHED_MAX)
            die("--watch: at most %d process ids with commas between them", WATCHED_MAX);
        if (clock_getcpuclockid((pid_t)pid, &watched[watched_count++])) die("--watch: there is no process %ld", pid);
    }
}

/* So far; a process that has ended takes nothing any more. */
static double watched_seconds(void) {
    double total = 0;
    for (int i = 0; i < watched_count; i++) {
        struct timespec t;
        if (!clock_gettime(watched[i], &t)) total += (double)t.tv_sec + (double)t.tv_nsec / 1e9;
    }
    return total;
}

#endif
