//! Decides which requests are served: the Host and Origin headers, the token, the protection of actions.
//!
//! A web page that the user visits can send requests to loopback. It cannot set the Host header to a name other than its own
//! (DNS rebinding), nor send the headers of an action from another origin, nor read what it was not given.

use std::fmt;
use std::hint::black_box;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use hyper::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, HOST, HeaderMap, HeaderName, ORIGIN};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};
use ring::rand::{SecureRandom as _, SystemRandom};

/// The header that carries the CSRF token of an action.
pub const CSRF_HEADER: HeaderName = HeaderName::from_static("x-csrf-token");

/// The header in which browsers name the relation between the page that sends a request and its target.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The environment variable with the token. Other users can see the arguments of a process, but not this.
pub const TOKEN_VARIABLE: &str = "CRAWLER_DASHBOARD_TOKEN";

/// The bytes of a random secret.
const SECRET_BYTES: usize = 16;

/// The shortest token that a user may choose.
const MIN_TOKEN_CHARS: usize = 16;

/// The longest one: browsers limit the size of a cookie.
const MAX_TOKEN_CHARS: usize = 512;

/// A text that is not printed, and compared in constant time.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Secret {
    /// 128 random bits.
    pub fn random() -> Result<Secret, String> {
        let mut bytes = [0; SECRET_BYTES];
        SystemRandom::new()
            .fill(&mut bytes)
            .map_err(|_| "cannot make a token: the system gives no random numbers".to_owned())?;
        Ok(Secret(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// A token that the user chose.
    pub fn chosen(text: &str) -> Result<Secret, String> {
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        match text {
            _ if !text.bytes().all(is_token) => {
                Err(format!("{TOKEN_VARIABLE} may have letters, digits and -._~ only; choose another token"))
            }
            _ if !(MIN_TOKEN_CHARS..=MAX_TOKEN_CHARS).contains(&text.len()) => Err(format!(
                "{TOKEN_VARIABLE} must have {MIN_TOKEN_CHARS} to {MAX_TOKEN_CHARS} characters; choose another token"
            )),
            _ => Ok(Secret(text.into())),
        }
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Whether a text is this secret. Takes the same time wherever the two differ.
    pub fn is(&self, text: &str) -> bool {
        let (own, other) = (self.0.as_bytes(), text.as_bytes());
        let differences = own.iter().zip(other).fold(0, |all, (own, other)| black_box(all | (own ^ other)));
        differences == 0 && own.len() == other.len()
    }
}

/// Where the server listens, and which requests it serves there.
pub struct Listening {
    /// The address, with the port that the system chose.
    pub address: SocketAddr,
    /// Whether the user chose the port.
    pub has_chosen_port: bool,
    /// Whether the page is served, or only what monitoring reads.
    pub has_page: bool,
    /// Further names under which browsers reach the server.
    pub names: Vec<String>,
    /// The token that requests need.
    pub token: Option<Secret>,
}

/// How sensitive a resource is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protection {
    /// For health checks, which have no token.
    Public,
    /// The page itself, which other pages may link to.
    Page,
    /// What only the page, and programs, may read.
    Data,
    /// What changes the crawl.
    Action,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal(pub StatusCode, pub &'static str);

const BAD_HOST: Refusal = Refusal(
    StatusCode::MISDIRECTED_REQUEST,
    "The crawler is not served under this name. Use its address, or allow the name with --dashboard-host.",
);
const BAD_ORIGIN: Refusal = Refusal(StatusCode::FORBIDDEN, "Requests from other sites are refused.");
const NO_TOKEN: Refusal = Refusal(
    StatusCode::UNAUTHORIZED,
    "A token is needed. Open the address that the crawler printed when it started, with ?token=...",
);
const NO_CSRF: Refusal =
    Refusal(StatusCode::FORBIDDEN, "The header X-CSRF-Token is missing or wrong. Reload the page.");
const NOT_JSON: Refusal =
    Refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, "The content type of an action is application/json.");

impl Listening {
    /// Checks a request, all but its path and body.
    pub fn check(&self, request: &Parts, protection: Protection, csrf: &Secret) -> Result<(), Refusal> {
        let headers = &request.headers;
        // Another site does not know the token, whatever the name under which it reaches the server.
        let has_bearer =
            self.token.as_ref().is_some_and(|token| bearer(headers).is_some_and(|it| token.is(it)));
        let host = match single(headers, &HOST) {
            Some(host) => host,
            // Health checks of HTTP/1.0, such as HAProxy's, send none. No browser does so.
            None if protection == Protection::Public && !headers.contains_key(HOST) => "",
            None => return Err(BAD_HOST),
        };
        let is_absolute = request.uri.authority().is_some();
        // What health checks get is no secret, and their programs may use any name.
        let is_any_host = has_bearer || protection == Protection::Public;
        if !is_any_host && (is_absolute || !self.is_own_host(host)) {
            return Err(BAD_HOST);
        }
        let is_link = protection == Protection::Page && request.method == Method::GET;
        if !is_link && !self.is_same_origin(headers, host) {
            return Err(BAD_ORIGIN);
        }
        if protection != Protection::Public && !has_bearer && !self.has_token_cookie(headers) {
            return Err(NO_TOKEN);
        }
        if protection == Protection::Action {
            if !single(headers, &CSRF_HEADER).is_some_and(|token| csrf.is(token)) {
                return Err(NO_CSRF);
            }
            if !single(headers, &CONTENT_TYPE).is_some_and(is_json) {
                return Err(NOT_JSON);
            }
        }
        Ok(())
    }

    /// Whether the Host header is the server's own. The port does not matter: it may be forwarded from another one.
    fn is_own_host(&self, host: &str) -> bool {
        let name = without_port(host);
        if name.eq_ignore_ascii_case("localhost") || self.is_own_name(name) {
            return true;
        }
        match ip_address(name) {
            None => false,
            Some(address) if self.address.ip().is_loopback() => address.is_loopback(),
            // DNS rebinding needs a name. A page whose origin is an address was served from there.
            Some(_) => true,
        }
    }

    /// Whether a request comes from a page of this server, or from no page. A proxy in front of the server may have replaced the
    /// Host header: then the page is one of the server's other names.
    fn is_same_origin(&self, headers: &HeaderMap, host: &str) -> bool {
        let is_own = |origin: &str| {
            let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
            authority.is_some_and(|authority| {
                authority.eq_ignore_ascii_case(host) || self.is_own_name(without_port(authority))
            })
        };
        let has_own_origin = match headers.contains_key(ORIGIN) {
            true => single(headers, &ORIGIN).is_some_and(is_own),
            false => true,
        };
        let has_own_site = match headers.contains_key(FETCH_SITE) {
            true => matches!(single(headers, &FETCH_SITE), Some("same-origin" | "none")),
            false => true,
        };
        has_own_origin && has_own_site
    }

    fn is_own_name(&self, name: &str) -> bool {
        self.names.iter().any(|own| own.eq_ignore_ascii_case(name))
    }

    fn has_token_cookie(&self, headers: &HeaderMap) -> bool {
        let Some(token) = &self.token else { return true };
        let name = self.cookie_name();
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let pairs =
            cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.filter(|(given, _)| *given == name).any(|(_, value)| token.is(value))
    }

    /// The cookie that sets the token in a browser, if this query has it.
    pub fn token_cookie(&self, query: Option<&str>) -> Option<String> {
        let token = self.token.as_ref()?;
        let given = url::form_urlencoded::parse(query?.as_bytes()).find(|(name, _)| name == "token")?.1;
        let name = self.cookie_name();
        token.is(&given).then(|| format!("{name}={}; Path=/; HttpOnly; SameSite=Strict", token.text()))
    }

    /// Browsers send the cookies of a host to all its ports.
    fn cookie_name(&self) -> String {
        format!("crawler-token-{}", self.address.port())
    }
}

/// The only value of a header.
fn single<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = single(headers, &AUTHORIZATION)?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn is_json(content_type: &str) -> bool {
    content_type
        .split(';')
        .next()
        .is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json"))
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    }
}

fn ip_address(name: &str) -> Option<IpAddr> {
    match name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
        Some(address) => address.parse::<Ipv6Addr>().ok().map(IpAddr::from),
        None => name.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    fn listening(address: &str, token: Option<&str>) -> Listening {
        Listening {
            address: address.parse().unwrap(),
            has_chosen_port: true,
            has_page: true,
            names: vec!["crawler.example".into()],
            token: token.map(|token| Secret(token.into())),
        }
    }

    fn check(listening: &Listening, protection: Protection, headers: &[(&str, &str)]) -> Result<(), u16> {
        let method = if protection == Protection::Action { "POST" } else { "GET" };
        let request =
            headers.iter().fold(Request::builder().method(method).uri("/x"), |request, (name, value)| {
                request.header(*name, *value)
            });
        let (parts, ()) = request.body(()).unwrap().into_parts();
        listening.check(&parts, protection, &Secret("csrf".into())).map_err(|refusal| refusal.0.as_u16())
    }

    #[test]
    fn only_own_names_are_served() {
        let local = listening("127.0.0.1:8080", None);
        for host in
            ["127.0.0.1:8080", "localhost:9000", "LOCALHOST", "[::1]:8080", "127.0.0.1", "Crawler.Example:1"]
        {
            assert_eq!(check(&local, Protection::Data, &[("host", host)]), Ok(()), "{host}");
        }
        for host in [
            "evil.test",
            "127.0.0.1.evil.test:8080",
            "192.168.0.1:8080",
            "",
            "localhost.evil.test",
            "[::1].x",
            ":80",
        ] {
            assert_eq!(check(&local, Protection::Page, &[("host", host)]), Err(421), "{host}");
        }
        assert_eq!(check(&local, Protection::Data, &[]), Err(421));
        assert_eq!(
            check(&local, Protection::Data, &[("host", "localhost"), ("host", "evil.test")]),
            Err(421)
        );
        let open = listening("0.0.0.0:8080", Some("0123456789abcdef"));
        let cookie = ("cookie", "a=b; crawler-token-8080=0123456789abcdef");
        assert_eq!(check(&open, Protection::Data, &[("host", "10.1.2.3:80"), cookie]), Ok(()));
        assert_eq!(check(&open, Protection::Data, &[("host", "evil.test"), cookie]), Err(421));
        // A program that has the token may use any name.
        let bearer = ("authorization", "Bearer 0123456789abcdef");
        assert_eq!(check(&open, Protection::Data, &[("host", "crawler:8080"), bearer]), Ok(()));
    }

    #[test]
    fn requests_of_other_sites_are_refused() {
        let local = listening("127.0.0.1:8080", None);
        let host = ("host", "localhost:8080");
        let is_allowed = |header| check(&local, Protection::Data, &[host, header]).is_ok();
        assert!(
            is_allowed(("origin", "http://localhost:8080")) && is_allowed(("sec-fetch-site", "same-origin"))
        );
        assert!(is_allowed(("sec-fetch-site", "none")) && is_allowed(("origin", "https://localhost:8080")));
        assert!(is_allowed(("origin", "https://crawler.example")), "a proxy that replaces the Host header");
        for origin in [
            "http://evil.test",
            "https://crawler.example.evil.test",
            "null",
            "http://localhost:8081",
            "http://localhost",
            "localhost:8080",
        ] {
            assert!(!is_allowed(("origin", origin)), "{origin}");
        }
        assert!(
            !is_allowed(("sec-fetch-site", "cross-site")) && !is_allowed(("sec-fetch-site", "same-site"))
        );
        assert_eq!(
            check(&local, Protection::Page, &[host, ("sec-fetch-site", "cross-site")]),
            Ok(()),
            "a link"
        );
    }

    #[test]
    fn actions_need_the_csrf_token_and_json() {
        let local = listening("[::1]:8080", None);
        let with = |headers: &[(&str, &str)]| {
            check(&local, Protection::Action, &[&[("host", "[::1]:8080")], headers].concat())
        };
        let json = ("content-type", "application/json; charset=utf-8");
        assert_eq!(with(&[("x-csrf-token", "csrf"), json]), Ok(()));
        assert_eq!(with(&[json]), Err(403));
        assert_eq!(with(&[("x-csrf-token", "csrg"), json]), Err(403));
        assert_eq!(with(&[("x-csrf-token", "csrf"), ("content-type", "text/plain")]), Err(415));
        assert_eq!(with(&[("x-csrf-token", "csrf")]), Err(415));
        assert_eq!(with(&[("x-csrf-token", "csrf"), json, ("origin", "http://evil.test")]), Err(403));
    }

    #[test]
    fn token_is_needed_except_for_health_checks() {
        let open = listening("10.0.0.1:80", Some("0123456789abcdef"));
        let host = ("host", "10.0.0.1");
        for host in [host, ("host", "worker:80")] {
            assert_eq!(check(&open, Protection::Public, &[host]), Ok(()));
        }
        assert_eq!(check(&open, Protection::Public, &[]), Ok(()), "HTTP/1.0 has no Host header");
        assert_eq!(check(&open, Protection::Page, &[]), Err(421));
        assert_eq!(check(&open, Protection::Public, &[("host", "a"), ("host", "b")]), Err(421));
        for protection in [Protection::Page, Protection::Data, Protection::Action] {
            assert_eq!(check(&open, protection, &[host]), Err(401), "{protection:?}");
            let wrong = ("cookie", "crawler-token-80=0123456789abcdeg");
            assert_eq!(check(&open, protection, &[host, wrong]), Err(401), "{protection:?}");
        }
        assert_eq!(open.token_cookie(Some("token=0123456789abcde")), None);
        assert_eq!(open.token_cookie(None), None);
        let cookie = open.token_cookie(Some("token=0123456789abcdef")).unwrap();
        assert_eq!(cookie, "crawler-token-80=0123456789abcdef; Path=/; HttpOnly; SameSite=Strict");
    }

    #[test]
    fn secrets_are_random_compared_whole_and_not_printed() {
        let secret = Secret::random().unwrap();
        assert_eq!(secret.text().len(), 2 * SECRET_BYTES);
        assert_ne!(secret, Secret::random().unwrap());
        assert!(secret.is(secret.text()) && !secret.is(&secret.text()[1..]) && !secret.is(""));
        assert!(!secret.is(&format!("{}0", secret.text())));
        assert!(!format!("{secret:?}").contains(secret.text()));
        assert!(Secret::chosen("too short").is_err() && Secret::chosen("with space 123456").is_err());
        assert!(Secret::chosen("a+token+of+16+++").is_err(), "a plus is a space in a query");
        assert!(Secret::chosen("a-token_of~16...").is_ok());
    }
}
