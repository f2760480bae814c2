/*
 * Crawls a directory of page files: the link "news" is the file "news" in that directory.
 *
 *     crawl_directory DIRECTORY START
 *
 * prints every edge to standard output, and to standard error what the crawl came to. To build it against an installed
 * library:
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

/* Callbacks come from several threads at once, and these are counted by all of them. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long pages, broken, edges;

static void count(long *what) {
    pthread_mutex_lock(&lock);
    ++*what;
    pthread_mutex_unlock(&lock);
}

/* The whole file as a string, or NULL. */
static char *read_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    size_t length = 0, space = 4096;
    char *text = malloc(space);
    while (text) {
        length += fread(text + length, 1, space - length - 1, file);
        if (length < space - 1)
            break;
        char *more = realloc(text, space *= 2);
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

/* A page is a string from malloc: crawl frees it. NULL says that the link is broken. */
static char *fetch(const char *link) {
    char *page = NULL;
    /* A link is whatever a page says it is: it must not lead out of the directory. */
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

int main(int words, char **word) {
    if (words != 3) {
        fprintf(stderr, "usage: %s DIRECTORY START\n", word[0]);
        return 2;
    }
    directory = word[1];
    if (crawl(word[2], DOWNLOAD_WORKERS, PARSE_WORKERS, WORK_QUEUE_SIZE, fetch, print_edge) != 0) {
        fputs("cannot crawl: no threads to be had\n", stderr);
        return 1;
    }
    fprintf(stderr, "%ld pages, %ld broken links, %ld edges\n", pages, broken, edges);
    return 0;
}
