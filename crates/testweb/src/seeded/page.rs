//! One seeded page: where its links lead, and the HTML or text that says so.

use std::fmt::Write;

use super::{DIRECTORIES, Place, Random, Seeded, spelling};

/// So few that words repeat within a page, so many that pages differ.
#[rustfmt::skip]
const WORDS: [&str; 48] = [
    "harbour", "lantern", "quiet", "letter", "northern", "keeper", "morning", "stone", "village", "amber", "travel",
    "winter", "orchard", "signal", "garden", "paper", "copper", "evening", "bridge", "meadow", "salt", "answer",
    "island", "thread", "window", "record", "valley", "market", "silver", "forest", "candle", "river", "engine",
    "summer", "kettle", "feather", "ladder", "mirror", "pocket", "saddle", "timber", "violet", "wagon", "yellow",
    "naïve", "Zürich", "façade", "東京",
];

/// Links that leave the web, or are none.
const ELSEWHERE: [&str; 9] = [
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

/// A page of this many words is about 200 KB: large, and within what a crawler accepts.
const LARGEST: usize = 30_000;

/// What a page's link leads to.
#[derive(Clone, Copy)]
enum Target {
    Here(Place),
    Host(usize, usize),
    Elsewhere(&'static str),
}

impl Seeded {
    /// Where the links of page n lead that a crawler has to follow, other hosts of the web included.
    pub(super) fn targets(&self, n: usize) -> impl Iterator<Item = (Seeded, Place)> {
        let site = *self;
        self.links(n).into_iter().filter_map(move |target| match target {
            Target::Here(place) => Some((site, place)),
            Target::Host(host, page) => Some((site.beside(host), Place::Page(page))),
            Target::Elsewhere(_) => None,
        })
    }

    fn links(&self, n: usize) -> Vec<Target> {
        if self.is_text(n) {
            return Vec::new();
        }
        let mut random = self.random("links", n);
        let mut links: Vec<Target> =
            self.children(n).map(|child| Target::Here(self.entrance(child))).collect();
        for _ in 0..random.below(8) {
            // Not much further than the children: a web full of short cuts would have no depth.
            let near = random.below(self.pages.min(2 * n + 4));
            links.push(match random.below(16) {
                0..6 => Target::Here(Place::Page(near)),
                6 => Target::Here(self.entrance(near)),
                7 => Target::Here(Place::Page(n)),
                8 => Target::Here(Place::Page(0)),
                9 => *links.last().unwrap_or(&Target::Here(Place::Page(n))),
                10 => Target::Here(Place::Missing(n)),
                11 => Target::Here(Place::Picture(n)),
                12 => Target::Here(random.one_of(&[Place::Away(n), Place::Round(n, false)])),
                _ => Target::Elsewhere(random.one_of(&ELSEWHERE)),
            });
        }
        if self.print_views {
            links.push(Target::Here(Place::PrintView(n)));
        }
        if self.hosts > 1 {
            self.link_hosts(n, &mut links, &mut random);
        }
        random.shuffle(&mut links);
        links
    }

    /// The front pages of the hosts form a tree, so that every host can be reached from the first.
    fn link_hosts(&self, n: usize, links: &mut Vec<Target>, random: &mut Random) {
        let below = (2 * self.host + 1..=2 * self.host + 2).filter(|host| n == 0 && *host < self.hosts);
        links.extend(below.map(|host| Target::Host(host, 0)));
        if random.chance(3) {
            links.push(Target::Host(random.below(self.hosts), random.below(self.pages.min(4))));
        }
    }

    /// The page, or the redirect that leads to it.
    fn entrance(&self, n: usize) -> Place {
        match self.hops(n) {
            0 => Place::Page(n),
            hops => Place::Road(n, hops),
        }
    }

    /// Page n as it is served to whoever knows the host as `origin`.
    pub(super) fn body(&self, n: usize, origin: &str) -> String {
        let mut random = self.random("body", n);
        let mut body = String::new();
        let title = format!("{} {n}", words(2, &mut random));
        let length = match random.below(40) {
            0 => random.below(LARGEST),
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
        let here = self.path(Place::Page(n));
        let base = random.chance(6).then(|| format!("/{}/", random.one_of(&DIRECTORIES)));
        let _ = writeln!(
            body,
            "<!DOCTYPE html>\n<html><head><title>{title} &lt;a href=/hidden/{n}.html></title>"
        );
        if let Some(base) = &base {
            let spelled = spelling::reference(base, &here, origin, &mut random);
            let _ = writeln!(body, "<base {}>", spelling::attribute("href", &spelled, &mut random));
        }
        self.decoy(n, &mut body, &mut random);
        body.push_str("</head>\n<body>\n");
        let _ = writeln!(body, "<h1>{title}</h1>");
        let links = self.links(n);
        for link in &links {
            paragraph(&mut body, length / (links.len() + 1), &mut random);
            let reference = self.spelled(*link, base.as_deref().unwrap_or(&here), origin, &mut random);
            element(&mut body, &reference, n, &mut random);
            if random.chance(6) {
                self.decoy(n, &mut body, &mut random);
            }
        }
        paragraph(&mut body, length / (links.len() + 1), &mut random);
        body.push_str(random.one_of(&["</body></html>\n", "</body>\n</html>", ""]));
        body
    }

    fn spelled(&self, link: Target, base: &str, origin: &str, random: &mut Random) -> String {
        match link {
            Target::Elsewhere(url) => url.to_owned(),
            Target::Here(place) => spelling::reference(&self.path(place), base, origin, random),
            Target::Host(host, page) => {
                let other = self.beside(host);
                format!("{}{}", other.origin_beside(origin), other.path(Place::Page(page)))
            }
        }
    }

    /// Something that looks like a link and is none.
    fn decoy(&self, n: usize, body: &mut String, random: &mut Random) {
        let hidden = self.path(Place::Hidden(n));
        let _ = match random.below(6) {
            0 => writeln!(body, "<!-- <a href=\"{hidden}\">old</a> -->"),
            1 => writeln!(body, "<script>document.write('<a href=\"{hidden}\">x</a>')</script>"),
            2 => writeln!(body, "<style>/* <a href=\"{hidden}\"> */</style>"),
            3 => writeln!(body, "<SCRIPT type=text/plain><a href={hidden}></SCRIPT >"),
            _ => Ok(()),
        };
    }
}

/// An element that links, among the kinds that do.
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
