//! Resolves link targets to absolute URLs in their normal form: common ones with a fast path, all others with the `url`
//! crate.

use std::borrow::Cow;

use encoding_rs::Encoding;
use percent_encoding::percent_decode_str;
use url::{EncodingOverride, ParseError, Url};

use super::charset;
use super::normal_form::{self, is_normal_escape};
use super::{BadLink, MAX_URL_BYTES};

/// Resolves targets relative to one base URL.
#[derive(Debug)]
pub struct UrlResolver<'b> {
    base: &'b Url,
    /// The base without its fragment. The positions below refer to it.
    text: &'b str,
    /// Whether [`UrlResolver::resolve_fast`] supports the base.
    is_common: bool,
    scheme_end: usize,
    path_start: usize,
    directory_end: usize,
    path_end: usize,
}

impl<'b> UrlResolver<'b> {
    /// A resolver for this base.
    pub fn new(base: &'b Url) -> Self {
        let text = base.as_str();
        let text = &text[..text.find('#').unwrap_or(text.len())];
        let is_common = matches!(base.scheme(), "http" | "https")
            && base.has_host()
            && !has_credentials(base)
            && normal_form::is_normal(base);
        let path_end = text.find('?').unwrap_or(text.len());
        let path_start = path_end - base.path().len();
        let directory_end = text[..path_end].rfind('/').map_or(path_start, |slash| slash + 1);
        Self { base, text, is_common, scheme_end: base.scheme().len(), path_start, directory_end, path_end }
    }

    /// The base.
    pub fn base(&self) -> &'b Url {
        self.base
    }

    /// Writes the target as an absolute URL in its normal form to `out`. `encoding` is called only for a target
    /// that is not ASCII.
    pub fn resolve(
        &self,
        target: &str,
        encoding: impl Fn() -> &'static Encoding,
        out: &mut String,
    ) -> Result<(), BadLink> {
        if !self.resolve_fast(target, out) {
            self.resolve_with_url_crate(target, encoding, out)?;
        }
        if out.len() > MAX_URL_BYTES { Err(BadLink::TooLong) } else { Ok(()) }
    }

    fn resolve_with_url_crate(
        &self,
        target: &str,
        encoding: impl Fn() -> &'static Encoding,
        out: &mut String,
    ) -> Result<(), BadLink> {
        let encode: &dyn Fn(&str) -> Cow<'_, [u8]> = &|query| charset::encode_query(encoding(), query);
        let url = parse(Some(self.base), (!target.is_ascii()).then_some(encode), target)?;
        out.clear();
        out.push_str(url.as_str());
        Ok(())
    }

    /// Resolves most targets that occur in pages, with the same result as the `url` crate and [`normal_form`]. Returns
    /// false for any other target; the content of `out` is then undefined.
    pub fn resolve_fast(&self, target: &str, out: &mut String) -> bool {
        let target = trim(target);
        out.clear();
        if !self.is_common {
            return false;
        }
        match target.as_bytes() {
            [] | [b'#', ..] => {
                out.push_str(self.text);
                true
            }
            [b'?', ..] => {
                out.push_str(&self.text[..self.path_end]);
                push_query(target, out)
            }
            [b'/', b'/', ..] => {
                out.push_str(&self.text[..=self.scheme_end]);
                push_after_scheme(target, out)
            }
            [b'/', ..] => {
                out.push_str(&self.text[..=self.path_start]);
                push_path(&target[1..], self.path_start, true, out)
            }
            [b'h', ..] if target.starts_with("http://") || target.starts_with("https://") => {
                self.resolve_absolute(target, out)
            }
            _ => {
                out.push_str(&self.text[..self.directory_end]);
                push_path(target, self.path_start, false, out)
            }
        }
    }

    fn resolve_absolute(&self, target: &str, out: &mut String) -> bool {
        let origin = &self.text[..self.path_start];
        if let Some(rest) = target.strip_prefix(origin)
            && rest.starts_with('/')
        {
            out.push_str(&self.text[..=self.path_start]);
            return push_path(&rest[1..], self.path_start, true, out);
        }
        let scheme_end = if target.starts_with("https") { "https:".len() } else { "http:".len() };
        out.push_str(&target[..scheme_end]);
        push_after_scheme(&target[scheme_end..], out)
    }
}

