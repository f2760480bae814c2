//! Resolves link targets to absolute, normalised URLs: common ones with a fast path, all others with the `url` crate.

use std::borrow::Cow;

use encoding_rs::Encoding;
use url::{EncodingOverride, Url};

use super::charset;
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
        let is_common =
            matches!(base.scheme(), "http" | "https") && base.has_host() && !has_credentials(base);
        let path_end = text.find('?').unwrap_or(text.len());
        let path_start = path_end - base.path().len();
        let directory_end = text[..path_end].rfind('/').map_or(path_start, |slash| slash + 1);
        Self { base, text, is_common, scheme_end: base.scheme().len(), path_start, directory_end, path_end }
    }

    /// Writes the target as a normalised absolute URL without fragment to `out`. `encoding` is called only for a target
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

    /// Resolves most targets that occur in pages, with the same result as the `url` crate. Returns false for any other
    /// target; the content of `out` is then undefined.
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

/// Parses a URL, checks it and removes its fragment.
pub(super) fn parse(base: Option<&Url>, encoding: EncodingOverride<'_>, text: &str) -> Result<Url, BadLink> {
    // A URL with another scheme counts as such even if the rest of it is malformed.
    if has_other_scheme(text) {
        return Err(BadLink::Scheme);
    }
    let options = Url::options().base_url(base).encoding_override(encoding);
    let mut url = options.parse(text).map_err(|_| BadLink::Malformed)?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(BadLink::Scheme);
    }
    if has_credentials(&url) {
        return Err(BadLink::Credentials);
    }
    url.set_fragment(None);
    if url.as_str().len() > MAX_URL_BYTES { Err(BadLink::TooLong) } else { Ok(url) }
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

/// Whether a host is a lower-case name that normalisation does not change: no IP address in any notation, no punycode.
fn is_plain_host(host: &str) -> bool {
    let mut last_label = "";
    host.len() <= MAX_PLAIN_HOST_BYTES
        && host.split('.').all(|label| {
            last_label = label;
            !label.is_empty() && !label.starts_with('-') && !label.ends_with('-') && !label.contains("--")
        })
        && last_label.starts_with(|first: char| first.is_ascii_lowercase())
}

/// Short enough that no label exceeds the limit of DNS.
const MAX_PLAIN_HOST_BYTES: usize = 63;

/// Appends a path and its query to a URL that ends with the slash before the path's first segment. `absolute` means
/// that a colon in the first segment cannot be the end of a scheme.
fn push_path(path: &str, path_start: usize, absolute: bool, out: &mut String) -> bool {
    let bytes = path.as_bytes();
    let mut copied = 0;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if is(byte, PATH) {
            at += 1;
            continue;
        }
        match byte {
            // A segment that starts with these may be a dot segment.
            b'.' | b'%' if at == 0 || bytes[at - 1] == b'/' => match dot_segment(&bytes[at..]) {
                PathSegment::Other => at += 1,
                PathSegment::Dots { length, up } => {
                    out.push_str(&path[copied..at]);
                    if up && !pop_segment(out, path_start) {
                        return false;
                    }
                    at += length;
                    copied = at;
                }
                PathSegment::Undecided => return false,
            },
            b'.' | b'%' => at += 1,
            b':' if absolute || path[..at].contains('/') => at += 1,
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

enum PathSegment {
    /// `.` or `..`, with the slash after it.
    Dots { length: usize, up: bool },
    /// Perhaps an encoded dot segment.
    Undecided,
    /// Not a dot segment.
    Other,
}

/// Classifies a segment that starts with a dot or a percent sign.
fn dot_segment(path: &[u8]) -> PathSegment {
    let (dots, up) = match path {
        [b'.', b'.', ..] => (2, true),
        [b'.', ..] => (1, false),
        // Perhaps `%2e`, which also means a dot.
        [b'%', b'2', ..] => return PathSegment::Undecided,
        _ => return PathSegment::Other,
    };
    match path.get(dots) {
        Some(b'/') => PathSegment::Dots { length: dots + 1, up },
        None | Some(b'?' | b'#') => PathSegment::Dots { length: dots, up },
        Some(b'%') => PathSegment::Undecided,
        Some(_) => PathSegment::Other,
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

/// Appends `?query`, up to the fragment.
fn push_query(query: &str, out: &mut String) -> bool {
    let end = query.bytes().position(|byte| !is(byte, QUERY)).unwrap_or(query.len());
    out.push_str(&query[..end]);
    matches!(query.as_bytes().get(end), None | Some(b'#'))
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
            b'%' | b':' | b'?' | b'[' | b']' | b'|' => QUERY,
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
