/* More threads than there is memory for their stacks: -1, and nothing called; and fewer work afterwards. */
#include "check.h"

#include <sys/resource.h>

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

int main(void) {
    struct rlimit usual, tight;
    getrlimit(RLIMIT_AS, &usual);
    tight = usual;
    tight.rlim_cur = 512 << 20;
    CHECK(setrlimit(RLIMIT_AS, &tight) == 0);
    for (int round = 0; round < 3; round++) {
        CHECK(crawl("a", 1000, 1000, 10, fetch, edge) == -1);
        CHECK(calls == 0);
    }
    /* What malloc set aside for the threads that there were may be all that the limit allows. */
    CHECK(setrlimit(RLIMIT_AS, &usual) == 0);
    CHECK(crawl("a", 4, 4, 10, fetch, edge) == 0);
    CHECK(calls == 1);
    return 0;
}
