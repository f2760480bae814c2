//! The cookie jar of a crawl (RFC 6265): cookies by site, within limits. No cookie leaves its site.

mod netscape;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cookie_store::{Cookie, CookieDomain, CookieStore, StoreAction};
use hyper::header::{HeaderMap, HeaderValue, SET_COOKIE};
use url::{Host, Url};

use crate::domain::registrable_host;
use crate::error::Error;

/// Maximum size of a Set-Cookie header. Browsers allow 4 KB for name and value, and 1 KB for each attribute.
const MAX_SET_COOKIE_BYTES: usize = 8 * 1024;

/// Maximum size of a cookie's name and value together.
const MAX_COOKIE_BYTES: usize = 4096;

/// Maximum length of the Domain of a cookie: that of a name in the DNS, with a dot before or after it.
const MAX_DOMAIN_BYTES: usize = 254;

/// Maximum number of cookies of a site, as in browsers.
const MAX_PER_SITE: usize = 180;

/// Maximum size of all cookies. When it is reached, the sites that were not requested for the longest time lose theirs.
const MAX_BYTES: usize = 32 << 20;

/// What a cookie takes beyond its texts.
const COOKIE_OVERHEAD: usize = 400;

/// Maximum size of a Cookie header. Most servers accept no longer ones.
const MAX_HEADER_BYTES: usize = 16 * 1024;

/// The cookies of a crawl, for [`RequestSettings::cookies`](crate::RequestSettings::cookies).
///
/// The crawl stores the cookies that servers set, and sends them back, as in RFC 6265 and with the public suffix list.
/// Clones share their cookies, so you can keep a clone to read them after the crawl:
///
/// ```no_run
/// use crawler::{CookieJar, Crawler, RequestSettings};
///
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let jar = CookieJar::from_netscape(&std::fs::read_to_string("cookies.txt")?)?;
/// jar.add(&"https://example.org/".parse()?, "session=1234")?;
/// let mut requests = RequestSettings::default();
/// requests.cookies = Some(jar.clone());
/// Crawler::new("https://example.org/")?.requests(requests).run_blocking()?;
/// std::fs::write("cookies.txt", jar.to_netscape())?;
/// # Ok(())
/// # }
/// ```
///
/// A jar keeps at most 180 cookies of a site, of 4 KB each, and 32 MB in total.
#[derive(Clone, Default)]
pub struct CookieJar(Arc<Mutex<Sites>>);

#[derive(Default)]
struct Sites {
    /// By registrable domain, or by host for addresses and names of a single label.
    sites: HashMap<String, Site>,
    bytes: usize,
    /// Counts the uses of sites.
    clock: u64,
}

#[derive(Default)]
struct Site {
    store: CookieStore,
    count: usize,
    bytes: usize,
    last_used: u64,
}

impl CookieJar {
    /// Reads a cookie file in the Netscape format, as browser extensions, curl and wget write it.
    pub fn from_netscape(text: &str) -> Result<CookieJar, Error> {
        let jar = CookieJar::default();
        netscape::read(text.trim_start_matches('\u{feff}'), &jar)?;
        Ok(jar)
    }

    /// The cookies in the Netscape format. Cookies that end with the session have the expiry time 0.
    pub fn to_netscape(&self) -> String {
        let sites = self.lock();
        netscape::write(sites.sites.values().flat_map(|site| site.store.iter_unexpired()))
    }

    /// Adds cookies for the host of a URL, in the form of a Cookie header: `a=1; b=2`. If the URL is an https URL, they are
    /// sent over https only.
    pub fn add(&self, url: &Url, cookies: &str) -> Result<(), Error> {
        let secure = if url.scheme() == "https" { "; Secure" } else { "" };
        for (index, cookie) in cookies.split(';').map(str::trim).enumerate() {
            if cookie.is_empty() {
                continue;
            }
            let invalid = |what: &str| {
                Error::InvalidSetting(format!(
                    "cannot send cookie number {}: {what}; use NAME=VALUE",
                    index + 1
                ))
            };
            if !cookie.contains('=') || cookie.starts_with('=') {
                return Err(invalid("it is not of the form NAME=VALUE"));
            }
            if !is_sendable(cookie) {
                return Err(invalid("it contains a character that HTTP forbids"));
            }
            if !self.set(url, &format!("{cookie}; Path=/{secure}")) {
                return Err(invalid("it is too long, or the site has too many cookies"));
            }
        }
        Ok(())
    }

