//! The headers of a request: those of every request, and those that only the hosts of the seeds get.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use base64::Engine as _;
use hyper::Request;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use url::Url;

use super::decode;
use crate::config::FetchConfig;
use crate::error::Error;
use crate::origin::Origin;
use crate::request_settings::Authentication;
use crate::seed_list::SeedIndex;

/// The headers that requests start with. What is secret goes to its own origins only.
#[derive(Clone)]
pub(super) struct RequestHeaders {
    /// The headers of every request.
    common: HeaderMap,
    /// The headers of requests to `seed_hosts`: the common ones and those that the user gave.
    for_seeds: HeaderMap,
    /// The origins of the seeds' hosts; empty if they get no other headers than all hosts.
    seed_hosts: HashSet<Origin>,
    /// The listed seeds, unless their hosts get no other headers than all hosts.
    listed_hosts: Option<Arc<SeedIndex>>,
    /// Authorization headers, each for its origin only.
    authorization: HashMap<Origin, HeaderValue>,
    /// The Authorization header for the origins of the listed seeds.
    listed_authorization: Option<(Arc<SeedIndex>, HeaderValue)>,
    /// Another header, for its origin only.
    secret: Option<(Origin, HeaderName, HeaderValue)>,
}

impl RequestHeaders {
    pub(super) fn new(config: &FetchConfig, seeds: &[Url]) -> Result<RequestHeaders, Error> {
        let mut common = HeaderMap::new();
        common.insert(header::USER_AGENT, user_agent(&config.user_agent)?);
        common.insert(header::ACCEPT, accept(config)?);
        common.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(decode::ACCEPTED));
        let mut for_seeds = common.clone();
        for (name, _) in &config.headers {
            for_seeds.remove(name);
        }
        for_seeds.extend(config.headers.iter().cloned());
        let requests = &config.requests;
        if requests.headers_everywhere {
            common.clone_from(&for_seeds);
        }
        let seed_hosts = match seeds_have_headers(config) {
            true => seeds.iter().map(Origin::from_url).flat_map(with_https).collect(),
            false => HashSet::new(),
        };
        let mut authorization = HashMap::new();
        // If several seeds have credentials for one origin, the first seed's are used.
        for seed in seeds {
            if let Some(value) = credentials_of(seed) {
                authorization.entry(Origin::from_url(seed)).or_insert(value);
            }
        }
        if let Some(authentication) = &requests.authentication {
            let value = authentication.header()?;
            for seed in seeds {
                authorization.entry(Origin::from_url(seed)).or_insert_with(|| value.clone());
            }
        }
        let (listed_hosts, listed_authorization, secret) = (None, None, None);
        let headers = RequestHeaders {
            common,
            for_seeds,
            seed_hosts,
            listed_hosts,
            authorization,
            listed_authorization,
            secret,
        };
        Ok(headers.with_seed_index(config, config.seed_index.clone()))
    }

    /// The same headers, where these are the listed seeds. The configuration was checked before.
    pub(super) fn with_seed_index(
        self,
        config: &FetchConfig,
        index: Option<Arc<SeedIndex>>,
    ) -> RequestHeaders {
        let authentication = config.requests.authentication.as_ref();
        let value = authentication.and_then(|authentication| authentication.header().ok());
        RequestHeaders {
            listed_hosts: index.clone().filter(|_| seeds_have_headers(config)),
            listed_authorization: index.zip(value),
            ..self
        }
    }

    /// Sends one more header to the origin of `url` only.
    pub(super) fn with_secret(self, url: &Url, name: HeaderName, value: HeaderValue) -> RequestHeaders {
        RequestHeaders { secret: Some((Origin::from_url(url), name, value)), ..self }
    }

    /// Adds the headers of a request to an origin. `more` is the number of headers that the caller adds.
    pub(super) fn add_to(&self, headers: &mut HeaderMap, origin: &Origin, more: usize) {
        let own = if self.is_seed_host(origin) { &self.for_seeds } else { &self.common };
        headers.reserve(own.len() + more);
        headers.extend(own.iter().map(|(name, value)| (name.clone(), value.clone())));
        if let Some(value) = self.authorization_for(origin) {
            headers.insert(header::AUTHORIZATION, value.clone());
        }
        if let Some((_, name, value)) =
            self.secret.as_ref().filter(|(secret_origin, ..)| secret_origin == origin)
        {
            headers.insert(name, value.clone());
        }
    }

    /// Accepts any content, unless the user set the header.
    pub(super) fn accept_any<B>(&self, request: &mut Request<B>) {
        if request.headers().get(header::ACCEPT) == self.common.get(header::ACCEPT) {
            request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static("*/*"));
        }
    }

    fn is_seed_host(&self, origin: &Origin) -> bool {
        let is_listed = |seeds: &Arc<SeedIndex>| {
            seeds.contains_origin(origin)
                || without_https(origin).is_some_and(|http| seeds.contains_origin(&http))
        };
        self.seed_hosts.contains(origin) || self.listed_hosts.as_ref().is_some_and(is_listed)
    }

    fn authorization_for(&self, origin: &Origin) -> Option<&HeaderValue> {
        let listed = || {
            let (seeds, value) = self.listed_authorization.as_ref()?;
            seeds.contains_origin(origin).then_some(value)
        };
        self.authorization.get(origin).or_else(listed)
    }
}

