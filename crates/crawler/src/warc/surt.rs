//! The keys of indexes: URLs in the Sort-friendly URI Reordering Transform (SURT), as the Python package `surt` and so pywb,
//! cdxj-indexer and Wayback machines write them: `http://www.Example.org:80/a/?b=2&a=1` is `org,example)/a?a=1&b=2`.
//!
//! A key is looser than a URL: URLs that differ in case, in `www.`, in their scheme or in session ids have the same one.

use std::net::Ipv4Addr;
use std::sync::LazyLock;

use regex::bytes::Regex;
use url::Host;

/// Characters that are not escaped, in addition to letters and digits.
const UNESCAPED: &[u8] = b"!\"$&'()*+,-./:;<=>?@[\\]^_`{|}~";

/// How often escapes are decoded: `%2525` is `%`. Each round shortens the text, and real URLs take one or two.
const MAX_UNESCAPES: usize = 64;

/// Session ids in paths: `/(S(24 letters and digits))/page.aspx`.
static PATH_SESSIONS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    patterns(&[
        r"^(.*/)\((?:[a-z]\([0-9a-z]{24}\))+\)/([^?]+\.aspx.*)$",
        r"^(.*/)\([0-9a-z]{24}\)/([^?]+\.aspx.*)$",
    ])
});

/// Session ids in queries.
static QUERY_SESSIONS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    patterns(&[
        r"^(.*)jsessionid=[0-9a-z]{32}(?:&(.*))?$",
        r"^(.*)phpsessid=[0-9a-z]{32}(?:&(.*))?$",
        r"^(.*)sid=[0-9a-z]{32}(?:&(.*))?$",
        r"^(.*)aspsessionid[a-z]{8}=[a-z]{24}(?:&(.*))?$",
        r"^(.*)cfid=[^&]+&cftoken=[^&]+(?:&(.*))?$",
    ])
});

fn patterns(patterns: &[&str]) -> Vec<Regex> {
    let compile = |pattern: &&str| Regex::new(&format!("(?i-u){pattern}"));
    // A test compiles them.
    patterns.iter().filter_map(|pattern| compile(pattern).ok()).collect()
}

/// The parts of a URI, as RFC 2396 splits it.
struct UriParts<'u> {
    scheme: &'u [u8],
    authority: &'u [u8],
    path: &'u [u8],
    query: Option<&'u [u8]>,
}

/// The key of a URI. One that cannot be split is its own key.
pub fn surt(uri: &str) -> String {
    if uri.is_empty() {
        return "-".into();
    }
    if uri.starts_with("filedesc") {
        return uri.to_owned();
    }
    let key = key(uri).and_then(|key| String::from_utf8(key).ok());
    key.unwrap_or_else(|| uri.to_owned())
}

fn key(uri: &str) -> Option<Vec<u8>> {
    let uri: Vec<u8> =
        uri.trim_ascii().bytes().filter(|byte| !matches!(byte, b'\n' | b'\r' | b'\t')).collect();
    let uri = with_one_scheme(uri);
    let parts = split(&uri)?;
    let (host, port) = host_and_port(parts.authority)?;
    let (mut host, mut path) = (host, parts.path);
    if host.is_empty() && parts.scheme.starts_with(b"http") && !path.is_empty() {
        // `http:////host/path`
        let start = path.iter().position(|byte| *byte != b'/').unwrap_or(path.len());
        let rest = &path[start..];
        let end = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
        (host, path) = (rest[..end].to_ascii_lowercase(), &rest[end..]);
    }
    let mut key = Vec::with_capacity(uri.len());
    if host.is_empty() {
        key.extend_from_slice(parts.scheme);
        key.push(b':');
        key.extend(path_key(&escape(&unescape(path))));
    } else {
        key.extend(host_key(&host, parts.scheme != b"dns"));
        if let Some(port) = port.filter(|port| Some(*port) != default_port(parts.scheme)) {
            key.extend_from_slice(format!(":{port}").as_bytes());
        }
        key.push(b')');
        key.extend(path_key(&escape(&normalized_path(&unescape(path)))));
    }
    if let Some(query) = parts.query.map(query_key).filter(|query| !query.is_empty()) {
        if key.last() == Some(&b':') || key.last() == Some(&b')') {
            key.push(b'/');
        }
        key.push(b'?');
        key.extend(query);
    }
    Some(key)
}

