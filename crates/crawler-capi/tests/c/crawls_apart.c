/* Concurrent, consecutive and nested crawls are independent. */
#include "check.h"

enum { PAGES = 50, CRAWLS = 4, INNER = 10 };

static atomic_int fetches, edges, inner_fetches, inner_edges;

static char *fetch(const char *link) {
    (void)link;
    fetches++;
    return page_of_links("", 0, PAGES);
}

static void edge(const char *from, const char *to) {
    (void)from, (void)to;
    edges++;
}

static void *crawl_once(void *unused) {
    CHECK(crawl("0", 2, 2, 3, fetch, edge) == 0);
    return unused;
}

static char *inner_fetch(const char *link) {
    (void)link;
    inner_fetches++;
    return page_of_links("", 0, INNER);
}

static void inner_edge(const char *from, const char *to) {
    (void)from, (void)to;
    inner_edges++;
}

/* The nested crawl uses the same links, and the arguments of the outer callback stay valid during it. */
static char *fetch_by_crawling(const char *link) {
    fetches++;
    CHECK(crawl("0", 1, 2, 1, inner_fetch, inner_edge) == 0);
    CHECK(atoi(link) < INNER);
    return page_of_links("", 0, INNER);
}

static void edge_by_crawling(const char *from, const char *to) {
    char *ends = malloc(strlen(from) + strlen(to) + 2);
    sprintf(ends, "%s %s", from, to);
    edges++;
    CHECK(crawl("0", 2, 1, 1, inner_fetch, inner_edge) == 0);
    CHECK(!strncmp(ends, from, strlen(from)) && !strcmp(ends + strlen(from) + 1, to));
    free(ends);
}

int main(void) {
    pthread_t threads[CRAWLS];
    for (int i = 0; i < CRAWLS; i++)
        pthread_create(&threads[i], NULL, crawl_once, NULL);
    for (int i = 0; i < CRAWLS; i++)
        pthread_join(threads[i], NULL);
    CHECK(fetches == CRAWLS * PAGES && edges == CRAWLS * PAGES * PAGES);

    fetches = edges = 0;
    for (int i = 0; i < CRAWLS; i++)
        crawl_once(NULL);
    CHECK(fetches == CRAWLS * PAGES && edges == CRAWLS * PAGES * PAGES);

    fetches = edges = 0;
    CHECK(crawl("0", 2, 2, 1, fetch_by_crawling, edge_by_crawling) == 0);
    CHECK(fetches == INNER && edges == INNER * INNER);
    CHECK(inner_fetches == INNER * (INNER + INNER * INNER));
    CHECK(inner_edges == INNER * INNER * (INNER + INNER * INNER));
    return 0;
}