    /// Stores the cookies of a response. Returns whether one of them is new.
    pub(crate) fn store(&self, url: &Url, headers: &HeaderMap) -> bool {
        let values = headers.get_all(SET_COOKIE).into_iter();
        let stored = self.set_all(url, values.filter_map(|value| std::str::from_utf8(value.as_bytes()).ok()));
        stored.contains(&StoreAction::Inserted)
    }

    /// The Cookie header of a request.
    pub(crate) fn header(&self, url: &Url) -> Option<HeaderValue> {
        let mut sites = self.lock();
        sites.clock += 1;
        let clock = sites.clock;
        let site = sites.sites.get_mut(registrable_host(url))?;
        site.last_used = clock;
        let mut cookies = site.store.matches(url);
        // The order of RFC 6265; by name within a path, because the jar does not know which is older.
        cookies.sort_by(|a, b| b.path.len().cmp(&a.path.len()).then_with(|| a.name().cmp(b.name())));
        let mut header = String::new();
        for cookie in cookies {
            let (name, value) = cookie.name_value();
            let separator = if header.is_empty() { "" } else { "; " };
            if header.len() + separator.len() + name.len() + 1 + value.len() > MAX_HEADER_BYTES {
                break;
            }
            header.extend([separator, name, "=", value]);
        }
        if header.is_empty() {
            return None;
        }
        let mut header = HeaderValue::try_from(header).ok()?;
        header.set_sensitive(true);
        Some(header)
    }

    /// Stores one cookie in the form of a Set-Cookie header. Returns false if it is refused.
    fn set(&self, url: &Url, line: &str) -> bool {
        !self.set_all(url, [line].into_iter()).is_empty()
    }

    /// Stores cookies in the form of Set-Cookie headers, and returns what became of those that were not refused.
    fn set_all<'a>(&self, url: &Url, lines: impl Iterator<Item = &'a str>) -> Vec<StoreAction> {
        let cookies: Vec<Cookie<'static>> = lines.filter_map(|line| acceptable_cookie(url, line)).collect();
        if cookies.is_empty() {
            return Vec::new();
        }
        let mut sites = self.lock();
        sites.clock += 1;
        let (clock, key) = (sites.clock, registrable_host(url));
        let site = sites.sites.entry(key.to_owned()).or_default();
        let before = site.bytes;
        if site.count >= MAX_PER_SITE {
            site.tidy();
        }
        let stored = cookies.into_iter().filter_map(|cookie| site.insert(cookie, url)).collect();
        site.last_used = clock;
        site.tidy();
        let (after, is_empty) = (site.bytes, site.count == 0);
        sites.bytes = sites.bytes + after - before;
        if is_empty {
            sites.sites.remove(key);
        }
        sites.evict();
        stored
    }

    fn lock(&self) -> MutexGuard<'_, Sites> {
        // No code here panics while it has the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for CookieJar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values may be secret.
        let sites = self.lock();
        f.debug_struct("CookieJar").field("sites", &sites.sites.len()).finish_non_exhaustive()
    }
}

/// The cookies of several files in the Netscape format. Those that a jar cannot take are left out.
pub fn merge_netscape(files: &[String]) -> CookieJar {
    let jar = CookieJar::default();
    files.iter().for_each(|text| netscape::merge(text, &jar));
    jar
}

