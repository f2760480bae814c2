//! The domain and the throttle key of a URL are the same with and without parsing the URL.
#![no_main]

use crawler::internal::domain::{Domain, DomainInternals as _};
use crawler::internal::origin::{Origin, throttle_key};
use crawler::internal::{fuzzing, html};
use libfuzzer_sys::fuzz_target;
use url::{Host, Url};

// The input is a URL, or a host with an optional port and path.
fuzz_target!(|input: &str| {
    let _ = (Domain::from_url_str(input), throttle_key(input), fuzzing::domain_from_throttle_key(input));
    let text = if input.contains("://") { input.to_owned() } else { format!("http://{input}") };
    let Ok(url) = html::normalize(&text) else { return };
    check(&url);
    // HTTP and HTTPS of a host share its delay, so they must belong to one domain.
    let mut other_scheme = url.clone();
    let scheme = if url.scheme() == "https" { "http" } else { "https" };
    other_scheme.set_scheme(scheme).expect("HTTP and HTTPS URLs have the same form");
    check(&other_scheme);
    if throttle_key(url.as_str()) == throttle_key(other_scheme.as_str()) {
        assert_eq!(Domain::from_url(&url), Domain::from_url(&other_scheme), "{url} and {other_scheme}");
    }
});

fn check(url: &Url) {
    let key = throttle_key(url.as_str());
    assert_eq!(key, Origin::from_url(url).throttle_key(), "{url}");
    let domain = Domain::from_url(url);
    assert_eq!(Domain::from_url_str(url.as_str()), domain, "{url}");
    assert_eq!(fuzzing::domain_from_throttle_key(key), domain, "{url}");
    assert_eq!(Domain::from_url_str(&format!("http://{domain}/")), domain, "{url}");
    if let Some(Host::Domain(host)) = url.host() {
        let name = domain.as_str().split(':').next().unwrap_or_default();
        assert!(host.ends_with(name) && !host.ends_with('.'), "{url}: {domain}");
    } else {
        assert!(domain.as_str().starts_with(url.host_str().unwrap_or_default()), "{url}: {domain}");
    }
}