/// Adds `http://` to a URI without a scheme, and keeps the last of several: `http://https://host/`.
fn with_one_scheme(uri: Vec<u8>) -> Vec<u8> {
    if scheme_length(&uri).is_none() {
        return [b"http://", &uri[..]].concat();
    }
    let mut last = 0;
    let mut next = 0;
    loop {
        let rest = &uri[next..];
        let length = [&b"http://"[..], b"https://"].into_iter().find(|start| rest.starts_with(start));
        let Some(length) = length.map(<[u8]>::len) else { return uri[last..].to_vec() };
        (last, next) = (next, next + length);
    }
}

/// The length of a URI's scheme, which a colon follows.
fn scheme_length(uri: &[u8]) -> Option<usize> {
    let end = uri.iter().position(|byte| *byte == b':')?;
    let is_scheme = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    (uri.first()?.is_ascii_alphabetic() && uri[..end].iter().all(is_scheme)).then_some(end)
}

fn split(uri: &[u8]) -> Option<UriParts<'_>> {
    let scheme = &uri[..scheme_length(uri)?];
    let rest = &uri[scheme.len() + 1..];
    let rest = rest.split(|byte| *byte == b'#').next()?;
    let (rest, query) = match rest.iter().position(|byte| *byte == b'?') {
        Some(at) => (&rest[..at], Some(&rest[at + 1..])),
        None => (rest, None),
    };
    let (authority, path) = match rest.strip_prefix(b"//") {
        Some(rest) => rest.split_at(rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len())),
        None => (&b""[..], rest),
    };
    Some(UriParts { scheme, authority, path, query })
}

/// The host, in lower case, and the port of an authority. `None` if the port is no port.
fn host_and_port(authority: &[u8]) -> Option<(Vec<u8>, Option<u16>)> {
    let end = authority.iter().rposition(|byte| *byte != b':').map_or(0, |last| last + 1);
    let authority = authority[..end].rsplit(|byte| *byte == b'@').next()?;
    let (host, port) = match authority.strip_prefix(b"[") {
        Some(address) => cut(address, b']'),
        None => (authority, authority),
    };
    let (before_port, port) = cut(port, b':');
    let host = if authority.starts_with(b"[") { host } else { before_port };
    let is_number = port.iter().all(u8::is_ascii_digit);
    let port = match port {
        [] => None,
        _ if is_number => Some(std::str::from_utf8(port).ok()?.parse().ok()?),
        _ => return None,
    };
    Some((host.to_ascii_lowercase(), port.filter(|port| *port != 0)))
}

/// What is before and after the first of these bytes.
fn cut(bytes: &[u8], at: u8) -> (&[u8], &[u8]) {
    match bytes.iter().position(|byte| *byte == at) {
        Some(found) => (&bytes[..found], &bytes[found + 1..]),
        None => (bytes, &[]),
    }
}

fn default_port(scheme: &[u8]) -> Option<u16> {
    match scheme.to_ascii_lowercase().as_slice() {
        b"http" => Some(80),
        b"https" => Some(443),
        _ => None,
    }
}

/// The labels of a host in reverse order, without `www.` or `www2.`.
fn host_key(host: &[u8], removes_www: bool) -> Vec<u8> {
    let mut host = unescape(host);
    if !host.is_ascii() {
        let text = String::from_utf8_lossy(&host);
        if let Ok(Host::Domain(name)) = Host::parse(&text) {
            host = name.into_bytes();
        }
    }
    let mut host = without_empty_labels(&host);
    match ipv4(&host) {
        Some(address) => host = address.to_string().into_bytes(),
        None => host = escape(&host.to_ascii_lowercase()).to_ascii_lowercase(),
    }
    let mut name = &host[..];
    if let Some(rest) = name.strip_prefix(b"www").filter(|_| removes_www) {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        name = rest[digits..].strip_prefix(b".").unwrap_or(name);
    }
    let labels: Vec<&[u8]> = name.rsplit(|byte| *byte == b'.').collect();
    labels.join(&b',')
}