/// Whether the hosts of the seeds get other headers than all hosts.
fn seeds_have_headers(config: &FetchConfig) -> bool {
    !config.headers.is_empty() && !config.requests.headers_everywhere
}

/// The Accept header: pages first, then the types that the crawl keeps as well.
fn accept(config: &FetchConfig) -> Result<HeaderValue, Error> {
    let mut types = String::from("text/html,application/xhtml+xml,text/plain;q=0.9");
    for accepted in config.accepted_types()?.names().filter(|accepted| accepted != "*/*") {
        types += &format!(",{accepted};q=0.8");
    }
    types += ",*/*;q=0.5";
    HeaderValue::from_str(&types)
        .map_err(|_| Error::InvalidSetting("cannot send the accepted media types in a header".into()))
}

fn user_agent(text: &str) -> Result<HeaderValue, Error> {
    HeaderValue::from_str(text).map_err(|_| {
        Error::InvalidSetting(format!(
            "cannot send user agent {text:?}: it is not printable ASCII; remove other characters"
        ))
    })
}

/// The origin, and https of the same host: many sites redirect there. Never http of a host that was given with https.
fn with_https(origin: Origin) -> impl Iterator<Item = Origin> {
    let secure =
        (!origin.https && origin.port == 80).then(|| Origin { https: true, port: 443, ..origin.clone() });
    [origin].into_iter().chain(secure)
}

/// The origin for which [`with_https`] adds this one.
fn without_https(origin: &Origin) -> Option<Origin> {
    (origin.https && origin.port == 443).then(|| Origin { https: false, port: 80, ..origin.clone() })
}

/// The Authorization header for the credentials in a URL, if it has any.
fn credentials_of(seed: &Url) -> Option<HeaderValue> {
    if seed.username().is_empty() && seed.password().is_none() {
        return None;
    }
    let decode = |text: &str| percent_encoding::percent_decode_str(text).collect::<Vec<u8>>();
    basic(&decode(seed.username()), &decode(seed.password().unwrap_or("")))
}

/// The Authorization header for Basic authentication.
fn basic(user: &[u8], password: &[u8]) -> Option<HeaderValue> {
    let encoded = base64::engine::general_purpose::STANDARD.encode([user, b":", password].concat());
    secret_value(&format!("Basic {encoded}"))
}

