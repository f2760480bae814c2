/* crawl returns -1 and calls nothing if there is no memory for the stacks of its threads; with fewer threads it works. */
#include "check.h"

#include <malloc.h>
#include <sys/resource.h>

enum { ROOM = 50, STACK = 8 << 20 };

/* Limits the address space to this many more threads and half a stack: a thread that starts also needs some kilobytes to set
 * itself up. */
static rlim_t room_for_threads(int count) {
    long kilobytes = 0;
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    CHECK(status);
    while (fgets(line, sizeof line, status) && sscanf(line, "VmSize: %ld", &kilobytes) != 1)
        continue;
    fclose(status);
    CHECK(kilobytes > 0);
    return kilobytes * 1024 + count * (STACK + (32l << 10)) + STACK / 2;
}

int main(void) {
    /* With one heap for all threads, each takes no more than its stack. */
    CHECK(mallopt(M_ARENA_MAX, 1));
    struct rlimit limit;
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = room_for_threads(ROOM);
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    for (int round = 0; round < 3; round++) {
        CHECK(crawl("a", 1000, 1000, 10, count_fetch, count_edge) == -1);
        CHECK(calls == 0);
    }
    CHECK(crawl("a", 4, 4, 10, count_fetch, count_edge) == 0);
    CHECK(calls == 1);
    return 0;
}
