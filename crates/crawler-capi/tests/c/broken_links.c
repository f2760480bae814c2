/* A broken link is not a failure, not even as the start; an empty page is a page. */
#include "check.h"

static atomic_int fetches, edges;

static char *fetch(const char *link) {
    fetches++;
    if (!strcmp(link, "home"))
        return strdup("link:gone link:empty link:gone link:after");
    if (!strcmp(link, "after"))
        return strdup("link:gone");
    return strcmp(link, "empty") ? NULL : strdup("");
}

static void edge(const char *from, const char *to) {
    (void)from, (void)to;
    edges++;
}

static void expect(const char *start, int pages, int links) {
    fetches = edges = 0;
    CHECK(crawl(start, 3, 2, 1, fetch, edge) == 0);
    CHECK(fetches == pages);
    CHECK(edges == links);
}

int main(void) {
    expect("gone", 1, 0);
    expect("empty", 1, 0);
    expect("", 1, 0);
    expect("home", 4, 5);
    return 0;
}