fn secret_value(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

impl Authentication {
    /// The Authorization header. The error does not contain the secret.
    pub(crate) fn header(&self) -> Result<HeaderValue, Error> {
        let invalid = |text: &str| Error::InvalidSetting(format!("cannot authenticate: {text}"));
        match self {
            Authentication::Basic { user, .. } if user.contains(':') => {
                Err(invalid("the user name contains a colon; use another one"))
            }
            Authentication::Basic { user, password } => {
                basic(user.as_bytes(), password.as_bytes()).ok_or_else(|| invalid("the password is too long"))
            }
            Authentication::Bearer(token) => {
                let is_token = !token.is_empty() && token.bytes().all(|byte| matches!(byte, b'!'..=b'~'));
                let value = is_token.then(|| secret_value(&format!("Bearer {token}"))).flatten();
                value.ok_or_else(|| {
                    invalid("the bearer token is empty, or not printable ASCII without spaces")
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(config: &FetchConfig, seeds: &[&str], to: &str) -> HeaderMap {
        let seeds: Vec<Url> = seeds.iter().map(|seed| Url::parse(seed).unwrap()).collect();
        let mut headers = HeaderMap::new();
        let origin = Origin::from_url(&Url::parse(to).unwrap());
        RequestHeaders::new(config, &seeds).unwrap().add_to(&mut headers, &origin, 0);
        headers
    }

    #[test]
    fn given_headers_replace_common_ones_and_can_repeat() {
        let headers = [("accept", "a/b"), ("x-a", "1"), ("x-a", "2")];
        let headers = headers.map(|(name, value)| crate::config::header(name, value).unwrap()).to_vec();
        let mut config = FetchConfig { headers, ..FetchConfig::default() };
        let own = sent(&config, &["http://a.test/"], "http://a.test/x");
        assert_eq!(own.get_all("accept").iter().collect::<Vec<_>>(), ["a/b"]);
        assert_eq!(own.get_all("x-a").iter().collect::<Vec<_>>(), ["1", "2"]);
        assert!(sent(&config, &["http://a.test/"], "https://a.test/").contains_key("x-a"));
        for other in ["http://b.test/", "http://a.test:8080/", "http://www.a.test/"] {
            assert!(!sent(&config, &["http://a.test/"], other).contains_key("x-a"), "{other}");
        }
        assert!(!sent(&config, &["https://a.test/"], "http://a.test/").contains_key("x-a"));
        config.requests.headers_everywhere = true;
        assert!(sent(&config, &["http://a.test/"], "http://b.test/").contains_key("x-a"));
    }

    #[test]
    fn listed_seeds_get_what_other_seeds_get() {
        let headers = [("accept", "a/b"), ("x-a", "1"), ("x-a", "2")];
        let headers = headers.map(|(name, value)| crate::config::header(name, value).unwrap()).to_vec();
        let seed_index = SeedIndex::from_urls(&["http://a.test/", "https://b.test/"]);
        let mut config = FetchConfig { headers, seed_index: Some(seed_index), ..FetchConfig::default() };
        config.requests.authentication = Some(Authentication::Bearer("secret".into()));
        let seeds = ["http://me:pw@c.test/"];
        let own = sent(&config, &seeds, "http://a.test/x");
        assert_eq!(own.get_all("accept").iter().collect::<Vec<_>>(), ["a/b"]);
        assert_eq!(own.get_all("x-a").iter().collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(own["authorization"], "Bearer secret");
        for (to, has_headers, authorization) in [
            ("https://a.test/", true, None),
            ("https://b.test/", true, Some("Bearer secret")),
            ("http://c.test/", true, Some("Basic bWU6cHc=")),
            ("http://b.test/", false, None),
            ("http://a.test:8080/", false, None),
            ("http://www.a.test/", false, None),
        ] {
            let headers = sent(&config, &seeds, to);
            assert_eq!(headers.contains_key("x-a"), has_headers, "{to}");
            assert_eq!(
                headers.get("authorization").map(|value| value.to_str().unwrap()),
                authorization,
                "{to}"
            );
        }
        config.requests.headers_everywhere = true;
        assert!(sent(&config, &seeds, "http://d.test/").contains_key("x-a"));
        assert!(!sent(&config, &seeds, "http://d.test/").contains_key("authorization"));
    }

    #[test]
    fn authentication_is_for_the_origins_of_the_seeds() {
        let mut config = FetchConfig::default();
        config.requests.authentication = Some(Authentication::Bearer("secret".into()));
        config.requests.headers_everywhere = true;
        let seeds = ["https://a.test/", "http://me:pw@b.test/"];
        let authorization = |to| sent(&config, &seeds, to).get("authorization").cloned();
        assert_eq!(authorization("https://a.test/x").unwrap(), "Bearer secret");
        assert_eq!(authorization("http://b.test/").unwrap(), "Basic bWU6cHc=", "the seed has its own");
        for other in ["http://a.test/", "https://a.test:8443/", "https://www.a.test/", "https://b.test/"] {
            assert_eq!(authorization(other), None, "{other}");
        }
        for bad in ["", "secret\r\nx: y", "secret secret", "secreté"] {
            let error = Authentication::Bearer(bad.into()).header().unwrap_err().to_string();
            assert!(error.starts_with("cannot authenticate") && !error.contains("secret"), "{error}");
        }
        let colon = Authentication::Basic { user: "a:b".into(), password: "secret".into() };
        assert!(colon.header().is_err() && !format!("{colon:?}").contains("secret"));
    }
}
