//! A seeded page: the targets of its links, and its HTML or text.

use std::fmt::Write;

use super::{DIRECTORIES, Random, Resource, Seeded, spelling};

/// Few enough that words repeat within a page, and enough that pages differ.
#[rustfmt::skip]
const WORDS: [&str; 48] = [
    "harbour", "lantern", "quiet", "letter", "northern", "keeper", "morning", "stone", "village", "amber", "travel",
    "winter", "orchard", "signal", "garden", "paper", "copper", "evening", "bridge", "meadow", "salt", "answer",
    "island", "thread", "window", "record", "valley", "market", "silver", "forest", "candle", "river", "engine",
    "summer", "kettle", "feather", "ladder", "mirror", "pocket", "saddle", "timber", "violet", "wagon", "yellow",
    "naïve", "Zürich", "façade", "東京",
];

/// Links to other webs, and URLs that cannot be fetched.
const EXTERNAL_LINKS: [&str; 9] = [
    "http://elsewhere.invalid/",
    "https://elsewhere.invalid/deep/page.html?x=1",
    "//elsewhere.invalid/by-scheme",
    "http://127.0.0.1:1/another-port",
    "http://user:secret@elsewhere.invalid/",
    "mailto:keeper@elsewhere.invalid",
    "javascript:void(0)",
    "data:text/html,<a href=/hidden/0.html>x</a>",
    "ftp://elsewhere.invalid/file",
];

/// A page of this many words is about 200 KB: large, but below the limits of crawlers.
const MAX_WORDS: usize = 30_000;

/// The target of a link.
#[derive(Clone, Copy)]
enum Target {
    SameHost(Resource),
    OtherHost(usize, usize),
    External(&'static str),
}

impl Seeded {
    /// The targets of page n's links that a crawler must follow, including other hosts of the web.
    pub(super) fn targets(&self, n: usize) -> impl Iterator<Item = (Seeded, Resource)> {
        let site = *self;
        self.page_links(n).into_iter().filter_map(move |target| match target {
            Target::SameHost(resource) => Some((site, resource)),
            Target::OtherHost(host, page) => Some((site.other_host(host), Resource::Page(page))),
            Target::External(_) => None,
        })
    }

    fn page_links(&self, n: usize) -> Vec<Target> {
        if self.is_text(n) {
            return Vec::new();
        }
        let mut random = self.random("links", n);
        let mut page_links: Vec<Target> =
            self.children(n).map(|child| Target::SameHost(self.link_target(child))).collect();
        for _ in 0..random.below(8) {
            // Not far beyond the children: with many shortcuts the web would not be deep.
            let near = random.below(self.pages.min(2 * n + 4));
            page_links.push(match random.below(16) {
                0..6 => Target::SameHost(Resource::Page(near)),
                6 => Target::SameHost(self.link_target(near)),
                7 => Target::SameHost(Resource::Page(n)),
                8 => Target::SameHost(Resource::Page(0)),
                9 => *page_links.last().unwrap_or(&Target::SameHost(Resource::Page(n))),
                10 => Target::SameHost(Resource::Missing(n)),
                11 => Target::SameHost(Resource::Image(n)),
                12 => Target::SameHost(
                    random.one_of(&[Resource::OffsiteRedirect(n), Resource::RedirectLoop(n, false)]),
                ),
                _ => Target::External(random.one_of(&EXTERNAL_LINKS)),
            });
        }
        if self.print_views {
            page_links.push(Target::SameHost(Resource::PrintView(n)));
        }
        if self.hosts > 1 {
            self.link_hosts(n, &mut page_links, &mut random);
        }
        random.shuffle(&mut page_links);
        page_links
    }

    /// Adds links to other hosts. The home pages of the hosts form a tree, so that every host is reachable from the
    /// first.
    fn link_hosts(&self, n: usize, page_links: &mut Vec<Target>, random: &mut Random) {
        let below = (2 * self.host + 1..=2 * self.host + 2).filter(|host| n == 0 && *host < self.hosts);
        page_links.extend(below.map(|host| Target::OtherHost(host, 0)));
        if random.chance(3) {
            page_links.push(Target::OtherHost(random.below(self.hosts), random.below(self.pages.min(4))));
        }
    }

    /// The page, or the first redirect of the chain to it.
    fn link_target(&self, n: usize) -> Resource {
        match self.hops(n) {
            0 => Resource::Page(n),
            hops => Resource::RedirectChain(n, hops),
        }
    }

