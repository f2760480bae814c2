//! A web of which every page and link is known, with hosts that request every kind of delay.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use testweb::{Response, Site, Web};

/// The Crawl-delay in the robots.txt of some hosts.
pub const CRAWL_DELAY: Duration = Duration::from_millis(120);

/// The Retry-After of busy hosts.
pub const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The response time of slow hosts.
const SLOW: Duration = Duration::from_millis(60);

/// The page for which busy hosts first respond with a 503.
const BUSY_PAGE: usize = 2;

/// How a host behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Plain,
    CrawlDelay,
    Busy,
    Slow,
}

/// A number of hosts with a number of pages each; with or without near-duplicates.
#[derive(Debug, Clone, Copy)]
pub struct KnownWeb {
    pub hosts: usize,
    pub pages: usize,
    pub print_views: bool,
}

impl KnownWeb {
    /// Starts the server.
    pub fn serve(self) -> Web {
        let sites = (0..self.hosts).map(|host| {
            let requested: Arc<Mutex<HashSet<String>>> = Arc::default();
            let site = Site::new().fallback(move |request| {
                let port = request.authority.rsplit(':').next().unwrap_or("80");
                let is_first = requested.lock().unwrap().insert(request.path.clone());
                self.respond(host, &request.path, port, is_first)
            });
            let site = match kind(host) {
                Kind::CrawlDelay => {
                    site.robots(format!("User-agent: *\nCrawl-delay: {}", CRAWL_DELAY.as_secs_f64()))
                }
                _ => site,
            };
            (format!("h{host}.test"), site)
        });
        sites.fold(Web::builder(), |web, (name, site)| web.host(&name, site)).start()
    }

    fn respond(self, host: usize, path: &str, port: &str, is_first: bool) -> Response {
        if let Some(page) = path.strip_prefix("/go/") {
            return Response::redirect(302, &format!("/p{page}"));
        }
        let (page, print) = path.strip_suffix("?print").map_or((path, false), |page| (page, true));
        let number = if page == "/" { Some(0) } else { page.strip_prefix("/p").and_then(|n| n.parse().ok()) };
        match number.filter(|number| *number < self.pages) {
            Some(BUSY_PAGE) if kind(host) == Kind::Busy && is_first => {
                Response::status(503).header("retry-after", &RETRY_AFTER.as_secs().to_string())
            }
            Some(number) => {
                let response = Response::page(self.body(host, number, print, port));
                if kind(host) == Kind::Slow { response.delay(SLOW) } else { response }
            }
            None => Response::status(404),
        }
    }

    /// The body of a page.
    pub fn body(self, host: usize, page: usize, print: bool, port: &str) -> String {
        let links = self.links(host, page, port);
        let links: String = links.iter().map(|to| format!("<a href={to}>on</a>\n")).collect();
        let words: String = (0..150).map(|n| format!("w{host}x{page}y{n} ")).collect();
        let print = if print { "<p>This is the print view.\n" } else { "" };
        format!("<title>Page {page} of {host}</title>\n{links}<p>{words}\n{print}")
    }

    /// The links of a page. Every page is reachable, some by a redirect.
    pub fn links(self, host: usize, page: usize, port: &str) -> Vec<String> {
        let url = |host: usize, path: String| format!("http://h{host}.test:{port}{path}");
        let mut links = Vec::new();
        for child in (3 * page + 1..=3 * page + 3).filter(|child| *child < self.pages) {
            let by_redirect = child % 7 == 0;
            links.push(url(host, if by_redirect { format!("/go/{child}") } else { format!("/p{child}") }));
        }
        if page == 0 {
            let others = (3 * host + 1..=3 * host + 3).filter(|other| *other < self.hosts);
            links.extend(others.map(|other| url(other, "/".into())));
        }
        if page % 5 == 1 {
            links.push(url((host * 7 + page) % self.hosts, format!("/p{}", 1 + page * 5 % (self.pages - 1))));
        }
        if page % 11 == 3 {
            links.push(url(host, format!("/missing/{page}")));
        }
        if self.print_views && page % 2 == 1 {
            links.push(url(host, format!("/p{page}?print")));
        }
        let mut seen = HashSet::new();
        links.retain(|link| seen.insert(link.clone()));
        links
    }

    /// The host and number of every page, by URL.
    pub fn expected_pages(self, port: &str) -> BTreeMap<String, (usize, usize)> {
        let pages = (0..self.hosts).flat_map(|host| (0..self.pages).map(move |page| (host, page)));
        pages
            .map(|(host, page)| {
                let path = if page == 0 { "/".into() } else { format!("/p{page}") };
                (format!("http://h{host}.test:{port}{path}"), (host, page))
            })
            .collect()
    }
}

/// How a host behaves.
pub fn kind(host: usize) -> Kind {
    match host % 8 {
        3 => Kind::CrawlDelay,
        5 => Kind::Busy,
        6 => Kind::Slow,
        _ => Kind::Plain,
    }
}
