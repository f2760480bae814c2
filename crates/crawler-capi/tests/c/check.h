/* Helpers of the test programs: an assertion, the number of threads, text on the heap, and events. */
#ifndef CHECK_H
#define CHECK_H

#include "crawl.h"

#include <dirent.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Prints only on failure: the tests assert that nothing else is printed either. */
#define CHECK(condition)                                                                                             \
    do {                                                                                                             \
        if (!(condition)) {                                                                                          \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                                  \
            _Exit(1);                                                                                                \
        }                                                                                                            \
    } while (0)

#define UNUSED __attribute__((unused))

/* The number of threads of this process. */
UNUSED static int thread_count(void) {
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks);
    for (struct dirent *entry; (entry = readdir(tasks));)
        count += entry->d_name[0] != '.';
    closedir(tasks);
    return count;
}

/* Callbacks that count their calls; no page has text. */
UNUSED static atomic_int calls;

UNUSED static char *count_fetch(const char *link) {
    (void)link;
    calls++;
    return NULL;
}

UNUSED static void count_edge(const char *from, const char *to) {
    (void)from, (void)to;
    calls++;
}

/* Waits long enough for a thread to do something it must not do. */
UNUSED static void let_others_run(void) {
    nanosleep(&(struct timespec){.tv_nsec = 50 * 1000 * 1000}, NULL);
}

/* A growing text, for pages with many links. */
struct text {
    char *start;
    size_t length, space;
};

__attribute__((format(printf, 2, 3), unused)) static void append(struct text *text, const char *format, ...) {
    if (text->space - text->length < 64) {
        text->space = 2 * text->space + 64;
        text->start = realloc(text->start, text->space);
        CHECK(text->start);
    }
    va_list values;
    va_start(values, format);
    int length = vsnprintf(text->start + text->length, 64, format, values);
    va_end(values);
    CHECK(length < 64);
    text->length += length;
}

/* A page whose links are the prefix and each number from first to end - 1. */
UNUSED static char *page_of_links(const char *prefix, int first, int end) {
    struct text page = {0};
    append(&page, "%s", "");
    for (int i = first; i < end; i++)
        append(&page, "link:%s%d\n", prefix, i);
    return page.start;
}

/* An event that happens once and that threads wait for. */
struct event {
    pthread_mutex_t lock;
    pthread_cond_t condition;
    int happened;
};

#define EVENT {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0}

UNUSED static void happen(struct event *event) {
    pthread_mutex_lock(&event->lock);
    event->happened = 1;
    pthread_cond_broadcast(&event->condition);
    pthread_mutex_unlock(&event->lock);
}

UNUSED static void wait_for(struct event *event) {
    pthread_mutex_lock(&event->lock);
    while (!event->happened)
        pthread_cond_wait(&event->condition, &event->lock);
    pthread_mutex_unlock(&event->lock);
}

#endif