/// Parses a URL, checks it and brings it into its normal form.
pub(super) fn parse(base: Option<&Url>, encoding: EncodingOverride<'_>, text: &str) -> Result<Url, BadLink> {
    // A URL with another scheme counts as such even if the rest of it is malformed.
    if has_other_scheme(text) {
        return Err(BadLink::Scheme);
    }
    if has_long_host(base, text) {
        return Err(BadLink::TooLong);
    }
    let mut url = join(base, encoding, text).map_err(|_| BadLink::Malformed)?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(BadLink::Scheme);
    }
    if has_credentials(&url) {
        return Err(BadLink::Credentials);
    }
    // The normal form has at least a third of the length: it replaces escapes of three characters by one.
    if url.as_str().len() > 3 * MAX_URL_BYTES {
        return Err(BadLink::TooLong);
    }
    normal_form::normalize(&mut url)?;
    if url.as_str().len() > MAX_URL_BYTES { Err(BadLink::TooLong) } else { Ok(url) }
}

/// Parses the `href` of a `base`; `None` if it is not a URL that can be a base.
pub(super) fn parse_base(page: &Url, href: &str) -> Option<Url> {
    if has_long_host(Some(page), href) {
        return None;
    }
    let mut base = join(Some(page), None, href).ok()?;
    match base.scheme() {
        "http" | "https" => normal_form::normalize(&mut base).ok()?,
        // The HTML standard forbids these in a base.
        "data" | "javascript" => return None,
        _ => {}
    }
    Some(base)
}

/// Parses a URL by the WHATWG standard.
fn join(base: Option<&Url>, encoding: EncodingOverride<'_>, text: &str) -> Result<Url, ParseError> {
    let options = Url::options().base_url(base).encoding_override(encoding);
    let parsed = options.parse(text);
    if parsed != Err(ParseError::EmptyHost) {
        return parsed;
    }
    // The `url` crate finds no host in `///host/path`. By the standard, more than two slashes mean the same as two.
    let relative = trim(text);
    match relative.trim_start_matches(['/', '\\', '\t', '\n', '\r']) {
        rest if rest.len() == relative.len() => parsed,
        rest => options.parse(&format!("//{rest}")),
    }
}

/// The host and the port of a target as they are written, in whatever form; `None` if the target has none.
fn written_host<'t>(base: Option<&Url>, text: &'t str) -> Option<Cow<'t, str>> {
    // The URL standard removes these characters anywhere in a URL.
    if text.contains(['\t', '\n', '\r']) {
        let text = text.replace(['\t', '\n', '\r'], "");
        return written_host(base, &text).map(|host| host.into_owned().into());
    }
    let text = trim(text);
    let is_http = |scheme: &str| scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    let (scheme, rest) = match text.split_once(':') {
        Some((scheme, rest)) if is_http(scheme) => (Some(scheme), rest),
        _ => (None, text),
    };
    let authority = rest.trim_start_matches(['/', '\\']);
    // With the scheme of the base, fewer slashes start a relative path.
    let is_other = |scheme: &str| base.is_none_or(|base| !base.scheme().eq_ignore_ascii_case(scheme));
    if rest.len() - authority.len() < 2 && !scheme.is_some_and(is_other) {
        return None;
    }
    let authority = authority.split(['/', '\\', '?', '#']).next().unwrap_or_default();
    Some(percent_decode_str(authority.rsplit('@').next().unwrap_or_default()).decode_utf8_lossy())
}

/// The labels of a host that is not in the form of DNS yet.
fn labels(host: &str) -> impl Iterator<Item = &str> {
    // All of these are dots for IDNA.
    host.split(['.', '\u{3002}', '\u{ff0e}', '\u{ff61}'])
}

