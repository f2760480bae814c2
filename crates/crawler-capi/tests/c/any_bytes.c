/* Links are opaque: any bytes but white space, any case, any length. */
#include "check.h"

enum { LONG = 1 << 20, EDGES_OF_LONG = 20000 };

static char *long_link, *all_bytes;
static atomic_int from_long, to_long, to_all_bytes, to_upper_case, to_lower_case, fetches;

static char *fetch(const char *link) {
    fetches++;
    if (!strcmp(link, "start")) {
        char *page = malloc(LONG + 1000);
        sprintf(page, "link:%s link:%s link:Case link:case", long_link, all_bytes);
        return page;
    }
    if (!strcmp(link, long_link)) {
        struct text page = {0};
        for (int i = 0; i < EDGES_OF_LONG; i++)
            append(&page, "link:start ");
        return page.start;
    }
    return NULL;
}

static void edge(const char *from, const char *to) {
    if (from[0] == 'x') {
        CHECK(!strcmp(to, "start"));
        if (from_long++ % 1000 == 0)
            CHECK(!strcmp(from, long_link));
        return;
    }
    CHECK(!strcmp(from, "start"));
    to_long += !strcmp(to, long_link);
    to_all_bytes += !strcmp(to, all_bytes);
    to_upper_case += !strcmp(to, "Case");
    to_lower_case += !strcmp(to, "case");
}

int main(void) {
    long_link = calloc(1, LONG + 1);
    memset(long_link, 'x', LONG);
    char *byte = all_bytes = calloc(1, 256);
    for (int i = 1; i < 256; i++)
        if (!strchr(" \t\n\v\f\r", i))
            *byte++ = i;
    CHECK(crawl("start", 2, 2, 2, fetch, edge) == 0);
    CHECK(to_long == 1 && to_all_bytes == 1 && to_upper_case == 1 && to_lower_case == 1);
    CHECK(from_long == EDGES_OF_LONG);
    CHECK(fetches == 5);
    free(long_link);
    free(all_bytes);
    return 0;
}
