/* crawl starts exactly the given number of threads, all can be in callbacks at once, and all are joined before it returns. */
#define _GNU_SOURCE
#include "check.h"

#include <dlfcn.h>

enum { DOWNLOADERS = 5, PARSERS = 3 };

static atomic_int created, joined, inside, after_return, pages_for_parsers;
static struct event parsers_have_pages = EVENT;
static pthread_barrier_t everybody;

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument) {
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = dlsym(RTLD_NEXT, "pthread_create");
    created++;
    return real(thread, attributes, start, argument);
}

int pthread_join(pthread_t thread, void **result) {
    int (*real)(pthread_t, void **) = dlsym(RTLD_NEXT, "pthread_join");
    joined++;
    return real(thread, result);
}

/* Returns when all downloaders and all parsers are in this function. */
static void meet(void) {
    CHECK(!after_return);
    inside++;
    pthread_barrier_wait(&everybody);
    CHECK(thread_count() == 1 + DOWNLOADERS + PARSERS);
    pthread_barrier_wait(&everybody);
    inside--;
}

/* The start page links to one page per parser, and the first of those to one page per downloader. */
static char *fetch(const char *link) {
    if (!strcmp(link, "start"))
        return page_of_links("parser-", 0, PARSERS);
    if (!strcmp(link, "parser-0")) {
        /* The other parsers must have their pages before its links occupy all downloaders. */
        wait_for(&parsers_have_pages);
        return strdup("link:downloader-0 link:downloader-1 link:downloader-2 link:downloader-3 link:downloader-4 "
                      "link:meet");
    }
    if (!strncmp(link, "parser-", 7)) {
        if (++pages_for_parsers == PARSERS - 1)
            happen(&parsers_have_pages);
        return strdup("link:meet");
    }
    if (!strncmp(link, "downloader-", 11))
        meet();
    return NULL;
}

static void edge(const char *from, const char *to) {
    (void)from;
    if (!strcmp(to, "meet"))
        meet();
}

int main(void) {
    for (int round = 0; round < 20; round++) {
        created = joined = after_return = pages_for_parsers = 0;
        parsers_have_pages.happened = 0;
        pthread_barrier_init(&everybody, NULL, DOWNLOADERS + PARSERS);
        CHECK(crawl("start", DOWNLOADERS, PARSERS, 100, fetch, edge) == 0);
        after_return = 1;
        CHECK(inside == 0);
        CHECK(created == DOWNLOADERS + PARSERS);
        CHECK(joined == DOWNLOADERS + PARSERS);
        pthread_barrier_destroy(&everybody);
    }
    return 0;
}
