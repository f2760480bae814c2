/* The queue never exceeds its size: a parser waits while it is full. Links seen before are not queued. */
#include "check.h"

enum { DOWNLOADERS = 2, PARSERS = 1, QUEUE = 5, LINKS = 1000, REPEATS = 1000 };

static struct event gate = EVENT, full = EVENT, all_repeats = EVENT;
static atomic_int edges, fetches;

static char *fetch_at_the_gate(const char *link) {
    if (!strcmp(link, "start"))
        return page_of_links("leaf-", 0, LINKS);
    wait_for(&gate);
    fetches++;
    return NULL;
}

static void count_until_full(const char *from, const char *to) {
    (void)from, (void)to;
    /* Links in fetch, links in the queue, and the one that the parser waits to queue. */
    if (++edges == DOWNLOADERS + QUEUE + PARSERS)
        happen(&full);
}

static void *watch(void *unused) {
    wait_for(&full);
    let_others_run();
    CHECK(edges == DOWNLOADERS + QUEUE + PARSERS);
    happen(&gate);
    return unused;
}

/* "a" is being fetched and "b" fills the queue: the remaining edges of the page are reported nevertheless. */
static char *fetch_repeats(const char *link) {
    if (!strcmp(link, "a")) {
        wait_for(&all_repeats);
        return strdup("");
    }
    if (!strcmp(link, "b"))
        return NULL;
    struct text page = {0};
    for (int i = 0; i < REPEATS; i++)
        append(&page, "link:a link:b link:start ");
    return page.start;
}

static void count_repeats(const char *from, const char *to) {
    (void)from, (void)to;
    if (++edges == 3 * REPEATS)
        happen(&all_repeats);
}

int main(void) {
    pthread_t watcher;
    pthread_create(&watcher, NULL, watch, NULL);
    CHECK(crawl("start", DOWNLOADERS, PARSERS, QUEUE, fetch_at_the_gate, count_until_full) == 0);
    pthread_join(watcher, NULL);
    CHECK(edges == LINKS && fetches == LINKS);

    edges = 0;
    CHECK(crawl("start", 1, 1, 1, fetch_repeats, count_repeats) == 0);
    CHECK(edges == 3 * REPEATS);
    return 0;
}
