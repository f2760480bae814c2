/* libcrawl: a multithreaded crawler that fetches with your function and tells you every link it finds. */
#ifndef CRAWL_H
#define CRAWL_H

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Crawls everything that can be reached from start_url.
 *
 * download_workers threads call fetch_fn; parse_workers others find the links of the pages and call edge_fn.
 * At most work_queue_size links wait to be fetched.
 *
 * fetch_fn(link) returns the page behind a link: a string allocated with malloc, which the library frees; or
 * NULL for a broken link, after which the crawl goes on. It is called once for each distinct link.
 *
 * edge_fn(from, to) is called for every occurrence of a link on a page, in the order of the page, duplicates
 * and links to itself included. The strings belong to the library and are gone when edge_fn returns.
 *
 * A link is a word that begins with "link:", at the start of the page or after white space. Blanks (spaces
 * and tabs) after the colon are skipped; the target is everything up to the next white space; an empty target
 * is no link. Targets are opaque bytes: case-sensitive, of any length, in no particular encoding, never
 * processed.
 *
 * Both functions are called from several threads at once, with no lock held: they may block, be slow, wait
 * for one another, and call crawl. They must return: not by longjmp, pthread_exit or an exception. All
 * threads have ended when crawl returns, and no callback comes afterwards.
 *
 * Returns 0 when the crawl is complete, whether or not links were broken. Returns -1, without having called
 * anything, if a pointer is NULL, a number is not positive, or the system refuses a thread; those it granted
 * have ended by then. Running out of memory is another matter: it aborts the process, whether malloc fails
 * inside the library, or a thread that the system has granted finds no memory to set itself up with.
 */
int crawl(const char *start_url, int download_workers, int parse_workers, int work_queue_size,
          char *(*fetch_fn)(const char *link),
          void (*edge_fn)(const char *from, const char *to));

/*
 * The same for HTML pages: a link is the href of an a element, resolved against the page's own link (and the
 * page's base element, if it has one) and written in normal form without fragment. start_url is brought into
 * the same form before it is fetched.
 *
 * No link, and so no edge, is what could not be asked for over HTTP: another scheme, mailto: say; a user name
 * or password in the URL; more than 2,048 bytes in normal form, or 16 KiB as it stands on the page. Nor is a
 * relative link on a page whose own link is not an absolute http or https URL; nor what comes after 100,000
 * links on one page, where area, frame, iframe and refreshes count as well.
 *
 * A page is read in the encoding that its byte order mark says, or else its meta element, or else a guess
 * from its bytes. (Not UTF-16: it has zeros in it, and a C string ends there.) That matters to links that are
 * not ASCII: the path becomes UTF-8, the query stays in the page's encoding, both percent-encoded.
 */
int crawl_html(const char *start_url, int download_workers, int parse_workers, int work_queue_size,
               char *(*fetch_fn)(const char *link),
               void (*edge_fn)(const char *from, const char *to));

#ifdef __cplusplus
}
#endif

#endif
