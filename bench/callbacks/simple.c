/* The simplest correct crawl() for comparison: one mutex, three condition variables, lists and a chained hash
 * table. It meets the guarantees of crawl.h about links, fetches, edges and the queue. It does not check arguments,
 * aborts if it cannot create a thread, and assumes that malloc succeeds. */
#include "crawl.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct link {
    char *text;
    struct link *next_in_bucket;
};

struct item {
    struct link *link;
    char *page;
    struct item *next;
};

struct list {
    struct item *first, **end;
    int length;
};

struct crawl {
    pthread_mutex_t lock;
    pthread_cond_t link_waits, page_waits, room;
    struct list links, pages;
    int work_queue_size;
    long outstanding;
    struct link **buckets;
    size_t bucket_count, link_count;
    char *(*fetch_fn)(const char *link);
    void (*edge_fn)(const char *from, const char *to);
};

static void push(struct list *list, struct link *link, char *page) {
    struct item *item = malloc(sizeof *item);
    item->link = link;
    item->page = page;
    item->next = NULL;
    *list->end = item;
    list->end = &item->next;
    list->length++;
}

static struct item *pop(struct list *list) {
    struct item *item = list->first;
    list->first = item->next;
    if (!list->first)
        list->end = &list->first;
    list->length--;
    return item;
}

/* FNV-1a. */
static size_t hash(const char *text) {
    size_t hash = 14695981039346656037u;
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 1099511628211u;
    return hash;
}

static void grow(struct crawl *crawl) {
    size_t count = crawl->bucket_count ? 2 * crawl->bucket_count : 1024;
    struct link **buckets = calloc(count, sizeof *buckets);
    for (size_t i = 0; i < crawl->bucket_count; i++) {
        for (struct link *link = crawl->buckets[i], *next; link; link = next) {
            next = link->next_in_bucket;
            struct link **bucket = &buckets[hash(link->text) % count];
            link->next_in_bucket = *bucket;
            *bucket = link;
        }
    }
    free(crawl->buckets);
    crawl->buckets = buckets;
    crawl->bucket_count = count;
}

/* Returns the link if it is new, and takes ownership of the text; otherwise returns NULL. */
static struct link *insert(struct crawl *crawl, char *text) {
    if (crawl->link_count >= crawl->bucket_count)
        grow(crawl);
    struct link **bucket = &crawl->buckets[hash(text) % crawl->bucket_count];
    for (struct link *link = *bucket; link; link = link->next_in_bucket)
        if (!strcmp(link->text, text))
            return NULL;
    struct link *link = malloc(sizeof *link);
    link->text = text;
    link->next_in_bucket = *bucket;
    *bucket = link;
    crawl->link_count++;
    return link;
}

/* The caller holds the lock. */
static void finish(struct crawl *crawl) {
    if (--crawl->outstanding == 0) {
        pthread_cond_broadcast(&crawl->link_waits);
        pthread_cond_broadcast(&crawl->page_waits);
    }
}

static void *download(void *argument) {
    struct crawl *crawl = argument;
    pthread_mutex_lock(&crawl->lock);
    for (;;) {
        while (!crawl->links.length && crawl->outstanding)
            pthread_cond_wait(&crawl->link_waits, &crawl->lock);
        if (!crawl->outstanding)
            break;
        struct item *item = pop(&crawl->links);
        pthread_cond_signal(&crawl->room);
        pthread_mutex_unlock(&crawl->lock);
        struct link *link = item->link;
        free(item);
        char *page = crawl->fetch_fn(link->text);
        pthread_mutex_lock(&crawl->lock);
        if (page) {
            push(&crawl->pages, link, page);
            pthread_cond_signal(&crawl->page_waits);
        } else {
            finish(crawl);
        }
    }
    pthread_mutex_unlock(&crawl->lock);
    return NULL;
}

static void found(struct crawl *crawl, const char *from, const char *target, size_t length) {
    char *to = strndup(target, length);
    crawl->edge_fn(from, to);
    pthread_mutex_lock(&crawl->lock);
    struct link *link = insert(crawl, to);
    if (link) {
        while (crawl->links.length >= crawl->work_queue_size)
            pthread_cond_wait(&crawl->room, &crawl->lock);
        crawl->outstanding++;
        push(&crawl->links, link, NULL);
        pthread_cond_signal(&crawl->link_waits);
    }
    pthread_mutex_unlock(&crawl->lock);
    if (!link)
        free(to);
}

static void scan(struct crawl *crawl, const char *from, const char *page) {
    static const char white_space[] = " \t\n\v\f\r";
    for (const char *word = page + strspn(page, white_space); *word; word += strspn(word, white_space)) {
        size_t length = strcspn(word, white_space);
        if (strncmp(word, "link:", 5)) {
            word += length;
            continue;
        }
        word += 5;
        word += strspn(word, " \t");
        length = strcspn(word, white_space);
        if (length)
            found(crawl, from, word, length);
        word += length;
    }
}

static void *parse(void *argument) {
    struct crawl *crawl = argument;
    pthread_mutex_lock(&crawl->lock);
    for (;;) {
        while (!crawl->pages.length && crawl->outstanding)
            pthread_cond_wait(&crawl->page_waits, &crawl->lock);
        if (!crawl->outstanding)
            break;
        struct item *item = pop(&crawl->pages);
        pthread_mutex_unlock(&crawl->lock);
        scan(crawl, item->link->text, item->page);
        free(item->page);
        free(item);
        pthread_mutex_lock(&crawl->lock);
        finish(crawl);
    }
    pthread_mutex_unlock(&crawl->lock);
    return NULL;
}

int crawl(const char *start_url, int download_workers, int parse_workers, int work_queue_size,
          char *(*fetch_fn)(const char *link), void (*edge_fn)(const char *from, const char *to)) {
    struct crawl crawl = {
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .link_waits = PTHREAD_COND_INITIALIZER,
        .page_waits = PTHREAD_COND_INITIALIZER,
        .room = PTHREAD_COND_INITIALIZER,
        .work_queue_size = work_queue_size,
        .fetch_fn = fetch_fn,
        .edge_fn = edge_fn,
        .outstanding = 1,
    };
    crawl.links.end = &crawl.links.first;
    crawl.pages.end = &crawl.pages.first;
    push(&crawl.links, insert(&crawl, strdup(start_url)), NULL);

    int count = download_workers + parse_workers;
    pthread_t *threads = calloc(count, sizeof *threads);
    for (int i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, i < download_workers ? download : parse, &crawl))
            abort();
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    free(threads);

    for (size_t i = 0; i < crawl.bucket_count; i++) {
        for (struct link *link = crawl.buckets[i], *next; link; link = next) {
            next = link->next_in_bucket;
            free(link->text);
            free(link);
        }
    }
    free(crawl.buckets);
    return 0;
}
