//! Which proxy the requests to a host go through, from settings or from the usual environment variables.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine as _;
use hyper::header::HeaderValue;
use url::Url;

use crate::error::Error;
use crate::origin::Origin;

/// The longest user name and password of SOCKS5 (RFC 1929).
const MAX_SOCKS_CREDENTIAL: usize = 255;

/// The proxies that requests go through; none by default.
///
/// A proxy is a URL with the scheme `http`, `https`, `socks5` or `socks5h`, and a user name and password if the proxy
/// requires them. With `socks5`, the crawler resolves the names of hosts; with the others, the proxy does. In that
/// case, only addresses that URLs contain are checked for private ones.
///
/// ```
/// use crawler::Proxies;
///
/// let proxies = Proxies::new("socks5h://me:secret@127.0.0.1:1080")?.except("intranet.example, 10.0.0.0/8");
/// assert!(!format!("{proxies:?}").contains("secret"));
/// # Ok::<(), crawler::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Proxies {
    http: Option<Arc<ProxyServer>>,
    https: Option<Arc<ProxyServer>>,
    direct: Vec<DirectRule>,
}

/// One proxy.
pub(crate) struct ProxyServer {
    pub(crate) kind: ProxyKind,
    /// The host as in a URL: a name, an IPv4 address, or an IPv6 address in brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) credentials: Option<Credentials>,
    /// Whether it has forwarded a request or opened a connection: it accepts the credentials.
    accepted: AtomicBool,
}

/// A user name and a password, decoded.
pub(crate) struct Credentials {
    pub(crate) user: Vec<u8>,
    pub(crate) password: Vec<u8>,
}

/// How a proxy is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProxyKind {
    Http,
    /// HTTP over TLS.
    Https,
    /// SOCKS5. The crawler resolves names.
    Socks5,
    /// SOCKS5. The proxy resolves names.
    Socks5h,
}

/// Hosts that are connected to directly.
#[derive(Debug, Clone, PartialEq, Eq)]
enum DirectRule {
    All,
    /// Addresses that have the first bits in common with this one.
    Network(IpAddr, u8),
    /// A name and all names below it, with one port or all.
    Name(String, Option<u16>),
}

impl Proxies {
    /// All requests go through this proxy.
    pub fn new(url: &str) -> Result<Proxies, Error> {
        let server = Arc::new(ProxyServer::parse(url).map_err(Error::InvalidSetting)?);
        Ok(Proxies { http: Some(Arc::clone(&server)), https: Some(server), direct: Vec::new() })
    }

    /// The proxies in the variables `http_proxy`, `https_proxy`, `all_proxy` and `no_proxy`. If one is not set, its name in
    /// upper case is used; not `HTTP_PROXY` in a CGI program, where a client can set it. Invalid values are errors.
    ///
    /// ```
    /// use crawler::{Crawler, Proxies, RequestSettings};
    ///
    /// let mut requests = RequestSettings::default();
    /// requests.proxies = Proxies::from_environment()?.except("intranet.example.org");
    /// let crawler = Crawler::new("https://example.org/")?.requests(requests);
    /// # Ok::<(), crawler::Error>(())
    /// ```
    pub fn from_environment() -> Result<Proxies, Error> {
        Proxies::from_variables(|name| env::var_os(name)).map_err(Error::InvalidSetting)
    }

    /// Hosts that are connected to directly: names with all names below them, addresses, networks such as `10.0.0.0/8`,
    /// or `*` for all, separated by commas or spaces. This is the format of `NO_PROXY`.
    pub fn except(mut self, hosts: &str) -> Proxies {
        let entries = hosts.split([',', ' ', '\t']).filter(|entry| !entry.is_empty());
        self.direct.extend(entries.filter_map(DirectRule::parse));
        self
    }

