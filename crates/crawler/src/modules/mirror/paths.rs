//! Chooses the file of each URL: readable names that every file system accepts, and no two URLs with the same file.

use std::borrow::Cow;
use std::collections::HashSet;

use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};
use percent_encoding::percent_decode_str;
use url::Url;

use super::file_type::{FileType, extension};

/// The file in the mirror that lists the others. No host has a directory of this name.
pub(super) const LIST_NAME: &str = "mirror.jsonl";

/// The longest file name, in bytes. File systems allow 255, those that encrypt names less.
pub(super) const MAX_NAME_BYTES: usize = 200;

/// The longest path in the mirror, in bytes. Windows allows 260 characters, with the path of the mirror itself.
pub(super) const MAX_PATH_BYTES: usize = 240;

/// The longest directory name of a host, and the longest file name in a path that is too long.
const MAX_SHORT_NAME_BYTES: usize = 80;

/// `~` and the digits of a hash, which make a name unique.
const HASH_BYTES: usize = "~".len() + 16;

/// The longest extension with its dot.
const MAX_EXTENSION_BYTES: usize = 9;

/// Names that are devices on Windows, with any extension.
const DEVICES: [&str; 6] = ["con", "prn", "aux", "nul", "conin$", "conout$"];

/// Chooses the paths of a set of different URLs, relative to the mirror and with slashes, in the order of `urls`. The
/// result depends on the set only, not on its order.
///
/// Of several URLs that would have the same path, the one with the best [`Claim`] keeps it. The names of the others get a hash
/// of the URL. Paths count as the same if some file system takes them for the same: upper and
/// lower case, and forms of Unicode, make no difference. A name that is also needed for a directory is given to the directory.
pub(super) fn assign(urls: &[(&str, FileType)]) -> Vec<String> {
    let mut paths: Vec<Preferred> =
        urls.iter().map(|(url, file_type)| Preferred::new(url, *file_type)).collect();
    let mut order: Vec<usize> = (0..urls.len()).collect();
    order.sort_unstable_by_key(|&index| (paths[index].claim, urls[index].0));
    let mut directories: HashSet<u128> = HashSet::new();
    for Preferred { path, .. } in &paths {
        directories.extend(path.match_indices('/').map(|(slash, _)| key(&path[..slash])));
    }
    let mut files = HashSet::with_capacity(urls.len());
    let mut is_free = |path: &str| {
        let key = key(path);
        !directories.contains(&key) && files.insert(key)
    };
    order.retain(|&index| !is_free(&paths[index].path));
    for index in order {
        let mut tries = 0u32..;
        let mut hashed = || with_hash(&paths[index].path, urls[index].0, tries.next().unwrap_or_default());
        let mut path = hashed();
        while !is_free(&path) {
            path = hashed();
        }
        paths[index].path = path;
    }
    paths.into_iter().map(|path| path.path).collect()
}

/// The path that a URL has if no other URL needs it.
struct Preferred {
    path: String,
    claim: Claim,
}

/// Which of two URLs keeps a path, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Claim {
    /// The URL is that of a directory, which is where people start to read.
    Directory,
    /// The file is named as in the URL.
    Exact,
    Other,
}

impl Preferred {
    fn new(text: &str, file_type: FileType) -> Preferred {
        // The URLs of a crawl are valid.
        let Ok(url) = Url::parse(text) else {
            return Preferred { path: safe_name(text), claim: Claim::Other };
        };
        let host = host_directory(&url);
        let mut segments: Vec<&str> = url.path().split('/').skip(1).collect();
        let last = segments.pop().unwrap_or_default();
        let mut names: Vec<String> = Vec::with_capacity(segments.len() + 2);
        names.push(shortened(host, &url[..url::Position::BeforePath], MAX_SHORT_NAME_BYTES));
        let mut end = url[..url::Position::BeforePath].len();
        for segment in segments {
            end += "/".len() + segment.len();
            names.push(shortened(safe_name(&decoded(segment)), &text[..end], MAX_NAME_BYTES - HASH_BYTES));
        }
        let decoded_name = decoded(if last.is_empty() { "index" } else { last });
        let with_query = match url.query() {
            Some(query) => Cow::Owned(format!("{decoded_name}@{}", decoded(query))),
            None => decoded_name,
        };
        let safe = safe_name(&with_query);
        let name = file_type.name(&safe, last);
        let claim = match last {
            "" if url.query().is_none() => Claim::Directory,
            last if *name == *last => Claim::Exact,
            _ => Claim::Other,
        };
        names.push(shortened(name.into_owned(), text, MAX_NAME_BYTES - HASH_BYTES));
        Preferred { path: joined(names, &text[..end], text), claim }
    }
}

/// Joins names to a path; replaces the last directories by one hash if it is too long. `directory` and `url` are what the
/// names of the directory and of the file come from.
fn joined(mut names: Vec<String>, directory: &str, url: &str) -> String {
    let max = MAX_PATH_BYTES - HASH_BYTES;
    let length = |names: &[String]| names.iter().map(|name| name.len() + 1).sum::<usize>();
    if length(&names) > max
        && let Some(name) = names.pop()
    {
        let name = shortened(name, url, MAX_SHORT_NAME_BYTES);
        while names.len() > 1 && length(&names) + HASH_BYTES + "/".len() + name.len() > max {
            names.pop();
        }
        names.extend([hash(directory), name]);
    }
    names.join("/")
}

