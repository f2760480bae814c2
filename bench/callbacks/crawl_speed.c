/* Measures the crawl() that it is linked with, on a graph in memory: 100,000 pages of 10 links each.
 * Usage: crawl_speed [downloaders parsers [repetitions]]; prints edges per second and CPU nanoseconds per edge. */
#include "crawl.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PAGES = 100000, LINKS = 10, EDGES = PAGES * LINKS, QUEUE = 1000, LINE = sizeof "link:page-000000\n" - 1 };

static char *pages[PAGES];
/* On a separate cache line, and edges are counted per thread, so that the measurement costs little. */
static _Alignas(64) atomic_long fetched, reported;
static _Thread_local long thread_edges;

static char *fetch(const char *link) {
    atomic_fetch_add_explicit(&fetched, 1, memory_order_relaxed);
    char *page = malloc(LINKS * LINE + 1);
    return memcpy(page, pages[atoi(link + sizeof "page-" - 1)], LINKS * LINE + 1);
}

static void edge(const char *from, const char *to) {
    (void)from;
    /* A thread adds its count once per LINKS edges. */
    if (to[0] == 'p' && ++thread_edges == LINKS) {
        atomic_fetch_add_explicit(&reported, thread_edges, memory_order_relaxed);
        thread_edges = 0;
    }
}

/* A ring, so that all pages are reachable, and random links, the same in every run. */
static void make_pages(void) {
    unsigned random = 1;
    for (int page = 0; page < PAGES; page++) {
        char *text = pages[page] = malloc(LINKS * LINE + 1);
        for (int i = 0; i < LINKS; i++) {
            random = random * 1664525 + 1013904223;
            int target = i == LINKS / 2 ? (page + 1) % PAGES : (int)((random >> 4) % PAGES);
            text += sprintf(text, "link:page-%06d\n", target);
        }
    }
}

static double seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

int main(int argc, char **argv) {
    int downloaders = argc > 2 ? atoi(argv[1]) : 1, parsers = argc > 2 ? atoi(argv[2]) : 1;
    int repetitions = argc > 3 ? atoi(argv[3]) : 1;
    double best_wall = 1e9, best_cpu = 1e9;
    make_pages();
    for (int i = 0; i < repetitions; i++) {
        fetched = reported = 0;
        double wall = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
        if (crawl("page-000000", downloaders, parsers, QUEUE, fetch, edge)) {
            fputs("crawl failed\n", stderr);
            return 1;
        }
        wall = seconds(CLOCK_MONOTONIC) - wall;
        cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
        if (fetched != PAGES || reported != EDGES) {
            fprintf(stderr, "wrong result: %ld pages and %ld edges\n", (long)fetched, (long)reported);
            return 1;
        }
        best_wall = wall < best_wall ? wall : best_wall;
        best_cpu = cpu < best_cpu ? cpu : best_cpu;
    }
    printf("%.0f %.0f\n", EDGES / best_wall, best_cpu / EDGES * 1e9);
    return 0;
}
