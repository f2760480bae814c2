/* Any positive sizes work on any graph. */
#include "check.h"

enum { WIDE = 20000, CHAIN = 2000, CLIQUE = 60, WIDE_PAGES = 8, LINKS_EACH = 500 };

static atomic_int fetches, edges;

static char *fetch(const char *link) {
    fetches++;
    if (!strcmp(link, "wide"))
        return page_of_links("leaf-", 0, WIDE);
    if (!strncmp(link, "chain-", 6)) {
        int next = atoi(link + 6) + 1;
        return page_of_links("chain-", next, next < CHAIN ? next + 1 : next);
    }
    if (!strncmp(link, "clique-", 7))
        return page_of_links("clique-", 0, CLIQUE);
    if (!strcmp(link, "many"))
        return page_of_links("page-", 0, WIDE_PAGES);
    if (!strncmp(link, "page-", 5)) {
        int number = atoi(link + 5);
        return page_of_links("leaf-", number * LINKS_EACH, (number + 1) * LINKS_EACH);
    }
    return strdup("");
}

static void edge(const char *from, const char *to) {
    (void)from, (void)to;
    edges++;
}

static void expect(const char *start, int downloaders, int parsers, int queue, int pages, int links) {
    fetches = edges = 0;
    CHECK(crawl(start, downloaders, parsers, queue, fetch, edge) == 0);
    CHECK(fetches == pages);
    CHECK(edges == links);
}

int main(void) {
    expect("wide", 1, 1, 1, 1 + WIDE, WIDE);
    expect("wide", 4, 4, 1, 1 + WIDE, WIDE);
    expect("chain-0", 1, 1, 1, CHAIN, CHAIN - 1);
    expect("chain-0", 8, 8, 3, CHAIN, CHAIN - 1);
    expect("clique-0", 1, 1, 1, CLIQUE, CLIQUE * CLIQUE);
    expect("clique-0", 8, 8, 1, CLIQUE, CLIQUE * CLIQUE);
    for (int i = 0; i < 50; i++)
        expect("single", 32, 32, 1, 1, 0);
    /* All parsers wait for room in the queue at once, and one downloader makes room. */
    expect("many", 1, WIDE_PAGES, 1, 1 + WIDE_PAGES + WIDE_PAGES * LINKS_EACH, WIDE_PAGES + WIDE_PAGES * LINKS_EACH);
    expect("many", 1, WIDE_PAGES / 2, 2, 1 + WIDE_PAGES + WIDE_PAGES * LINKS_EACH,
           WIDE_PAGES + WIDE_PAGES * LINKS_EACH);
    return 0;
}
