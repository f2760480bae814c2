/* A link is a word that starts with "link:"; blanks after the colon are skipped; the target ends at white space. */
#include "check.h"

static const char *page;
static struct text found;

static char *fetch(const char *link) {
    return strdup(strcmp(link, "start") ? "" : page);
}

static void edge(const char *from, const char *to) {
    CHECK(!strcmp(from, "start"));
    append(&found, "[%s]", to);
}

static void expect(const char *text, const char *links) {
    page = text;
    found.length = 0;
    append(&found, "%s", "");
    CHECK(crawl("start", 1, 1, 10, fetch, edge) == 0);
    if (strcmp(found.start, links)) {
        fprintf(stderr, "\"%s\" gave %s, not %s\n", text, found.start, links);
        exit(1);
    }
}

int main(void) {
    expect("link:a", "[a]");
    expect("link:a link:b\tlink:c\nlink:d\vlink:e\flink:f\rlink:g", "[a][b][c][d][e][f][g]");
    expect("text link:a, more text", "[a,]");
    expect("link: a link:\t \tb", "[a][b]");
    expect("invalidlink:x Link:x LINK:x link :x lin link", "");
    expect("\"link:x\" (link:x) link.link:x", "");
    expect("link:", "");
    expect("link: \t ", "");
    expect("link:\nx link:\r\nx link:\vx link:\fx", "");
    expect("link:a\nlink:\nlink:b", "[a][b]");
    expect("link:link:", "[link:]");
    expect("link: link:a link:b", "[link:a][b]");
    expect("link:link:link:", "[link:link:]");
    expect("link:a#b?c=d&e://f", "[a#b?c=d&e://f]");
    expect("linklink:x xlink: link:y", "[y]");
    expect("", "");
    free(found.start);
    return 0;
}