/// Whether a target names a host that is too long for DNS.
fn has_long_host(base: Option<&Url>, text: &str) -> bool {
    let is_long = |text: &str, max: usize| text.len() > max && text.chars().count() > max;
    text.len() > MAX_LABEL_CHARS
        && written_host(base, text).is_some_and(|host| {
            is_long(&host, MAX_HOST_CHARS) || labels(&host).any(|label| is_long(label, MAX_LABEL_CHARS))
        })
}

/// A measure of the time that IDNA takes for the host of a target: it is quadratic in the length of a label. Labels that are rejected
/// take none.
#[cfg(feature = "net")]
pub(super) fn idna_cost(base: &Url, target: &str) -> usize {
    let Some(host) = written_host(Some(base), target) else { return 0 };
    let is_encoded = |label: &str| label.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("xn--"));
    let converted = labels(&host).filter(|label| !label.is_ascii() || is_encoded(label));
    let lengths = converted.map(|label| label.chars().count());
    lengths.filter(|chars| *chars <= MAX_LABEL_CHARS).map(|chars| chars * chars).sum()
}

fn has_credentials(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

/// Removes control characters and spaces at both ends, as the URL standard requires.
#[inline]
fn trim(text: &str) -> &str {
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(b'!'..), Some(b'!'..)) => text,
        _ => text.trim_matches(|c| c <= ' '),
    }
}

/// Whether the text starts with a scheme other than http and https.
fn has_other_scheme(text: &str) -> bool {
    let Some((before, _)) = trim(text).split_once(':') else { return false };
    // The URL standard removes these characters anywhere in a URL.
    let scheme: String = before.chars().filter(|c| !matches!(c, '\t' | '\n' | '\r')).collect();
    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
        && !scheme.eq_ignore_ascii_case("http")
        && !scheme.eq_ignore_ascii_case("https")
}

/// Appends `//host/path?query`. Returns false unless host and path are in a simple normal form.
fn push_after_scheme(target: &str, out: &mut String) -> bool {
    let rest = &target["//".len()..];
    let host_end = rest.bytes().position(|byte| !is(byte, HOST)).unwrap_or(rest.len());
    if !is_plain_host(&rest[..host_end]) {
        return false;
    }
    out.push_str(&target[.."//".len() + host_end]);
    let path_start = out.len();
    out.push('/');
    match rest.as_bytes().get(host_end) {
        None | Some(b'#') => true,
        Some(b'?') => push_query(&rest[host_end..], out),
        Some(b'/') => push_path(&rest[host_end + 1..], path_start, true, out),
        Some(_) => false,
    }
}

/// Whether a host is a lower-case name that normalization does not change: no IP address in any notation, no punycode.
fn is_plain_host(host: &str) -> bool {
    let mut last_label = "";
    host.len() <= MAX_PLAIN_HOST_BYTES
        && host.split('.').all(|label| {
            last_label = label;
            !label.is_empty() && !label.starts_with('-') && !label.ends_with('-') && !label.contains("--")
        })
        && last_label.starts_with(|first: char| first.is_ascii_lowercase())
}

/// The longest host that DNS allows, with its port, in characters. IDNA makes it longer, not shorter, unless it composes characters.
const MAX_HOST_CHARS: usize = "65535:".len() + 253;

/// The longest label of a host, in characters: twice what DNS allows, because IDNA composes characters.
const MAX_LABEL_CHARS: usize = 126;

/// Short enough that no label exceeds the limit of DNS.
const MAX_PLAIN_HOST_BYTES: usize = 63;