/// Removes dots at both ends, and one of two in a row.
fn without_empty_labels(host: &[u8]) -> Vec<u8> {
    let mut name = Vec::with_capacity(host.len());
    let mut rest = host;
    while let [first, after @ ..] = rest {
        name.push(*first);
        rest = if *first == b'.' { after.strip_prefix(b".").unwrap_or(after) } else { after };
    }
    let start = name.iter().position(|byte| *byte != b'.').unwrap_or(name.len());
    let end = name.iter().rposition(|byte| *byte != b'.').map_or(start, |last| last + 1);
    name[start..end].to_vec()
}

/// The address that a host of digits and dots is.
fn ipv4(host: &[u8]) -> Option<Ipv4Addr> {
    let is_numeric = host.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
    let text = std::str::from_utf8(host).ok().filter(|host| is_numeric && !host.is_empty())?;
    if !text.contains('.') {
        let number = text
            .bytes()
            .fold(0_u32, |number, digit| number.wrapping_mul(10).wrapping_add(u32::from(digit - b'0')));
        return Some(number.into());
    }
    match Host::parse(text) {
        Ok(Host::Ipv4(address)) => Some(address),
        _ => None,
    }
}

/// Removes `.`, `..` and empty segments.
fn normalized_path(path: &[u8]) -> Vec<u8> {
    let mut kept: Vec<&[u8]> = Vec::new();
    for segment in path.split(|byte| *byte == b'/').skip(1) {
        match segment {
            b"." => {}
            b".." if !kept.is_empty() => drop(kept.pop()),
            other => kept.push(other),
        }
    }
    let mut normalized = vec![b'/'];
    if let Some((last, others)) = kept.split_last() {
        for segment in others.iter().filter(|segment| !segment.is_empty()) {
            normalized.extend_from_slice(segment);
            normalized.push(b'/');
        }
        normalized.extend_from_slice(last);
    }
    normalized
}

/// A path in lower case, without a session id and without a slash at its end.
fn path_key(path: &[u8]) -> Vec<u8> {
    let mut path = without_sessions(&PATH_SESSIONS, path.to_ascii_lowercase());
    if path.len() > 1 && path.last() == Some(&b'/') {
        path.pop();
    }
    path
}

/// A query in lower case, without session ids, with its parameters in order.
fn query_key(query: &[u8]) -> Vec<u8> {
    let query = without_sessions(&QUERY_SESSIONS, escape(&unescape(query))).to_ascii_lowercase();
    let mut parameters: Vec<(&[u8], Option<&[u8]>)> = query
        .split(|byte| *byte == b'&')
        .map(|parameter| match parameter.iter().position(|byte| *byte == b'=') {
            Some(at) => (&parameter[..at], Some(&parameter[at + 1..])),
            None => (parameter, None),
        })
        .collect();
    parameters.sort();
    let parameters: Vec<Vec<u8>> = parameters
        .into_iter()
        .map(|(name, value)| value.map_or_else(|| name.to_vec(), |value| [name, b"=", value].concat()))
        .collect();
    parameters.join(&b'&')
}

fn without_sessions(patterns: &[Regex], mut text: Vec<u8>) -> Vec<u8> {
    for pattern in patterns {
        let rest = pattern.captures(&text).map(|found| {
            let group = |number| found.get(number).map_or(&b""[..], |group| group.as_bytes());
            [group(1), group(2)].concat()
        });
        text = rest.unwrap_or(text);
    }
    text
}

/// Decodes escapes until there are none.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut text = text.to_vec();
    for _ in 0..MAX_UNESCAPES {
        if !text.contains(&b'%') {
            break;
        }
        let decoded: Vec<u8> = percent_encoding::percent_decode(&text).collect();
        if decoded.len() == text.len() {
            break;
        }
        text = decoded;
    }
    text
}