/// The cookie in a Set-Cookie header that the host of the URL may set.
fn acceptable_cookie(url: &Url, line: &str) -> Option<Cookie<'static>> {
    if line.len() > MAX_SET_COOKIE_BYTES || !has_plain_domain(line) {
        return None;
    }
    let cookie = Cookie::parse(line, url).ok()?.into_owned();
    let (name, value) = cookie.name_value();
    let is_clean = [name, value, &*cookie.path].into_iter().all(is_sendable);
    if name.len() + value.len() > MAX_COOKIE_BYTES || !is_clean {
        return None;
    }
    // RFC 6265bis: what https protects cannot be set over http.
    if cookie.secure() == Some(true) && !is_secure(url) {
        return None;
    }
    match &cookie.domain {
        // A public suffix is above the registrable domain.
        CookieDomain::Suffix(domain) => is_within(domain, registrable_host(url)).then_some(cookie),
        CookieDomain::HostOnly(_) => Some(cookie),
        CookieDomain::NotPresent | CookieDomain::Empty => None,
    }
}

/// Whether the Domain attribute of a Set-Cookie header is short and ASCII, if there is one. The time to convert an international
/// name grows with the square of its length.
fn has_plain_domain(line: &str) -> bool {
    let attributes = line.split(';').skip(1).filter_map(|attribute| attribute.split_once('='));
    let mut domains = attributes.filter(|(name, _)| name.trim().eq_ignore_ascii_case("domain"));
    domains.all(|(_, domain)| domain.trim().len() <= MAX_DOMAIN_BYTES && domain.is_ascii())
}

/// Whether a text can be part of a header.
fn is_sendable(text: &str) -> bool {
    !text.bytes().any(|byte| byte.is_ascii_control())
}

/// Whether a domain is the site, or a name below it.
fn is_within(domain: &str, site: &str) -> bool {
    let above = domain.strip_suffix(site);
    above.is_some_and(|above| above.is_empty() || above.ends_with('.'))
}

/// Whether the requests for a URL are encrypted, or stay on this machine.
fn is_secure(url: &Url) -> bool {
    url.scheme() == "https"
        || match url.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        }
}

/// Domain, path and name, which identify a cookie.
fn key(cookie: &Cookie<'_>) -> (String, String, String) {
    (String::from(&cookie.domain), String::from(&cookie.path), cookie.name().to_owned())
}

impl Site {
    /// Stores a cookie, or removes the one that it replaces if it has expired. `None` if it is refused.
    fn insert(&mut self, cookie: Cookie<'static>, url: &Url) -> Option<StoreAction> {
        let (domain, path, name) = key(&cookie);
        match self.store.get_any(&domain, &path, &name) {
            Some(old) if old.secure() == Some(true) && !is_secure(url) => return None,
            None if self.count >= MAX_PER_SITE => return None,
            _ => {}
        }
        let stored = self.store.insert(cookie, url).ok()?;
        self.count += usize::from(stored == StoreAction::Inserted);
        Some(stored)
    }

    /// Removes expired cookies and counts the others.
    fn tidy(&mut self) {
        let expired: Vec<_> = self.store.iter_any().filter(|cookie| cookie.is_expired()).map(key).collect();
        for (domain, path, name) in expired {
            self.store.remove(&domain, &path, &name);
        }
        (self.count, self.bytes) = (0, 0);
        for cookie in self.store.iter_any() {
            let (domain, path, name) = key(cookie);
            self.count += 1;
            self.bytes += domain.len() + path.len() + name.len() + cookie.value().len() + COOKIE_OVERHEAD;
        }
    }
}

impl Sites {
    /// Removes the sites that were not used for the longest time, if there are too many cookies.
    fn evict(&mut self) {
        if self.bytes <= MAX_BYTES {
            return;
        }
        let mut uses: Vec<(u64, String)> =
            self.sites.iter().map(|(name, site)| (site.last_used, name.clone())).collect();
        uses.sort_unstable();
        // An eighth at a time, so that this is rare.
        for (_, name) in uses {
            if self.bytes <= MAX_BYTES / 8 * 7 {
                break;
            }
            if let Some(site) = self.sites.remove(&name) {
                self.bytes -= site.bytes;
            }
        }
    }
}

#[cfg(test)]
mod tests;
