//! The Netscape format of cookie files: a line per cookie, with seven fields that tabs separate.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use cookie_store::{Cookie, CookieDomain, CookieExpiration};
use url::{Host, Url};

use super::{CookieJar, MAX_COOKIE_BYTES, is_sendable};
use crate::domain::is_public_suffix;
use crate::error::Error;

/// The start of a line whose cookie is not for scripts.
const HTTP_ONLY: &str = "#HttpOnly_";

/// Maximum number of cookies in a file.
const MAX_COOKIES: usize = 100_000;

const HEADER: &str = "# Netscape HTTP Cookie File\n";

/// Adds the cookies of a file to a jar. Expired ones are skipped.
pub(super) fn read(text: &str, jar: &CookieJar) -> Result<(), Error> {
    let (now, mut count) = (now(), 0);
    for (index, line, http_only) in cookie_lines(text) {
        // The line is not repeated: its value may be secret.
        let invalid = |what: &str| {
            Error::InvalidSetting(format!(
                "cannot read cookies: line {}: {what}; use the Netscape format, with seven fields separated by tabs",
                index + 1
            ))
        };
        count += 1;
        if count > MAX_COOKIES {
            return Err(invalid(&format!("there are more than {MAX_COOKIES} cookies")));
        }
        if let Some((url, cookie)) = cookie(line, http_only, now).map_err(|what| invalid(&what))?
            && !jar.set(&url, &cookie)
        {
            return Err(invalid("its site has too many cookies"));
        }
    }
    Ok(())
}

/// Adds the cookies of a file to a jar, except those that it cannot take.
pub(super) fn merge(text: &str, jar: &CookieJar) {
    let now = now();
    for (_, line, http_only) in cookie_lines(text) {
        if let Ok(Some((url, cookie))) = cookie(line, http_only, now) {
            jar.set(&url, &cookie);
        }
    }
}

/// The lines with cookies: their index, their fields, and whether the cookie is not for scripts.
fn cookie_lines(text: &str) -> impl Iterator<Item = (usize, &str, bool)> {
    text.lines().enumerate().filter_map(|(index, line)| {
        let fields = line.strip_prefix(HTTP_ONLY);
        let (line, http_only) = (fields.unwrap_or(line), fields.is_some());
        let is_cookie = !line.trim().is_empty() && !line.starts_with('#');
        is_cookie.then_some((index, line, http_only))
    })
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs())
}

/// A URL that may set the cookie, and its Set-Cookie header; `None` if it has expired.
fn cookie(line: &str, http_only: bool, now: u64) -> Result<Option<(Url, String)>, String> {
    let fields: Vec<&str> = line.split('\t').collect();
    // Programs that remove white space at the ends of lines leave an empty value out.
    let (domain, subdomains, path, secure, expires, name, value) = match fields[..] {
        [domain, subdomains, path, secure, expires, name, value] => {
            (domain, subdomains, path, secure, expires, name, value)
        }
        [domain, subdomains, path, secure, expires, name] => {
            (domain, subdomains, path, secure, expires, name, "")
        }
        _ => return Err(format!("it has {} instead of 7 fields", fields.len())),
    };
    let (subdomains, secure) = (flag(subdomains)?, flag(secure)?);
    let expires: u64 = match expires.split('.').next().unwrap_or_default().parse::<i64>() {
        Ok(expires) => expires.try_into().unwrap_or(1),
        Err(_) => return Err("its expiry time is not a number of seconds".into()),
    };
    if name.is_empty() || [name, value, path].iter().any(|text| text.contains(';') || !is_sendable(text)) {
        return Err("its name, value or path contains a character that cookies cannot have".into());
    }
    if name.contains('=') || name.len() + value.len() > MAX_COOKIE_BYTES {
        return Err("its name contains '=', or it is too long".into());
    }
    if !path.starts_with('/') {
        return Err("its path does not start with '/'".into());
    }
    let host = domain.strip_prefix('.').unwrap_or(domain);
    let scheme = if secure { "https" } else { "http" };
    let no_host = || "its domain is not a host name".to_owned();
    let url = Url::parse(&format!("{scheme}://{host}/")).map_err(|_| no_host())?;
    let is_name = matches!(url.host(), Some(Host::Domain(_)));
    if url.host_str().is_none_or(str::is_empty) || url.path() != "/" || url.port().is_some() {
        return Err(no_host());
    }
    let mut cookie = format!("{name}={value}; Path={path}");
    if subdomains && is_name {
        let name = url.host_str().unwrap_or_default();
        if is_public_suffix(name) {
            return Err("its domain is a public suffix".into());
        }
        let _ = write!(cookie, "; Domain={name}");
    }
    if expires != 0 {
        let Some(left) = expires.checked_sub(now).filter(|left| *left > 0) else { return Ok(None) };
        let _ = write!(cookie, "; Max-Age={left}");
    }
    cookie.push_str(if secure { "; Secure" } else { "" });
    cookie.push_str(if http_only { "; HttpOnly" } else { "" });
    Ok(Some((url, cookie)))
}

fn flag(text: &str) -> Result<bool, String> {
    match text {
        "TRUE" | "true" => Ok(true),
        "FALSE" | "false" => Ok(false),
        _ => Err("a field that is TRUE or FALSE has another value".into()),
    }
}

/// The file with these cookies, in a fixed order.
pub(super) fn write<'a>(cookies: impl Iterator<Item = &'a Cookie<'static>>) -> String {
    let mut lines: Vec<String> = cookies.map(line).collect();
    lines.sort_unstable_by(|a, b| a.trim_start_matches(HTTP_ONLY).cmp(b.trim_start_matches(HTTP_ONLY)));
    [HEADER.to_owned()].into_iter().chain(lines).collect()
}

fn line(cookie: &Cookie<'static>) -> String {
    let flag = |is_set: bool| if is_set { "TRUE" } else { "FALSE" };
    let (dot, subdomains) = match &cookie.domain {
        CookieDomain::Suffix(_) => (".", true),
        _ => ("", false),
    };
    let expires = match &cookie.expires {
        CookieExpiration::AtUtc(time) => time.unix_timestamp(),
        CookieExpiration::SessionEnd => 0,
    };
    let (name, value) = cookie.name_value();
    format!(
        "{}{dot}{}\t{}\t{}\t{}\t{expires}\t{name}\t{value}\n",
        if cookie.http_only() == Some(true) { HTTP_ONLY } else { "" },
        String::from(&cookie.domain),
        flag(subdomains),
        String::from(&cookie.path),
        flag(cookie.secure() == Some(true)),
    )
}
