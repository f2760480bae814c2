/* Callbacks that race, for the race detectors to find: they count without a lock. */
#include "crawl.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static int fetches;

static char *fetch(const char *link) {
    fetches++;
    /* So that every downloader gets some links. */
    nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
    return strdup(strlen(link) < 8 ? "link:a link:b link:aa link:bb link:aaa link:bbb link:aaaa link:bbbb" : "");
}

static void edge(const char *from, const char *to) {
    (void)from, (void)to;
}

int main(void) {
    return crawl("start", 4, 4, 4, fetch, edge);
}
