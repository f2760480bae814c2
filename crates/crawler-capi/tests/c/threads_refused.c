/* When the system refuses a thread, those already there are ended and joined, nothing is called, and -1 returned. */
#define _GNU_SOURCE
#include "check.h"

#include <dlfcn.h>
#include <errno.h>
#include <sys/resource.h>

enum { DOWNLOADERS = 3, PARSERS = 4 };

static atomic_int calls, created, joined, refuse_after = 1 << 30;

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

static char *fetch(const char *link) {
    (void)link;
    calls++;
    return NULL;
}

static void edge(const char *from, const char *to) {
    (void)from, (void)to;
    calls++;
}

int main(void) {
    for (int allowed = 0; allowed < DOWNLOADERS + PARSERS; allowed++) {
        created = joined = 0;
        refuse_after = allowed;
        CHECK(crawl("a", DOWNLOADERS, PARSERS, 10, fetch, edge) == -1);
        CHECK(created == allowed && joined == allowed);
        CHECK(calls == 0);
    }

    /* And for real: more stacks than there is memory for. */
    refuse_after = 1 << 30;
    created = joined = 0;
    struct rlimit limit;
    getrlimit(RLIMIT_AS, &limit);
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = 512 << 20;
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    CHECK(crawl("a", 1000, 1000, 10, fetch, edge) == -1);
    CHECK(created == joined);
    CHECK(calls == 0);
    limit.rlim_cur = before;
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);

    CHECK(crawl("a", DOWNLOADERS, PARSERS, 10, fetch, edge) == 0);
    CHECK(calls == 1);
    return 0;
}
