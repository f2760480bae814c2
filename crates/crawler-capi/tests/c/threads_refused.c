/* When a thread cannot start, crawl stops and joins the others, calls nothing and returns -1. */
#define _GNU_SOURCE
#include "check.h"

#include <dlfcn.h>
#include <errno.h>

enum { DOWNLOADERS = 3, PARSERS = 4 };

static atomic_int created, joined, refuse_after = 1 << 30;

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument) {
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = dlsym(RTLD_NEXT, "pthread_create");
    if (created >= refuse_after)
        return EAGAIN;
    int error = real(thread, attributes, start, argument);
    created += !error;
    return error;
}

int pthread_join(pthread_t thread, void **result) {
    int (*real)(pthread_t, void **) = dlsym(RTLD_NEXT, "pthread_join");
    joined++;
    return real(thread, result);
}

int main(void) {
    for (int allowed = 0; allowed < DOWNLOADERS + PARSERS; allowed++) {
        created = joined = 0;
        refuse_after = allowed;
        CHECK(crawl("a", DOWNLOADERS, PARSERS, 10, count_fetch, count_edge) == -1);
        CHECK(created == allowed && joined == allowed);
        CHECK(calls == 0);
    }

    refuse_after = 1 << 30;
    CHECK(crawl("a", DOWNLOADERS, PARSERS, 10, count_fetch, count_edge) == 0);
    CHECK(calls == 1);
    return 0;
}
