/*
 * Crawls a directory of page files: the link "news" is the file "news" in that directory.
 *
 *     crawl_directory DIRECTORY START
 *
 * Prints every edge to standard output and a summary to standard error. To build it against the installed library:
 *
 *     cc crawl_directory.c $(pkg-config --cflags --libs crawl) -o crawl_directory
 */
#include <crawl.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DOWNLOAD_WORKERS = 8, PARSE_WORKERS = 2, WORK_QUEUE_SIZE = 100 };

static const char *directory;

/* Callbacks run on several threads at once, and all of them count. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long pages, broken, edges;

static void count(long *counter) {
    pthread_mutex_lock(&lock);
    ++*counter;
    pthread_mutex_unlock(&lock);
}

/* The content of a file as a string, or NULL. */
static char *read_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    size_t length = 0, capacity = 4096;
    char *text = malloc(capacity);
    while (text) {
        length += fread(text + length, 1, capacity - length - 1, file);
        if (length < capacity - 1)
            break;
        char *more = realloc(text, capacity *= 2);
        if (!more)
            free(text);
        text = more;
    }
    if (text && ferror(file)) {
        free(text);
        text = NULL;
    }
    if (text)
        text[length] = '\0';
    fclose(file);
    return text;
}

/* Returns a string from malloc, which crawl frees. NULL means a broken link. */
static char *fetch(const char *link) {
    char *page = NULL;
    /* Pages are not trusted: a link must not lead out of the directory. */
    if (!strchr(link, '/') && strcmp(link, ".") && strcmp(link, "..")) {
        char *path = malloc(strlen(directory) + 1 + strlen(link) + 1);
        if (path) {
            sprintf(path, "%s/%s", directory, link);
            page = read_file(path);
            free(path);
        }
    }
    count(page ? &pages : &broken);
    return page;
}

static void print_edge(const char *from, const char *to) {
    count(&edges);
    printf("%s -> %s\n", from, to);
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: %s DIRECTORY START\n", argv[0]);
        return 2;
    }
    directory = argv[1];
    if (crawl(argv[2], DOWNLOAD_WORKERS, PARSE_WORKERS, WORK_QUEUE_SIZE, fetch, print_edge) != 0) {
        fputs("cannot crawl: the system cannot create enough threads\n", stderr);
        return 1;
    }
    fprintf(stderr, "%ld pages, %ld broken links, %ld edges\n", pages, broken, edges);
    return 0;
}