/// The directory of a host: its name, and `+` and the port if the URL has one.
fn host_directory(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let port = url.port().map_or_else(String::new, |port| format!("+{port}"));
    let is_list = host.eq_ignore_ascii_case(LIST_NAME);
    safe_name(&format!("{}{host}{port}", if is_list { "_" } else { "" }))
}

/// A part of a URL without its escapes. Escapes that are not UTF-8 remain.
fn decoded(text: &str) -> Cow<'_, str> {
    percent_decode_str(text).decode_utf8().unwrap_or(Cow::Borrowed(text))
}

/// A name that every file system accepts. A leading dot is replaced too: it hides files, and names such as `.git` and
/// `.htaccess` mean something to other programs.
fn safe_name(text: &str) -> String {
    let mut name: String =
        text.chars().map(|character| if is_unsafe(character) { '_' } else { character }).collect();
    if !name.is_ascii() {
        name = ComposingNormalizerBorrowed::new_nfc().normalize(&name).into_owned();
    }
    if name.is_empty() || name.starts_with(['.', ' ']) {
        name.replace_range(..name.len().min(1), "_");
    }
    let kept = name.trim_end_matches(['.', ' ']).len();
    if kept < name.len() {
        name.replace_range(kept.., &"_".repeat(name.len() - kept));
    }
    if is_device(&name) || is_short_alias(&name) {
        name.insert(0, '_');
    }
    name
}

/// Whether a file system may refuse or ignore a character, or a person may not see it.
fn is_unsafe(character: char) -> bool {
    matches!(character, '<' | '>' | ':' | '"' | '/' | '\\' | '|' | '?' | '*' | '\u{FFFD}')
        || character.is_control()
        || matches!(character as u32, 0xAD | 0x34F | 0x61C | 0x115F..=0x1160 | 0x17B4..=0x17B5 | 0x180B..=0x180F
            | 0x200B..=0x200F | 0x2028..=0x202E | 0x2060..=0x206F | 0x3164 | 0xE000..=0xF8FF | 0xFDD0..=0xFDEF
            | 0xFE00..=0xFE0F | 0xFEFF | 0xFFA0 | 0xFFF0..=0xFFFB | 0xE0000.. | 0x1BCA0..=0x1BCA3 | 0x1D173..=0x1D17A)
        || character as u32 & 0xFFFE == 0xFFFE
}

fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().trim_end();
    let stem = stem.to_lowercase();
    let numbered = ["com", "lpt"].iter().any(|device| {
        let number = stem.strip_prefix(device).unwrap_or_default();
        number.chars().count() == 1 && number.chars().all(|it| it.is_ascii_digit() || "¹²³".contains(it))
    });
    numbered || DEVICES.contains(&stem.as_str())
}

/// Whether Windows may have given another file this short name, such as `LONGNA~1.HTM`.
fn is_short_alias(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default();
    stem.rsplit_once('~').is_some_and(|(start, number)| {
        start.len() <= 6 && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Shortens a name that is longer than `max` bytes, and adds a hash of what it comes from.
fn shortened(name: String, from: &str, max: usize) -> String {
    if name.len() <= max {
        return name;
    }
    let (stem, extension) = split_extension(&name);
    let mut end = max - HASH_BYTES - extension.len();
    while !stem.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{}{extension}", &stem[..end], hash(from))
}

/// A path with the hash of its URL in the name of the file.
fn with_hash(path: &str, url: &str, tries: u32) -> String {
    let start = path.rfind('/').map_or(0, |slash| slash + 1);
    let (stem, extension) = split_extension(&path[start..]);
    let hash = if tries == 0 { hash(url) } else { hash(&format!("{url} {tries}")) };
    format!("{}{stem}{hash}{extension}", &path[..start])
}

/// Splits a name before the dot of its extension.
fn split_extension(name: &str) -> (&str, &str) {
    let length = extension(name).map_or(0, |extension| extension.len() + ".".len());
    debug_assert!(length <= MAX_EXTENSION_BYTES);
    name.split_at(name.len() - length)
}

/// `~` and 16 digits.
fn hash(text: &str) -> String {
    format!("~{:016x}", digest(text) as u64)
}

fn digest(text: &str) -> u128 {
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    digest.as_ref().first_chunk().map_or(0, |bytes| u128::from_le_bytes(*bytes))
}

/// Equal for paths that some file system takes for the same.
fn key(path: &str) -> u128 {
    digest(&fold(path))
}

/// A path without the differences that file systems may ignore: case, and forms of Unicode. It may ignore more than they do.
fn fold(path: &str) -> String {
    if path.is_ascii() {
        return path.to_ascii_lowercase();
    }
    let nfkd = DecomposingNormalizerBorrowed::new_nfkd();
    let folded = nfkd.normalize(path).to_uppercase().to_lowercase();
    nfkd.normalize(&folded).replace('ς', "σ")
}

#[cfg(test)]
mod tests;
