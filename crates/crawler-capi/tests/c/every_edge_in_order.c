/* Every occurrence of a link is an edge, in the order of its page; the target is fetched after its first edge. */
#include "check.h"

static const char *const text_of_home =
    "link:home link:news link:news and link:broken link:home link:last link:broken link:news";
static struct text from_home, from_news;
static atomic_int announced_news, announced_broken, announced_last;

static char *fetch(const char *link) {
    if (!strcmp(link, "home"))
        return strdup(text_of_home);
    if (!strcmp(link, "news")) {
        CHECK(announced_news >= 1);
        return strdup("link:home\nlink:news\nlink:home");
    }
    if (!strcmp(link, "last")) {
        CHECK(announced_last == 1);
        return strdup("no links");
    }
    CHECK(!strcmp(link, "broken"));
    CHECK(announced_broken >= 1);
    return NULL;
}

static void edge(const char *from, const char *to) {
    announced_news += !strcmp(to, "news");
    announced_broken += !strcmp(to, "broken");
    announced_last += !strcmp(to, "last");
    append(strcmp(from, "home") ? &from_news : &from_home, "%s>%s ", from, to);
}

int main(void) {
    for (int round = 0; round < 200; round++) {
        from_home.length = from_news.length = 0;
        announced_news = announced_broken = announced_last = 0;
        CHECK(crawl("home", 1 + round % 4, 1 + round % 3, 1 + round % 5, fetch, edge) == 0);
        CHECK(!strcmp(from_home.start, "home>home home>news home>news home>broken home>home home>last "
                                       "home>broken home>news "));
        CHECK(!strcmp(from_news.start, "news>home news>news news>home "));
    }
    free(from_home.start);
    free(from_news.start);
    return 0;
}
