/* crawl_html finds the links of HTML pages, resolved against the page; crawl never does. */
#include "check.h"

static const char *const text_of_home = "<base href='/docs/'> link:no <a href=guide>Guide</a> <a href='../'>Home</a>"
                                        "<a href='mailto:no@example.test'>No</a> <a href='guide#top'>Again</a>";
static struct text edges, fetches;

static char *fetch(const char *link) {
    append(&fetches, "%s ", link);
    return strcmp(link, "http://example.test/") ? NULL : strdup(text_of_home);
}

static void edge(const char *from, const char *to) {
    CHECK(!strcmp(from, "http://example.test/"));
    append(&edges, "%s ", to);
}

int main(void) {
    CHECK(crawl_html("HTTP://EXAMPLE.test", 1, 2, 3, fetch, edge) == 0);
    CHECK(!strcmp(edges.start, "http://example.test/docs/guide http://example.test/ http://example.test/docs/guide "));
    CHECK(!strcmp(fetches.start, "http://example.test/ http://example.test/docs/guide "));

    edges.length = fetches.length = 0;
    CHECK(crawl("http://example.test/", 1, 2, 3, fetch, edge) == 0);
    CHECK(!strcmp(edges.start, "no "));
    free(edges.start);
    free(fetches.start);
    return 0;
}
