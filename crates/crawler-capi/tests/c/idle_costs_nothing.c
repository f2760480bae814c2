/* Idle workers use no CPU time, neither before the first page nor while the queue is full. */
#include "check.h"

enum { WORKERS = 32, ATTEMPTS = 20 };

static const struct timespec a_while = {.tv_nsec = 400 * 1000 * 1000};

static double processor_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static char *fetch(const char *link) {
    if (!strncmp(link, "leaf-", 5) && strcmp(link, "leaf-0"))
        return NULL;
    /* The workers have started and block, on a busy machine after some time. A worker that polls never leaves an interval
     * without CPU time. */
    int quiet = 0;
    for (int attempt = 0; attempt < ATTEMPTS && !quiet; attempt++) {
        double before = processor_seconds();
        nanosleep(&a_while, NULL);
        quiet = processor_seconds() - before < 0.005;
    }
    CHECK(quiet);
    return page_of_links("leaf-", 0, 100);
}

static void edge(const char *from, const char *to) {
    (void)from, (void)to;
}

int main(void) {
    CHECK(crawl("start", WORKERS, WORKERS, 10, fetch, edge) == 0);
    /* One downloader, which sleeps while the queue is full. */
    CHECK(crawl("start", 1, WORKERS, 1, fetch, edge) == 0);
    return 0;
}