    fn from_variables(get: impl Fn(&str) -> Option<OsString>) -> Result<Proxies, String> {
        let is_cgi = get("REQUEST_METHOD").is_some();
        let value = |name: &str| {
            let upper = name.to_uppercase();
            let upper = Some(upper).filter(|upper| !(is_cgi && upper == "HTTP_PROXY"));
            let mut names = [Some(name.to_owned()), upper].into_iter().flatten();
            names.find_map(|name| Some((name.clone(), get(&name).filter(|value| !value.is_empty())?)))
        };
        let server = |name: &str| {
            let Some((variable, value)) = value(name) else { return Ok(None) };
            let server = value.to_str().ok_or_else(|| "it is not UTF-8".to_owned());
            let server = server.and_then(ProxyServer::parse);
            server.map(|server| Some(Arc::new(server))).map_err(|error| format!("{variable}: {error}"))
        };
        let all = server("all_proxy")?;
        let proxies = Proxies {
            http: server("http_proxy")?.or_else(|| all.clone()),
            https: server("https_proxy")?.or(all),
            direct: Vec::new(),
        };
        Ok(match value("no_proxy") {
            Some((_, hosts)) => proxies.except(&hosts.to_string_lossy()),
            None => proxies,
        })
    }

    /// The proxy for an origin; `None` if it is connected to directly.
    pub(crate) fn server_for(&self, origin: &Origin) -> Option<&Arc<ProxyServer>> {
        let server = if origin.https { &self.https } else { &self.http };
        let server = server.as_ref()?;
        let is_direct = self.direct.iter().any(|rule| rule.matches(origin));
        (!is_direct).then_some(server)
    }
}

impl fmt::Debug for Proxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |server: &Option<Arc<ProxyServer>>| server.as_ref().map(|server| server.to_string());
        f.debug_struct("Proxies")
            .field("http", &name(&self.http))
            .field("https", &name(&self.https))
            .field("direct", &self.direct)
            .finish()
    }
}

impl ProxyServer {
    /// Parses the URL of a proxy. Without a scheme it is an HTTP proxy. The message does not contain the password.
    fn parse(text: &str) -> Result<ProxyServer, String> {
        // What precedes the last @ may be a password, and so may a port that is none.
        let shown = match text.rsplit_once('@') {
            Some((_, host)) => host,
            None => {
                let host = text.find("://").map_or(0, |end| end + 3);
                &text[..text[host..].find(':').map_or(text.len(), |colon| host + colon)]
            }
        };
        let invalid = |cause: &str| {
            format!(
                "cannot use the proxy '{shown}': {cause}; give http://, https://, socks5:// or socks5h://HOST:PORT"
            )
        };
        let with_scheme = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let url = Url::parse(&with_scheme).map_err(|error| invalid(&error.to_string()))?;
        let (kind, default_port) = match url.scheme() {
            "http" => (ProxyKind::Http, 80),
            "https" => (ProxyKind::Https, 443),
            "socks5" => (ProxyKind::Socks5, 1080),
            "socks5h" => (ProxyKind::Socks5h, 1080),
            _ => return Err(invalid("its scheme is not supported")),
        };
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or_else(|| invalid("it has no host"))?;
        if !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some() {
            return Err(invalid("it has a path"));
        }
        let decode = |text: &str| percent_encoding::percent_decode_str(text).collect::<Vec<u8>>();
        let credentials = (!url.username().is_empty() || url.password().is_some()).then(|| Credentials {
            user: decode(url.username()),
            password: decode(url.password().unwrap_or_default()),
        });
        if let (ProxyKind::Socks5 | ProxyKind::Socks5h, Some(Credentials { user, password })) =
            (kind, &credentials)
            && [user, password].iter().any(|part| part.len() > MAX_SOCKS_CREDENTIAL)
        {
            return Err(invalid("its user name or password is too long"));
        }
        let host = host.to_ascii_lowercase();
        let port = url.port().unwrap_or(default_port);
        Ok(ProxyServer { kind, host, port, credentials, accepted: AtomicBool::new(false) })
    }

    /// The proxy has let a request through.
    pub(crate) fn set_accepted(&self) {
        self.accepted.store(true, Ordering::Relaxed);
    }

