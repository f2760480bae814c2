/* More threads than there is memory for their stacks: -1, and nothing called; and fewer work afterwards. */
#include "check.h"

#include <malloc.h>
#include <sys/resource.h>

enum { ROOM = 50, STACK = 8 << 20 };

static atomic_int calls;

static char *fetch(const char *link) {
    (void)link;
    calls++;
    return NULL;
}

static void edge(const char *from, const char *to) {
    (void)from, (void)to;
    calls++;
}

/* Address space for about so many more threads, and for half a stack beyond: a thread that is granted must not lack the
 * kilobytes that it sets itself up with. */
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
    /* Threads that share their heap take no more than that. */
    CHECK(mallopt(M_ARENA_MAX, 1));
    struct rlimit limit;
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = room_for_threads(ROOM);
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    for (int round = 0; round < 3; round++) {
        CHECK(crawl("a", 1000, 1000, 10, fetch, edge) == -1);
        CHECK(calls == 0);
    }
    CHECK(crawl("a", 4, 4, 10, fetch, edge) == 0);
    CHECK(calls == 1);
    return 0;
}
