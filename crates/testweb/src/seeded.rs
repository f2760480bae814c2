//! Sites made from a seed, and the truth about them.
//!
//! Nothing is stored: every path, page and link is computed from the seed when it is asked for, so a web of a
//! million pages costs no memory. The generator knows where each link leads because it chose the target first
//! and spelled the link afterwards; the truth follows the targets and reads no HTML at all.

mod page;
mod spelling;

use std::collections::{BTreeMap, HashSet};

use demoweb::{Random, Request};

use crate::answer::Answer;
use crate::hostile::PICTURE;

/// What a crawl must find: by path or URL, the fewest hops to each page and its body.
pub type Truth = BTreeMap<String, (usize, Vec<u8>)>;

/// As many as a crawler is to follow for one link.
const MOST_REDIRECTS: usize = 10;

const DIRECTORIES: [&str; 8] =
    ["letters", "notes", "archive", "maps", "people", "weather", "a-long-directory-name", "x"];
/// The query of a print view.
const PRINT: &str = "print=yes";
const NAMES: [&str; 6] = ["story", "report", "list", "Day", "index", "item_of_interest"];

/// One host of a seeded web.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seeded {
    seed: u64,
    host: usize,
    hosts: usize,
    pages: usize,
    print_views: bool,
}

/// Everything a path of a seeded host can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Place {
    /// A page that counts: page 0 is `/`, and page n is linked from page (n - 1) / fan-out.
    Page(usize),
    /// The page again, alike but for a sentence at its end.
    PrintView(usize),
    /// A redirect with so many more of its kind before the page.
    Road(usize, usize),
    /// A redirect to another host.
    Away(usize),
    /// One of two redirects to each other.
    Round(usize, bool),
    /// A page that is only ever named where links do not count: in comments, scripts, plain text.
    Hidden(usize),
    /// A picture, which is no page.
    Picture(usize),
    /// Linked, and not there.
    Missing(usize),
}

impl Seeded {
    /// A site that has no other hosts around it.
    pub(crate) fn alone(seed: u64, pages: usize) -> Self {
        Self::many(seed, 1, pages)[0]
    }

    /// The hosts of a web.
    pub(crate) fn many(seed: u64, hosts: usize, pages: usize) -> Vec<Self> {
        assert!(hosts > 0 && pages > 0, "a seeded web needs a host and a page");
        (0..hosts).map(|host| Self { seed, host, hosts, pages, print_views: false }).collect()
    }

    /// The same, where each page links to its print view.
    pub(crate) fn with_print_views(self) -> Self {
        Self { print_views: true, ..self }
    }

    /// The host name of one among many.
    pub(crate) fn name(&self) -> String {
        format!("h{}.test", self.host)
    }

    /// The answer to a path that the seed has something for.
    pub(crate) fn answer_to(&self, request: &Request) -> Option<Answer> {
        let origin = request.origin();
        let place = self.place(&request.path)?;
        if let Some(to) = self.redirect(place) {
            let mut random = self.random(&request.path, 0);
            let status = random.one_of(&[301, 302, 303, 307, 308]);
            let to = spelling::reference(&self.path(to), &request.path, &origin, &mut random);
            return Some(Answer::redirect(status, &to));
        }
        match place {
            Place::Page(n) if self.is_text(n) => Some(Answer::text(self.body(n, &origin))),
            Place::Page(n) => Some(Answer::page(self.body(n, &origin))),
            Place::PrintView(n) => {
                Some(Answer::page(self.body(n, &origin) + "\n<p>This is the print view.\n"))
            }
            Place::Away(n) => Some(Answer::redirect(302, &format!("http://elsewhere.invalid/from/{n}"))),
            Place::Hidden(_) => Some(Answer::page("<title>Hidden</title><p>Nothing links here.\n")),
            Place::Picture(_) => Some(Answer::page(PICTURE).content_type("image/png")),
            Place::Road(..) | Place::Round(..) | Place::Missing(_) => None,
        }
    }

    /// What a crawl must find that starts at `path` of this host, known to the client as `origin`: by URL.
    pub(crate) fn truth(&self, origin: &str, path: &str, max_depth: usize) -> Truth {
        let (mut truth, mut seen) = (Truth::new(), HashSet::new());
        let mut links: Vec<(Seeded, Place)> =
            self.place(path).map(|place| (*self, place)).into_iter().collect();
        for depth in 0..=max_depth {
            for (site, place) in std::mem::take(&mut links) {
                let Some(Place::Page(n)) = site.settle(place) else { continue };
                if !seen.insert((site.host, n)) {
                    continue;
                }
                let origin = site.origin_beside(origin);
                let url = format!("{origin}{}", site.path(Place::Page(n)));
                truth.insert(url, (depth, site.body(n, &origin).into_bytes()));
                links.extend(site.targets(n));
            }
        }
        truth
    }

    /// Where redirects from a place end, if they do and it is on this host.
    fn settle(&self, place: Place) -> Option<Place> {
        let mut hops =
            std::iter::successors(Some(place), |place| self.redirect(*place)).take(MOST_REDIRECTS + 1);
        hops.find(|place| self.redirect(*place).is_none())
    }