    /// The body of page n for a client that uses `origin`.
    pub(super) fn body(&self, n: usize, origin: &str) -> String {
        let mut random = self.random("body", n);
        let mut body = String::new();
        let title = format!("{} {n}", words(2, &mut random));
        let length = match random.below(40) {
            0 => random.below(MAX_WORDS),
            1..5 => 1000 + random.below(1000),
            _ => 60 + random.below(200),
        };
        if self.is_text(n) {
            let _ = writeln!(
                body,
                "{title}\n\nSee {origin}/hidden/{n}.html or <a href=\"/hidden/{n}.html\">here</a>.\n"
            );
            paragraph(&mut body, length, &mut random);
            return body;
        }
        let here = self.path(Resource::Page(n));
        let base = random.chance(6).then(|| format!("/{}/", random.one_of(&DIRECTORIES)));
        let _ = writeln!(
            body,
            "<!DOCTYPE html>\n<html><head><title>{title} &lt;a href=/hidden/{n}.html></title>"
        );
        if let Some(base) = &base {
            let reference_to = spelling::reference(base, &here, origin, &mut random);
            let _ = writeln!(body, "<base {}>", spelling::attribute("href", &reference_to, &mut random));
        }
        self.decoy(n, &mut body, &mut random);
        body.push_str("</head>\n<body>\n");
        let _ = writeln!(body, "<h1>{title}</h1>");
        let page_links = self.page_links(n);
        for link in &page_links {
            paragraph(&mut body, length / (page_links.len() + 1), &mut random);
            let reference = self.reference_to(*link, base.as_deref().unwrap_or(&here), origin, &mut random);
            element(&mut body, &reference, n, &mut random);
            if random.chance(6) {
                self.decoy(n, &mut body, &mut random);
            }
        }
        paragraph(&mut body, length / (page_links.len() + 1), &mut random);
        body.push_str(random.one_of(&["</body></html>\n", "</body>\n</html>", ""]));
        body
    }

    fn reference_to(&self, link: Target, base: &str, origin: &str, random: &mut Random) -> String {
        match link {
            Target::External(url) => url.to_owned(),
            Target::SameHost(resource) => spelling::reference(&self.path(resource), base, origin, random),
            Target::OtherHost(host, page) => {
                let other = self.other_host(host);
                format!("{}{}", other.origin_from(origin), other.path(Resource::Page(page)))
            }
        }
    }

    /// Adds text that looks like a link but is not one.
    fn decoy(&self, n: usize, body: &mut String, random: &mut Random) {
        let hidden = self.path(Resource::Hidden(n));
        let _ = match random.below(6) {
            0 => writeln!(body, "<!-- <a href=\"{hidden}\">old</a> -->"),
            1 => writeln!(body, "<script>document.write('<a href=\"{hidden}\">x</a>')</script>"),
            2 => writeln!(body, "<style>/* <a href=\"{hidden}\"> */</style>"),
            3 => writeln!(body, "<SCRIPT type=text/plain><a href={hidden}></SCRIPT >"),
            _ => Ok(()),
        };
    }
}

/// Adds an element with a link, of a random kind.
fn element(body: &mut String, reference: &str, n: usize, random: &mut Random) {
    let text = random.one_of(&WORDS);
    let href = spelling::attribute("href", reference, random);
    let _ = match random.below(14) {
        0 => writeln!(body, "<A {href}\n>{text}</A>"),
        1 => writeln!(body, "<a class=\"x\" title='1 > 0' {href} >{text}</a>"),
        2 => writeln!(body, "<a {href} href=\"/hidden/{n}.html\">{text}</a>"),
        3 => writeln!(body, "<a data-href=\"/hidden/{n}.html\" {href}>{text}</a>"),
        4 => writeln!(body, "<map><area shape=default {href}></map>"),
        5 => writeln!(body, "<noscript><a {href}>{text}</a></noscript>"),
        6 => {
            let source = spelling::attribute("src", reference, random);
            writeln!(body, "<iframe {source} ></iframe>")
        }
        7 => writeln!(body, "<ul><li><a {href}><b>{text}</b><li>{text}</ul>"),
        8 => writeln!(body, "<textarea><a href=/hidden/{n}.html></textarea><a {href}>{text}</a>"),
        9 => {
            let to = spelling::escaped(reference, random);
            let quote = random.one_of(&["", "'"]);
            writeln!(body, "<meta http-equiv=Refresh content=\"600; URL={quote}{to}{quote}\">")
        }
        _ => writeln!(body, "<a {href}>{text}</a>"),
    };
}

fn paragraph(body: &mut String, length: usize, random: &mut Random) {
    if length > 0 {
        let _ = writeln!(body, "<p>{}.", words(length, random));
    }
}

fn words(count: usize, random: &mut Random) -> String {
    let mut words = String::with_capacity(count * 8);
    for n in 0..count {
        let gap = if n == 0 {
            ""
        } else if n % 12 == 0 {
            "\n"
        } else {
            " "
        };
        words.push_str(gap);
        words.push_str(random.one_of(&WORDS));
    }
    words
}
