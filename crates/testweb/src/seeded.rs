//! Generates sites from a seed, and the expected result of crawling them: the (ground) truth.
//!
//! Nothing is stored: every path, page and link is computed from the seed on request, so that a web of a million pages
//! needs no memory. The generator chooses the target of each link before it writes the link. The truth follows the
//! targets, without parsing HTML.

mod page;
mod spelling;

use std::collections::{BTreeMap, HashSet};

use demoweb::{Random, Request};

use crate::hostile::PICTURE;
use crate::response::Response;

/// What a crawl must find: the depth and body of each page, by path or URL.
pub type Truth = BTreeMap<String, (usize, Vec<u8>)>;

/// How many redirects a crawler follows for one link.
const MAX_REDIRECTS: usize = 10;

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

/// What a path of a seeded host is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Resource {
    /// A page of the truth. Page 0 is `/`, and page n is linked from page (n - 1) / fan-out.
    Page(usize),
    /// A near-duplicate of the page, with one more sentence.
    PrintView(usize),
    /// A redirect to page n, with this many hops to go.
    RedirectChain(usize, usize),
    /// A redirect to another host.
    OffsiteRedirect(usize),
    /// One of two redirects to each other; `true` for the second.
    RedirectLoop(usize, bool),
    /// A page whose URL appears only where it is not a link: in comments, scripts, plain text.
    Hidden(usize),
    /// An image.
    Image(usize),
    /// A dead link.
    Missing(usize),
}

impl Seeded {
    /// A web of one host.
    pub(crate) fn single(seed: u64, pages: usize) -> Self {
        Self::many(seed, 1, pages)[0]
    }

    /// The hosts of a seeded web.
    pub(crate) fn many(seed: u64, hosts: usize, pages: usize) -> Vec<Self> {
        assert!(hosts > 0 && pages > 0, "a seeded web needs at least one host and one page");
        (0..hosts).map(|host| Self { seed, host, hosts, pages, print_views: false }).collect()
    }

    /// The same host, with a print view of each page.
    pub(crate) fn with_print_views(self) -> Self {
        Self { print_views: true, ..self }
    }

    /// The host name in a web of many hosts.
    pub(crate) fn name(&self) -> String {
        format!("h{}.test", self.host)
    }

    /// The response to a request, if the seed has something at its path.
    pub(crate) fn respond_to(&self, request: &Request) -> Option<Response> {
        let origin = request.origin();
        let resource = self.resource(&request.path)?;
        if let Some(to) = self.redirect(resource) {
            let mut random = self.random(&request.path, 0);
            let status = random.one_of(&[301, 302, 303, 307, 308]);
            let to = spelling::reference(&self.path(to), &request.path, &origin, &mut random);
            return Some(Response::redirect(status, &to));
        }
        match resource {
            Resource::Page(n) if self.is_text(n) => Some(Response::text(self.body(n, &origin))),
            Resource::Page(n) => Some(Response::page(self.body(n, &origin))),
            Resource::PrintView(n) => {
                Some(Response::page(self.body(n, &origin) + "\n<p>This is the print view.\n"))
            }
            Resource::OffsiteRedirect(n) => {
                Some(Response::redirect(302, &format!("http://elsewhere.invalid/from/{n}")))
            }
            Resource::Hidden(_) => Some(Response::page("<title>Hidden</title><p>Nothing links here.\n")),
            Resource::Image(_) => Some(Response::page(PICTURE).content_type("image/png")),
            Resource::RedirectChain(..) | Resource::RedirectLoop(..) | Resource::Missing(_) => None,
        }
    }

    /// What a crawl must find, by URL, if it starts at `path` of this host. `origin` is the origin in the client's
    /// URLs.
    pub(crate) fn truth(&self, origin: &str, path: &str, max_depth: usize) -> Truth {
        let (mut truth, mut seen) = (Truth::new(), HashSet::new());
        let mut page_links: Vec<(Seeded, Resource)> =
            self.resource(path).map(|resource| (*self, resource)).into_iter().collect();
        for depth in 0..=max_depth {
            for (site, resource) in std::mem::take(&mut page_links) {
                let Some(Resource::Page(n)) = site.follow_redirects(resource) else { continue };
                if !seen.insert((site.host, n)) {
                    continue;
                }
                let origin = site.origin_from(origin);
                let url = format!("{origin}{}", site.path(Resource::Page(n)));
                truth.insert(url, (depth, site.body(n, &origin).into_bytes()));
                page_links.extend(site.targets(n));
            }
        }
        truth
    }

    /// The resource at the end of the redirects, unless there are too many of them.
    fn follow_redirects(&self, resource: Resource) -> Option<Resource> {
        let mut hops = std::iter::successors(Some(resource), |resource| self.redirect(*resource))
            .take(MAX_REDIRECTS + 1);
        hops.find(|resource| self.redirect(*resource).is_none())
    }