/// Appends a path and its query to a URL that ends with the slash before the path's first segment. `absolute` means
/// that a colon in the first segment cannot be the end of a scheme.
fn push_path(path: &str, path_start: usize, absolute: bool, out: &mut String) -> bool {
    let bytes = path.as_bytes();
    let mut copied = 0;
    let mut at = 0;
    let mut may_have_colon = absolute;
    while let Some(&byte) = bytes.get(at) {
        if is(byte, PATH) {
            at += 1;
            continue;
        }
        match byte {
            b'.' if at == 0 || bytes[at - 1] == b'/' => match dot_segment(&bytes[at..]) {
                None => at += 1,
                Some(DotSegment { length, up }) => {
                    out.push_str(&path[copied..at]);
                    if up && !pop_segment(out, path_start) {
                        return false;
                    }
                    at += length;
                    copied = at;
                }
            },
            b'.' => at += 1,
            // Other escapes change in the normal form. One of them is `%2e`, which may be part of a dot segment.
            b'%' if is_normal_escape(&bytes[at..]) => at += 3,
            // Remembered, because the search takes linear time.
            b':' if may_have_colon || path[..at].contains('/') => {
                may_have_colon = true;
                at += 1;
            }
            b'?' => {
                out.push_str(&path[copied..at]);
                return push_query(&path[at..], out);
            }
            b'#' => break,
            _ => return false,
        }
    }
    out.push_str(&path[copied..at]);
    true
}

/// `.` or `..`, with the slash after it.
struct DotSegment {
    length: usize,
    up: bool,
}

/// The dot segment that a path starts with, if it starts with one. The path starts with a dot.
fn dot_segment(path: &[u8]) -> Option<DotSegment> {
    let (dots, up) = if path.starts_with(b"..") { (2, true) } else { (1, false) };
    match path.get(dots) {
        Some(b'/') => Some(DotSegment { length: dots + 1, up }),
        None | Some(b'?' | b'#') => Some(DotSegment { length: dots, up }),
        Some(_) => None,
    }
}

/// Removes the last segment of a URL that ends with a slash. Returns false if the segment looks like a drive letter,
/// which the `url` crate does not remove in any scheme.
fn pop_segment(out: &mut String, path_start: usize) -> bool {
    let path = &out[path_start..out.len() - 1];
    let Some(slash) = path.rfind('/') else { return true };
    let drive_letter = matches!(path.as_bytes()[slash + 1..], [_, b':' | b'|']);
    out.truncate(path_start + slash + 1);
    !drive_letter
}

/// Appends `?query`, up to the fragment; nothing for an empty query.
fn push_query(query: &str, out: &mut String) -> bool {
    let bytes = query.as_bytes();
    let mut at = 0;
    loop {
        at += bytes[at..].iter().position(|&byte| !is(byte, QUERY)).unwrap_or(bytes.len() - at);
        match bytes.get(at) {
            Some(b'%') if is_normal_escape(&bytes[at..]) => at += 3,
            None | Some(b'#') => break,
            Some(_) => return false,
        }
    }
    if at > "?".len() {
        out.push_str(&query[..at]);
    }
    true
}

const PATH: u8 = 1;
const QUERY: u8 = 2;
const HOST: u8 = 4;

/// The URL parts in which each byte needs no encoding, except for some rare bytes.
const ALLOWED_IN: [u8; 256] = {
    let mut allowed_in = [0; 256];
    let mut byte = 0;
    while byte < 128u8 {
        allowed_in[byte as usize] = match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' => PATH | QUERY | HOST,
            b'A'..=b'Z'
            | b'_'
            | b'~'
            | b'!'
            | b'$'
            | b'&'
            | b'('
            | b')'
            | b'*'
            | b'+'
            | b','
            | b';'
            | b'='
            | b'@' => PATH | QUERY,
            b'/' => PATH | QUERY,
            b'.' => QUERY | HOST,
            b':' | b'?' | b'[' | b']' | b'|' => QUERY,
            _ => 0,
        };
        byte += 1;
    }
    allowed_in
};

#[inline]
fn is(byte: u8, part: u8) -> bool {
    ALLOWED_IN[byte as usize] & part != 0
}

#[cfg(test)]
mod tests;