    /// Whether the proxy has let a request through. If so, status 407 of a forwarded request is that of the server.
    pub(crate) fn has_accepted(&self) -> bool {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Whether the proxy resolves the names of hosts.
    pub(crate) fn resolves_names(&self) -> bool {
        self.kind != ProxyKind::Socks5
    }

    /// Whether requests to an http origin are sent to the proxy itself, which forwards them.
    pub(crate) fn forwards(&self, origin: &Origin) -> bool {
        matches!(self.kind, ProxyKind::Http | ProxyKind::Https) && !origin.https
    }

    /// The value of the Proxy-Authorization header.
    pub(crate) fn authorization(&self) -> Option<HeaderValue> {
        let Credentials { user, password } = self.credentials.as_ref()?;
        let pair = [&user[..], b":", password].concat();
        let encoded = base64::engine::general_purpose::STANDARD.encode(pair);
        let mut value = HeaderValue::try_from(format!("Basic {encoded}")).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

/// The URL without user name and password.
impl fmt::Display for ProxyServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.kind {
            ProxyKind::Http => "http",
            ProxyKind::Https => "https",
            ProxyKind::Socks5 => "socks5",
            ProxyKind::Socks5h => "socks5h",
        };
        write!(f, "{scheme}://{}:{}", self.host, self.port)
    }
}

impl DirectRule {
    /// One entry of `NO_PROXY`. Other programs read the variable too, so an entry that is none is ignored.
    fn parse(entry: &str) -> Option<DirectRule> {
        if entry == "*" {
            return Some(DirectRule::All);
        }
        if let Some((address, bits)) = entry.split_once('/') {
            let (address, bits) = (parse_address(address)?, bits.parse().ok()?);
            return (bits <= width(address)).then_some(DirectRule::Network(address, bits));
        }
        if let Some(address) = parse_address(entry) {
            return Some(DirectRule::Network(address, width(address)));
        }
        let (name, port) = match entry.rsplit_once(':') {
            Some((name, port)) => (name, Some(port.parse().ok()?)),
            None => (entry, None),
        };
        let name = name.strip_prefix('*').unwrap_or(name).trim_matches('.').to_ascii_lowercase();
        (!name.is_empty()).then_some(DirectRule::Name(name, port))
    }

    fn matches(&self, origin: &Origin) -> bool {
        match self {
            DirectRule::All => true,
            DirectRule::Network(network, bits) => parse_address(&origin.host).is_some_and(|address| {
                width(address) == width(*network) && common_bits(address, *network) >= *bits
            }),
            DirectRule::Name(name, port) => {
                let above = origin.host.strip_suffix(name.as_str());
                let is_below = above.is_some_and(|above| above.is_empty() || above.ends_with('.'));
                is_below && port.is_none_or(|port| port == origin.port)
            }
        }
    }
}

/// The address that a host is, if it is one.
pub(crate) fn parse_address(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The number of leading bits that two addresses of one family have in common.
fn common_bits(a: IpAddr, b: IpAddr) -> u8 {
    let zeros = match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        _ => 0,
    };
    u8::try_from(zeros).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(url: &str) -> Origin {
        Origin::from_url(&Url::parse(url).unwrap())
    }

    fn proxies(variables: &[(&str, &str)]) -> Result<Proxies, String> {
        Proxies::from_variables(|name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
        })
    }

    fn server(proxies: &Proxies, url: &str) -> Option<String> {
        proxies.server_for(&origin(url)).map(|server| server.to_string())
    }

    #[test]
    fn proxy_urls_have_the_default_ports_of_their_schemes() {
        for (text, name) in [
            ("http://p.test", "http://p.test:80"),
            ("http://p.test:80/", "http://p.test:80"),
            ("p.test:3128", "http://p.test:3128"),
            ("10.0.0.1:3128", "http://10.0.0.1:3128"),
            ("https://P.test", "https://p.test:443"),
            ("https://p.test:80", "https://p.test:80"),
            ("socks5://127.0.0.1", "socks5://127.0.0.1:1080"),
            ("socks5h://u:p@[::1]:9050", "socks5h://[::1]:9050"),
        ] {
            assert_eq!(ProxyServer::parse(text).map(|server| server.to_string()), Ok(name.to_owned()));
        }
    }

