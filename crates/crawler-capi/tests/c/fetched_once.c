/* A link that many parsers find at once is fetched once: in a clique, every page links to every page. */
#include "check.h"

enum { PAGES = 150 };

static atomic_int fetches[PAGES], edges;

static char *fetch(const char *link) {
    fetches[atoi(link)]++;
    return page_of_links("", 0, PAGES);
}

static void edge(const char *from, const char *to) {
    (void)from, (void)to;
    edges++;
}

int main(void) {
    for (int workers = 1; workers <= 16; workers *= 2) {
        memset(fetches, 0, sizeof fetches);
        edges = 0;
        CHECK(crawl("0", workers, workers, workers, fetch, edge) == 0);
        for (int i = 0; i < PAGES; i++)
            CHECK(fetches[i] == 1);
        CHECK(edges == PAGES * PAGES);
    }
    return 0;
}
