/* crawl returns -1 for NULL pointers and numbers that are not positive, and calls nothing. */
#include "check.h"

#include <limits.h>

int main(void) {
    const int bad[] = {0, -1, INT_MIN};
    CHECK(crawl(NULL, 1, 1, 1, count_fetch, count_edge) == -1);
    CHECK(crawl("a", 1, 1, 1, NULL, count_edge) == -1);
    CHECK(crawl("a", 1, 1, 1, count_fetch, NULL) == -1);
    CHECK(crawl_html(NULL, 1, 1, 1, count_fetch, count_edge) == -1);
    for (int i = 0; i < 3; i++) {
        CHECK(crawl("a", bad[i], 1, 1, count_fetch, count_edge) == -1);
        CHECK(crawl("a", 1, bad[i], 1, count_fetch, count_edge) == -1);
        CHECK(crawl("a", 1, 1, bad[i], count_fetch, count_edge) == -1);
        CHECK(crawl_html("a", 1, 1, bad[i], count_fetch, count_edge) == -1);
    }
    CHECK(calls == 0);
    CHECK(thread_count() == 1);
    CHECK(crawl("a", 1, 1, INT_MAX, count_fetch, count_edge) == 0);
    CHECK(calls == 1);
    return 0;
}