    /// Where on this host a redirect leads; `None` for all that is none.
    fn redirect(&self, place: Place) -> Option<Place> {
        match place {
            Place::Road(n, 1) => Some(Place::Page(n)),
            Place::Road(n, hops) => Some(Place::Road(n, hops - 1)),
            Place::Round(n, back) => Some(Place::Round(n, !back)),
            _ => None,
        }
    }

    /// Another host of the same web.
    fn beside(&self, host: usize) -> Seeded {
        Self { host, ..*self }
    }

    /// This host's origin, given that of any host of its web: scheme and port are the same everywhere.
    fn origin_beside(&self, origin: &str) -> String {
        if self.hosts == 1 {
            return origin.to_owned();
        }
        let (scheme, authority) = origin.split_once("://").unwrap_or(("http", origin));
        let port = authority.rfind(':').map_or("", |colon| &authority[colon..]);
        format!("{scheme}://{}{port}", self.name())
    }

    /// A generator for one decision about this host, independent of all others.
    fn random(&self, about: &str, n: usize) -> Random {
        Random::about(&[self.seed, self.host as u64, n as u64], about)
    }

    /// How many pages each page is the first to link to: so few that a crawl of some hundred pages goes deep.
    fn fan_out(&self) -> usize {
        2 + self.random("fan-out", 0).below(3)
    }

    /// The pages that would not be found but for this one.
    fn children(&self, n: usize) -> std::ops::Range<usize> {
        let first = n.saturating_mul(self.fan_out()).saturating_add(1);
        first.min(self.pages)..first.saturating_add(self.fan_out()).min(self.pages)
    }

    /// Plain text has no links, so only a page without children may be one.
    fn is_text(&self, n: usize) -> bool {
        n > 0 && self.children(n).is_empty() && self.random("is text", n).chance(8)
    }

    fn path(&self, place: Place) -> String {
        match place {
            Place::Page(0) => "/".into(),
            Place::Page(n) => self.page_path(n),
            Place::PrintView(n) => {
                let page = self.path(Place::Page(n));
                let separator = if page.contains('?') { '&' } else { '?' };
                format!("{page}{separator}{PRINT}")
            }
            Place::Road(n, hops) => format!("/go/{n}/{hops}"),
            Place::Away(n) => format!("/away/{n}"),
            Place::Round(n, false) => format!("/round/{n}"),
            Place::Round(n, true) => format!("/round/back/{n}"),
            Place::Hidden(n) => format!("/hidden/{n}.html"),
            Place::Picture(n) => format!("/pictures/{n}.png"),
            Place::Missing(n) => format!("/missing/{n}.html"),
        }
    }

    /// A path for page n, whose last digits are n.
    fn page_path(&self, n: usize) -> String {
        let mut random = self.random("path", n);
        let mut path = String::from("/");
        for _ in 0..random.below(4) {
            // Not the same name twice in a path: that is what a crawler's trap detector looks for.
            let name = random.one_of(&DIRECTORIES);
            if !path.contains(name) {
                path = path + name + "/";
            }
        }
        let name = random.one_of(&NAMES);
        if self.is_text(n) {
            return format!("{path}{name}-{n}.txt");
        }
        match random.below(7) {
            0 => format!("{path}{name}-{n}/"),
            1 => format!("{path}{name}-{n}/index.html"),
            2 => format!("{path}{name}?page={n}&sort=up"),
            3 => format!("{path}{name}%20number-{n}.html"),
            4 => format!("{path}caf%C3%A9-{n}"),
            _ => format!("{path}{name}-{n}.html"),
        }
    }

    /// The place that has this path, if any.
    fn place(&self, path: &str) -> Option<Place> {
        if path == "/" {
            return Some(Place::Page(0));
        }
        if let Some(page) = path.strip_suffix(PRINT).filter(|_| self.print_views) {
            let Some(Place::Page(n)) = self.place(page.strip_suffix(['?', '&'])?) else { return None };
            let place = Place::PrintView(n);
            return (!self.is_text(n) && self.path(place) == path).then_some(place);
        }
        let end = path.rfind(|c: char| c.is_ascii_digit())? + 1;
        let start = path[..end].rfind(|c: char| !c.is_ascii_digit()).map_or(0, |before| before + 1);
        let number: usize = path[start..end].parse().ok()?;
        let place = match path.split('/').nth(1)? {
            "go" => {
                let n = path.strip_prefix("/go/")?.split('/').next()?.parse().ok()?;
                (1..=self.hops(n)).contains(&number).then_some(Place::Road(n, number))?
            }
            "away" => Place::Away(number),
            "round" => Place::Round(number, path.starts_with("/round/back/")),
            "hidden" => Place::Hidden(number),
            "pictures" => Place::Picture(number),
            _ => Place::Page(number),
        };
        let number = if let Place::Road(n, _) = place { n } else { number };
        (number < self.pages && self.path(place) == path).then_some(place)
    }

    /// How many redirects lie between the link to a page and the page: mostly none.
    fn hops(&self, n: usize) -> usize {
        self.random("hops", n).below(12).saturating_sub(8)
    }
}
