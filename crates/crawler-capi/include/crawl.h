/* libcrawl: a multithreaded crawler that fetches pages with your function and reports every link to you. */
#ifndef CRAWL_H
#define CRAWL_H

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Crawls everything reachable from start_url.
 *
 * download_workers threads call fetch_fn. parse_workers further threads extract the links of the pages and
 * call edge_fn. At most work_queue_size links wait to be fetched.
 *
 * fetch_fn(link) returns the page of a link: a string allocated with malloc, which the library frees. NULL
 * means a broken link; the crawl continues. It is called once for each distinct link.
 *
 * edge_fn(from, to) is called for every occurrence of a link on a page, in the order of the page, including
 * duplicates and links to the page itself. The strings belong to the library and are valid only until edge_fn
 * returns.
 *
 * A link is a word that starts with "link:", at the start of the page or after white space. Blanks (spaces
 * and tabs) after the colon are skipped; the target is everything up to the next white space; an empty target
 * is not a link. Targets are opaque bytes: case-sensitive, of any length and encoding, never interpreted.
 *
 * Both functions are called from several threads at once, with no lock held: they may block, be slow, wait
 * for one another, and call crawl. They must return normally, not by longjmp, pthread_exit or an exception.
 * When crawl returns, all its threads have exited, and no callback is called any more.
 *
 * Returns 0 when the crawl is complete, even if links were broken. Returns -1, without calling a callback, if
 * a pointer is NULL, a number is not positive, or the system cannot create a thread; threads already created
 * have exited by then. Running out of memory aborts the process: when malloc fails inside the library, and
 * when a new thread has no memory to start with.
 */
int crawl(const char *start_url, int download_workers, int parse_workers, int work_queue_size,
          char *(*fetch_fn)(const char *link),
          void (*edge_fn)(const char *from, const char *to));

/*
 * The same for HTML pages. A link is the href of an a element, resolved against the page's own link (and the
 * page's base element, if any) and normalized, without its fragment. start_url is normalized too before it is
 * fetched.
 *
 * These are not links, and give no edge:
 * - URLs with a scheme other than http and https, such as mailto:
 * - URLs with a user name or password
 * - URLs longer than 2,048 bytes when normalized, or 16 KiB as written on the page
 * - relative links on a page whose own link is not an absolute http or https URL
 * - links after the first 100,000 of a page; area, frame, iframe and refresh elements count too
 *
 * The encoding of a page is that of its byte order mark, or else of its meta element, or else guessed from its
 * bytes. UTF-16 is not supported: it contains NULs, which end a C string. The encoding matters for links that
 * are not ASCII: the path becomes UTF-8, the query stays in the page's encoding, both percent-encoded.
 */
int crawl_html(const char *start_url, int download_workers, int parse_workers, int work_queue_size,
               char *(*fetch_fn)(const char *link),
               void (*edge_fn)(const char *from, const char *to));

#ifdef __cplusplus
}
#endif

#endif