    #[test]
    fn invalid_proxy_is_an_error_without_the_password() {
        let long = format!("socks5://u:hush{}@p.test", "x".repeat(252));
        for text in [
            "ftp://u:hush@p.test",
            "socks4://u:hush@p.test",
            "http://u:hush@",
            "http://u:hush",
            "u:hush",
            "http://u:hush@p.test:99999",
            "http://u:hush@p.test/path",
            "http://u:hu@sh@p.test/path",
            "://",
            "socks5://",
            &long,
        ] {
            let error = ProxyServer::parse(text).err().unwrap();
            assert!(
                error.starts_with("cannot use the proxy '") && error.contains("; give http://"),
                "{error}"
            );
            assert!(!error.contains("hush") && !error.contains("hu@"), "{error}");
        }
    }

    #[test]
    fn credentials_are_decoded_and_not_printed() {
        let proxies = Proxies::new("http://me:p%40ss@p.test").unwrap();
        let server = Arc::clone(proxies.http.as_ref().unwrap());
        assert_eq!(server.authorization().unwrap(), "Basic bWU6cEBzcw==");
        assert!(!format!("{proxies:?} {proxies:#?} {server}").contains("ss"));
        assert_eq!(Proxies::new("http://p.test").unwrap().http.as_ref().unwrap().authorization(), None);
    }

    #[test]
    fn variables_select_a_proxy_for_each_scheme() {
        let all = proxies(&[("ALL_PROXY", "socks5://all.test"), ("https_proxy", "s.test:8080")]).unwrap();
        assert_eq!(server(&all, "http://a.test/").as_deref(), Some("socks5://all.test:1080"));
        assert_eq!(server(&all, "https://a.test/").as_deref(), Some("http://s.test:8080"));
        let lower_first = proxies(&[("HTTP_PROXY", "upper.test"), ("http_proxy", "lower.test")]).unwrap();
        assert_eq!(server(&lower_first, "http://a.test/").as_deref(), Some("http://lower.test:80"));
        assert_eq!(server(&lower_first, "https://a.test/"), None);
        let empty = proxies(&[("http_proxy", ""), ("HTTP_PROXY", "upper.test")]).unwrap();
        assert_eq!(server(&empty, "http://a.test/").as_deref(), Some("http://upper.test:80"));
        let cgi = proxies(&[("HTTP_PROXY", "evil.test"), ("REQUEST_METHOD", "GET")]).unwrap();
        assert_eq!(server(&cgi, "http://a.test/"), None);
        let error = proxies(&[("HTTPS_PROXY", "gopher://me:hush@p.test")]).unwrap_err();
        assert!(error.starts_with("HTTPS_PROXY: cannot use the proxy 'p.test'"), "{error}");
    }

    #[test]
    fn hosts_in_no_proxy_are_connected_to_directly() {
        let list = "intra.test, .dotted.test *.star.test,10.0.0.0/8 fd00::/8,192.168.1.7,port.test:8080,bad/99/x,a/b";
        let some = Proxies::new("http://p.test").unwrap().except(list);
        for direct in [
            "http://intra.test/",
            "https://deep.in.intra.test/",
            "http://dotted.test/",
            "http://x.dotted.test/",
            "http://x.star.test/",
            "http://10.255.0.1/",
            "http://[fd12::1]/",
            "http://192.168.1.7/",
            "http://port.test:8080/",
        ] {
            assert_eq!(server(&some, direct), None, "{direct}");
        }
        for proxied in [
            "http://xintra.test/",
            "http://intra.test.org/",
            "http://11.0.0.1/",
            "http://[fe80::1]/",
            "http://192.168.1.8/",
            "http://port.test/",
        ] {
            assert!(server(&some, proxied).is_some(), "{proxied}");
        }
        assert_eq!(server(&Proxies::new("http://p.test").unwrap().except("*"), "http://a.test/"), None);
        let variable = proxies(&[("http_proxy", "p.test"), ("NO_PROXY", "a.test")]).unwrap();
        assert_eq!(server(&variable, "http://a.test/"), None);
    }
}
