//! The files of a mirror by their URLs, and how one file refers to another.

use std::collections::HashMap;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use url::Url;

use super::file_type::{Conversion, FileType};
use super::paths;
use crate::config::MAX_REDIRECTS;
use crate::html::rewrite::Reference;
use crate::strip_query::StripQuery;

/// What is left unescaped in references to files. All other characters mean something in a URL, in HTML, in CSS or in a `srcset`.
const FILE: AsciiSet = NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'+')
    .remove(b'@')
    .remove(b'=');

/// What is escaped in a fragment.
const FRAGMENT: AsciiSet = percent_encoding::CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'\'')
    .add(b'<')
    .add(b'>')
    .add(b'`')
    .add(b'(')
    .add(b')')
    .add(b',');

/// The URLs of a mirror.
#[derive(Debug, Default)]
pub(super) struct SiteIndex {
    entries: HashMap<Box<str>, SiteEntry>,
    strip_query: StripQuery,
}

/// What a URL led to.
#[derive(Debug)]
enum SiteEntry {
    /// A file, whose content is in the record at this position.
    File { position: u64, file_type: FileType, path: Box<str> },
    /// A redirect to another URL, or the same content as that of another URL.
    Alias { target: Box<str>, fragment: Option<Box<str>> },
}

impl SiteIndex {
    /// Adds a file, whose content is at `position`. It replaces what was added for the same URL before, except for a page: the URL of
    /// a page may have been fetched as an image, say, too.
    pub(super) fn add_file(&mut self, url: &str, file_type: FileType, position: u64) {
        let is_other = file_type.conversion() == Conversion::None;
        match self.entries.get(url) {
            Some(SiteEntry::File { file_type, .. })
                if is_other && file_type.conversion() != Conversion::None => {}
            _ => drop(
                self.entries
                    .insert(url.into(), SiteEntry::File { position, file_type, path: Box::default() }),
            ),
        }
    }

    /// Adds a URL that leads to another one, or to a place in it, unless it is known as a file.
    pub(super) fn add_alias(&mut self, url: &str, target: &str, fragment: Option<&str>) {
        let alias = || SiteEntry::Alias { target: target.into(), fragment: fragment.map(Into::into) };
        self.entries.entry(url.into()).or_insert_with(alias);
    }

    /// Removes a URL that led to something else at an earlier visit.
    pub(super) fn remove(&mut self, url: &str) {
        self.entries.remove(url);
    }

    /// Sets the query parameters that the crawl removed from URLs.
    pub(super) fn set_strip_query(&mut self, strip_query: StripQuery) {
        self.strip_query = strip_query;
    }

    /// Chooses the paths of all files.
    pub(super) fn assign_paths(&mut self) {
        let files = self.entries.iter_mut().filter_map(|(url, entry)| match entry {
            SiteEntry::File { file_type, path, .. } => Some(((&**url, *file_type), path)),
            SiteEntry::Alias { .. } => None,
        });
        let (urls, places): (Vec<_>, Vec<_>) = files.unzip();
        for (place, path) in places.into_iter().zip(paths::assign(&urls)) {
            *place = path.into();
        }
    }

    /// The path and the type of a file, if its content is in the record at this position.
    pub(super) fn file_at(&self, url: &str, position: u64) -> Option<(&str, FileType)> {
        match self.entries.get(url)? {
            SiteEntry::File { position: recorded, file_type, path } if *recorded == position => {
                Some((path, *file_type))
            }
            _ => None,
        }
    }

    /// The URLs and paths of all files, in the order of the paths.
    pub(super) fn files(&self) -> Vec<(&str, &str)> {
        let files = self.entries.iter().filter_map(|(url, entry)| match entry {
            SiteEntry::File { path, .. } => Some((&**url, &**path)),
            SiteEntry::Alias { .. } => None,
        });
        let mut files: Vec<(&str, &str)> = files.collect();
        files.sort_unstable_by_key(|(_, path)| *path);
        files
    }

    /// The path of the file that a URL leads to, and the fragment that redirects gave on the way.
    fn find(&self, url: &str) -> Option<(&str, Option<&str>)> {
        let stripped = self.strip_query.strip(url);
        let (mut url, mut redirected) = (&*stripped, None);
        for _ in 0..=MAX_REDIRECTS + 1 {
            match self.entries.get(url)? {
                SiteEntry::File { path, .. } => return Some((path, redirected)),
                SiteEntry::Alias { target, fragment } => {
                    (url, redirected) = (target, fragment.as_deref().or(redirected));
                }
            }
        }
        None
    }