/// Escapes all but letters, digits and [`UNESCAPED`].
fn escape(text: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(text.len());
    for byte in text {
        if byte.is_ascii_alphanumeric() || UNESCAPED.contains(byte) {
            escaped.push(*byte);
        } else {
            escaped.extend_from_slice(format!("%{byte:02X}").as_bytes());
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_other_indexers() {
        assert_eq!((PATH_SESSIONS.len(), QUERY_SESSIONS.len()), (2, 5));
        // The keys are what the Python package surt 0.3.1 returns.
        for (uri, key) in [
            ("", "-"),
            ("filedesc:foo.arc.gz", "filedesc:foo.arc.gz"),
            ("http://www.archive.org/goo/", "org,archive)/goo"),
            ("http://archive.org/goo/?", "org,archive)/goo"),
            ("http://archive.org/goo/?b&a", "org,archive)/goo?a&b"),
            ("http://archive.org/goo/?a=2&b&a=1", "org,archive)/goo?a=1&a=2&b"),
            ("http://archive.org:8080/GOO%2F%41?Q=%20X#part", "org,archive:8080)/goo/a?q=%20x"),
            ("https://www2.example.com:443", "com,example)/"),
            ("https://example.com:80/", "com,example:80)/"),
            ("http://127.0.0.1:44317/a.html", "1,0,0,127:44317)/a.html"),
            ("http://user:secret@a.test./x", "test,a)/x"),
            ("http://[::1]:80/", "::1)/"),
            ("http://[2001:db8::1]:8080/x", "2001:db8::1:8080)/x"),
            ("dns:archive.org", "dns:archive.org"),
            ("urn:X:y", "urn:x:y"),
            ("metadata://gnu.org/software/wget/warc/wget.log", "org,gnu)/software/wget/warc/wget.log"),
            ("example.org/x", "org,example)/x"),
            ("http://https://example.org/x", "org,example)/x"),
            ("http:////example.org/x", "org,example)/x"),
            ("http://example.org/a/./b/../c//d", "org,example)/a/c/d"),
            ("http://example.org/../a", "org,example)/../a"),
            ("http://example.org?x=1", "org,example)/?x=1"),
            ("http://example.org/%E4%B8%AD?%E4=%ff", "org,example)/%e4%b8%ad?%e4=%ff"),
            ("http://example.org/中", "org,example)/%e4%b8%ad"),
            ("http://bücher.example/", "example,xn--bcher-kva)/"),
            ("http://example.org:/", "org,example)/"),
            ("http://example.org:x/", "http://example.org:x/"),
            ("http://example.org/a?PHPSESSID=0123456789abcdefghijklemopqrstuv&x=1", "org,example)/a?x=1"),
            ("http://example.org/a?x=1&sid=9682993c8daa2c5497996114facdc805", "org,example)/a?&x=1"),
            ("http://example.org/(S(4hqa0555fwsecu455xqckv45))/mileg.aspx", "org,example)/mileg.aspx"),
            ("http://example.org/(4hqa0555fwsecu455xqckv45)/mileg.aspx", "org,example)/mileg.aspx"),
            ("http://example.org/100%25?a=100%2525", "org,example)/100%25?a=100%25"),
            ("  http://example.org/a b\tc  ", "org,example)/a%20bc"),
            ("http://16843009/index.html", "1,1,1,1)/index.html"),
            ("ftp://www.example.org/Pub/", "org,example)/pub"),
            ("http://wwww.example.org/", "org,example,wwww)/"),
        ] {
            assert_eq!(surt(uri), key, "{uri}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_has_a_key_of_one_line(uri in "(https?://|[a-z]+:)?[\\[\\]:@/?#%&=.a-zA-Z0-9\u{e9}\u{4e2d} \t-]{0,60}") {
            let key = surt(&uri);
            proptest::prop_assert!(!key.is_empty() && !key.contains('\n'), "{uri}: {key}");
        }
    }
}