    /// The target of a redirect on this host; `None` for other resources.
    fn redirect(&self, resource: Resource) -> Option<Resource> {
        match resource {
            Resource::RedirectChain(n, 1) => Some(Resource::Page(n)),
            Resource::RedirectChain(n, hops) => Some(Resource::RedirectChain(n, hops - 1)),
            Resource::RedirectLoop(n, back) => Some(Resource::RedirectLoop(n, !back)),
            _ => None,
        }
    }

    /// Another host of the same web.
    fn other_host(&self, host: usize) -> Seeded {
        Self { host, ..*self }
    }

    /// This host's origin, derived from that of another host of the web, which has the same scheme and port.
    fn origin_from(&self, origin: &str) -> String {
        if self.hosts == 1 {
            return origin.to_owned();
        }
        let (scheme, authority) = origin.split_once("://").unwrap_or(("http", origin));
        let port = authority.rfind(':').map_or("", |colon| &authority[colon..]);
        format!("{scheme}://{}{port}", self.name())
    }

    /// An independent random sequence for one decision about this host.
    fn random(&self, decision: &str, n: usize) -> Random {
        Random::keyed(&[self.seed, self.host as u64, n as u64], decision)
    }

    /// How many child pages each page has. Few, so that a crawl of some hundred pages is deep.
    fn fan_out(&self) -> usize {
        2 + self.random("fan-out", 0).below(3)
    }

    /// The child pages of a page in the tree of pages.
    fn children(&self, n: usize) -> std::ops::Range<usize> {
        let first = n.saturating_mul(self.fan_out()).saturating_add(1);
        first.min(self.pages)..first.saturating_add(self.fan_out()).min(self.pages)
    }

    /// Plain text has no links, so only a page without children may be one.
    fn is_text(&self, n: usize) -> bool {
        n > 0 && self.children(n).is_empty() && self.random("is text", n).chance(8)
    }

    fn path(&self, resource: Resource) -> String {
        match resource {
            Resource::Page(0) => "/".into(),
            Resource::Page(n) => self.page_path(n),
            Resource::PrintView(n) => {
                let page = self.path(Resource::Page(n));
                let separator = if page.contains('?') { '&' } else { '?' };
                format!("{page}{separator}{PRINT}")
            }
            Resource::RedirectChain(n, hops) => format!("/go/{n}/{hops}"),
            Resource::OffsiteRedirect(n) => format!("/away/{n}"),
            Resource::RedirectLoop(n, false) => format!("/round/{n}"),
            Resource::RedirectLoop(n, true) => format!("/round/back/{n}"),
            Resource::Hidden(n) => format!("/hidden/{n}.html"),
            Resource::Image(n) => format!("/pictures/{n}.png"),
            Resource::Missing(n) => format!("/missing/{n}.html"),
        }
    }

    /// The path of page n. Its last digits are n.
    fn page_path(&self, n: usize) -> String {
        let mut random = self.random("path", n);
        let mut path = String::from("/");
        for _ in 0..random.below(4) {
            // No name twice in a path: a crawler's trap detector rejects repeated segments.
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

    /// The resource at a path, if any.
    fn resource(&self, path: &str) -> Option<Resource> {
        if path == "/" {
            return Some(Resource::Page(0));
        }
        if let Some(page) = path.strip_suffix(PRINT).filter(|_| self.print_views) {
            let Some(Resource::Page(n)) = self.resource(page.strip_suffix(['?', '&'])?) else { return None };
            let resource = Resource::PrintView(n);
            return (!self.is_text(n) && self.path(resource) == path).then_some(resource);
        }
        let end = path.rfind(|c: char| c.is_ascii_digit())? + 1;
        let start = path[..end].rfind(|c: char| !c.is_ascii_digit()).map_or(0, |before| before + 1);
        let number: usize = path[start..end].parse().ok()?;
        let resource = match path.split('/').nth(1)? {
            "go" => {
                let n = path.strip_prefix("/go/")?.split('/').next()?.parse().ok()?;
                (1..=self.hops(n)).contains(&number).then_some(Resource::RedirectChain(n, number))?
            }
            "away" => Resource::OffsiteRedirect(number),
            "round" => Resource::RedirectLoop(number, path.starts_with("/round/back/")),
            "hidden" => Resource::Hidden(number),
            "pictures" => Resource::Image(number),
            _ => Resource::Page(number),
        };
        let number = if let Resource::RedirectChain(n, _) = resource { n } else { number };
        (number < self.pages && self.path(resource) == path).then_some(resource)
    }

    /// How many redirects a link to a page goes through: mostly none.
    fn hops(&self, n: usize) -> usize {
        self.random("hops", n).below(12).saturating_sub(8)
    }
}