    /// What is written in place of a reference in the file `from` of the URL `page`: the path of a file in the mirror, otherwise its
    /// URL. `None` if it stays as it is.
    pub(super) fn replacement(&self, page: &Url, from: &str, reference: &Reference) -> Option<String> {
        let url = reference.url.ok()?;
        let target = reference.target.trim_matches(|c: char| c <= ' ');
        let is_place_in_page = target.is_empty() || target.starts_with('#');
        // Otherwise the page has a base URL.
        if is_place_in_page && url == page.as_str() {
            return None;
        }
        let (mut replacement, fragment) = match self.find(url) {
            Some((file, redirected)) => (relative(from, file), redirected.or(reference.fragment)),
            None if is_absolute(target) => return None,
            None => (url.replace('\'', "%27"), reference.fragment),
        };
        if let Some(fragment) = fragment {
            let fragment = fragment.replace(['\t', '\n', '\r'], "");
            replacement.push('#');
            replacement.extend(utf8_percent_encode(&fragment, &FRAGMENT));
        }
        Some(replacement)
    }
}

fn is_absolute(target: &str) -> bool {
    let has_scheme =
        |scheme: &str| target.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    has_scheme("http://") || has_scheme("https://")
}

/// The reference from one file of the mirror to another.
fn relative(from: &str, to: &str) -> String {
    let from: Vec<&str> = from.split('/').collect();
    let to: Vec<&str> = to.split('/').collect();
    let directories = (from.len() - 1).min(to.len() - 1);
    let common = (0..directories).take_while(|&index| from[index] == to[index]).count();
    let up = from.len() - 1 - common;
    let down: Vec<String> =
        to[common..].iter().map(|name| utf8_percent_encode(name, &FILE).to_string()).collect();
    format!("{}{}", "../".repeat(up), down.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::start_tag::ReferenceKind;

    fn index() -> SiteIndex {
        let html = FileType::new(Some("text/html"), None, "/");
        let mut index = SiteIndex::default();
        for url in [
            "http://h.test/",
            "http://h.test/docs/a%20b?x=1&y",
            "http://h.test/100%25",
            "http://other.test/x",
        ] {
            index.add_file(url, html, 7);
        }
        index.add_alias("http://h.test/old", "http://h.test/older", None);
        index.add_alias("http://h.test/older", "http://h.test/100%25", None);
        index.add_alias("http://h.test/loop", "http://h.test/loop", None);
        index.add_alias("http://h.test/first", "http://h.test/part", Some("first"));
        index.add_alias("http://h.test/part", "http://h.test/older", Some("a b"));
        index.set_strip_query(StripQuery::new(&["utm_*"]).unwrap());
        index.assign_paths();
        index
    }

    fn replaced(target: &str) -> Option<String> {
        let page: Url = "http://h.test/docs/a%20b?x=1&y".parse().unwrap();
        let url = crate::html::resolve(&page, target);
        let url = url.as_ref().map(|url| url.as_str()).map_err(|error| *error);
        let fragment = target.split_once('#').map(|(_, fragment)| fragment.trim_end());
        let index = index();
        let (from, _) = index.file_at(page.as_str(), 7).unwrap();
        index.replacement(&page, from, &Reference { kind: ReferenceKind::Other, target, url, fragment })
    }

    #[test]
    fn reference_to_a_file_is_its_relative_path() {
        for (target, expected) in [
            ("/", "../index.html"),
            (" /#top ", "../index.html#top"),
            ("http://H.test/docs/a%20b?x=1&y#é b", "a%20b@x=1%26y.html#%C3%A9%20b"),
            ("/100%25", "../100%25.html"),
            ("//other.test/x", "../../other.test/x.html"),
            ("/old#x", "../100%25.html#x"),
            ("/first", "../100%25.html#a%20b"),
            ("/first#x", "../100%25.html#a%20b"),
            ("/?utm_source=a#b", "../index.html#b"),
        ] {
            assert_eq!(replaced(target), Some(expected.into()), "{target}");
        }
    }

    #[test]
    fn reference_to_anything_else_is_its_url() {
        for (target, expected) in [
            ("/missing?a=1&b#c", "http://h.test/missing?a=1&b#c"),
            ("//x.test/y", "http://x.test/y"),
            ("/loop", "http://h.test/loop"),
            ("it's", "http://h.test/docs/it%27s"),
        ] {
            assert_eq!(replaced(target), Some(expected.into()), "{target}");
        }
        for target in [
            "http://x.test/y",
            "HTTPS://x.test",
            "#here",
            "",
            "mailto:a@b",
            "data:,x",
            "javascript:void(0)",
            "http://[",
        ] {
            assert_eq!(replaced(target), None, "{target}");
        }
    }
}
