/* crawl returns -1 for NULL pointers and numbers that are not positive, and calls nothing. */
#include "check.h"

#include <limits.h>

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
    const int bad[] = {0, -1, INT_MIN};
    CHECK(crawl(NULL, 1, 1, 1, fetch, edge) == -1);
    CHECK(crawl("a", 1, 1, 1, NULL, edge) == -1);
    CHECK(crawl("a", 1, 1, 1, fetch, NULL) == -1);
    CHECK(crawl_html(NULL, 1, 1, 1, fetch, edge) == -1);
    for (int i = 0; i < 3; i++) {
        CHECK(crawl("a", bad[i], 1, 1, fetch, edge) == -1);
        CHECK(crawl("a", 1, bad[i], 1, fetch, edge) == -1);
        CHECK(crawl("a", 1, 1, bad[i], fetch, edge) == -1);
        CHECK(crawl_html("a", 1, 1, bad[i], fetch, edge) == -1);
    }
    CHECK(calls == 0);
    CHECK(thread_count() == 1);
    CHECK(crawl("a", 1, 1, INT_MAX, fetch, edge) == 0);
    CHECK(calls == 1);
    return 0;
}
