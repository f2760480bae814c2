//! The site as files that a browser can open: one directory per host, and links that lead from file to file.
//!
//! During the crawl, the bodies are appended to the records file. At the end, a first pass over it chooses the path of each file, and
//! a second one writes the files with their links converted.

mod file_type;
mod paths;
mod site_index;
mod tree;

use std::borrow::Cow;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use url::Url;

use self::file_type::{Conversion, FileType};
use self::paths::LIST_NAME;
use self::site_index::SiteIndex;
use self::tree::NewTree;
use super::output::finish::{Finisher, Records, push_record};
use super::{BuiltinOutput, OutputSpec, OutputWrite, Target};
use crate::error::StorageError;
use crate::html::rewrite::{Reference, rewrite, rewrite_css};
use crate::media::Media;
use crate::outcome::Outcome;
use crate::page::Page;
use crate::strip_query::StripQuery;
use crate::task_kind::shown_url;
use crate::url_record::UrlRecord;

/// Pages, and the files that they need, as a directory tree.
#[derive(Debug, Clone, Default)]
pub struct Mirror {
    /// The query parameters that the crawl removes from URLs.
    strip_query: Vec<String>,
}

impl Mirror {
    /// The output to a directory. It needs a name: the records are written next to it.
    pub(super) fn output(directory: Option<&str>) -> Result<OutputSpec, &'static str> {
        let directory = directory.ok_or("it needs a directory")?;
        // Without slashes at the end.
        let directory: PathBuf = Path::new(directory).components().collect();
        match directory.file_name() {
            Some(name) if name != "-" => {
                Ok(OutputSpec { output: Box::new(Mirror::default()), target: Target::Directory(directory) })
            }
            _ => Err("it needs a directory with a name"),
        }
    }
}

/// The first line of a record. The body follows.
#[derive(Debug, Default, Serialize, Deserialize)]
struct RecordHead<'r> {
    #[serde(borrow)]
    url: Cow<'r, str>,
    /// The URL that this one leads to, if there is no body: the target of its redirect, or one with the same content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    leads_to: Option<Cow<'r, str>>,
    /// Whether the URL leads there since a later visit than the one that fetched its content.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    has_moved: bool,
    /// The fragment of the target of a redirect.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    fragment: Option<Cow<'r, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content_type: Option<Cow<'r, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    media: Option<RecordedMedia>,
    #[serde(default, skip_serializing_if = "<[String]>::is_empty")]
    strip_query: Cow<'r, [String]>,
}

/// What the crawl took a page for.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RecordedMedia {
    Html,
    Text,
}

impl<'r> RecordHead<'r> {
    fn of_page(page: &'r Page, strip_query: &'r [String]) -> RecordHead<'r> {
        let media = match page.media {
            Media::Html => Some(RecordedMedia::Html),
            Media::Text => Some(RecordedMedia::Text),
            Media::Other => None,
        };
        RecordHead {
            url: page.url.as_str().into(),
            leads_to: None,
            has_moved: false,
            fragment: None,
            content_type: page.content_type(),
            media,
            strip_query: strip_query.into(),
        }
    }

    /// The head and the body of a record.
    fn read(record: &'r [u8], records: &Records) -> Result<(RecordHead<'r>, &'r [u8]), StorageError> {
        let end = memchr::memchr(b'\n', record).ok_or_else(|| records.damaged())?;
        let head = serde_json::from_slice(&record[..end]).map_err(|_| records.damaged())?;
        Ok((head, &record[end + 1..]))
    }

    /// The bytes of a record.
    fn write(&self, body: &[u8]) -> Vec<u8> {
        let mut record = serde_json::to_vec(self).expect("strings are always JSON");
        record.push(b'\n');
        record.extend_from_slice(body);
        let mut bytes = Vec::with_capacity(record.len() + size_of::<u64>());
        push_record(&mut bytes, &record);
        bytes
    }

    fn file_type(&self) -> FileType {
        let media = self.media.map(|media| match media {
            RecordedMedia::Html => Media::Html,
            RecordedMedia::Text => Media::Text,
        });
        let path = self.url.split('?').next().unwrap_or_default();
        FileType::new(self.content_type.as_deref(), media, path)
    }
}

impl BuiltinOutput for Mirror {
    fn name(&self) -> &str {
        "mirror"
    }

    fn finisher(&self) -> Option<&dyn Finisher> {
        Some(self)
    }

    fn render(&self, page: &Page) -> OutputWrite {
        OutputWrite::Append(RecordHead::of_page(page, &self.strip_query).write(&page.body))
    }

    fn wants_urls(&self) -> bool {
        true
    }

    fn wants_found_on(&self) -> bool {
        false
    }

    fn keeps_requisites(&self) -> bool {
        true
    }

    fn set_strip_query(&mut self, strip_query: &StripQuery) {
        self.strip_query = strip_query.patterns().to_vec();
    }

    fn render_url(&self, record: &UrlRecord) -> Vec<u8> {
        let has_moved = record.was_visited;
        match &record.outcome {
            // Links to where the URL redirects now are those that the page has, if the target is not in the mirror.
            Outcome::RedirectRejected { .. } if !has_moved => Vec::new(),
            Outcome::Redirect { to: target }
            | Outcome::RedirectRejected { to: target, .. }
            | Outcome::Duplicate { of: target, .. }
            | Outcome::NearDuplicate { of: target, .. } => {
                let leads_to = Some(shown_url(target).into());
                let fragment = record.request.redirect_fragment.as_deref().map(Cow::Borrowed);
                let url = record.url().into();
                RecordHead { url, leads_to, has_moved, fragment, ..RecordHead::default() }.write(b"")
            }
            _ => Vec::new(),
        }
    }
}

impl Finisher for Mirror {
    fn check_target(&self, target: &Path) -> Result<(), StorageError> {
        tree::check_target(target)
    }

    fn finish(&self, records: &Records, target: &Path) -> Result<(), StorageError> {
        let index = read_index(records)?;
        let mut tree = NewTree::create(target)?;
        write_files(records, &index, &mut tree)?;
        write_list(&index, &mut tree).map_err(|error| tree.error(LIST_NAME, error))?;
        tree.finish()
    }
}

/// The URLs of all records, with the paths of their files. A later record of a URL replaces an earlier one.
fn read_index(records: &Records) -> Result<SiteIndex, StorageError> {
    let (mut index, mut reader, mut record) = (SiteIndex::default(), records.read()?, Vec::new());
    loop {
        let position = reader.position();
        if !reader.next(&mut record)? {
            index.assign_paths();
            return Ok(index);
        }
        let (head, _) = RecordHead::read(&record, records)?;
        match &head.leads_to {
            Some(target) => {
                if head.has_moved {
                    index.remove(&head.url);
                }
                index.add_alias(&head.url, target, head.fragment.as_deref());
            }
            None => index.add_file(&head.url, head.file_type(), position),
        }
        if !head.strip_query.is_empty() {
            index.set_strip_query(StripQuery::new(&head.strip_query).map_err(|_| records.damaged())?);
        }
    }
}

/// Writes all files, with their links converted.
fn write_files(records: &Records, index: &SiteIndex, tree: &mut NewTree) -> Result<(), StorageError> {
    let (mut reader, mut record) = (records.read()?, Vec::new());
    loop {
        let position = reader.position();
        if !reader.next(&mut record)? {
            return Ok(());
        }
        let (head, body) = RecordHead::read(&record, records)?;
        if let Some((path, file_type)) = index.file_at(&head.url, position) {
            tree.write(path, &converted(&head, body, path, file_type, index))?;
        }
    }
}

/// The body of a file with its links converted.
fn converted<'r>(
    head: &RecordHead,
    body: &'r [u8],
    path: &str,
    file_type: FileType,
    index: &SiteIndex,
) -> Cow<'r, [u8]> {
    let Ok(url) = Url::parse(&head.url) else { return Cow::Borrowed(body) };
    let content_type = head.content_type.as_deref();
    let mut replace = |reference: &Reference| index.replacement(&url, path, reference);
    match file_type.conversion() {
        Conversion::None => Cow::Borrowed(body),
        Conversion::Html => Cow::Owned(rewrite(&url, content_type, body, &mut replace)),
        Conversion::Css => Cow::Owned(rewrite_css(&url, content_type, body, &mut replace)),
    }
}

/// Writes the list of all files: a JSON object with `url` and `file` for each.
fn write_list(index: &SiteIndex, tree: &mut NewTree) -> io::Result<()> {
    let mut list = BufWriter::new(tree.create_file(LIST_NAME)?);
    for (url, file) in index.files() {
        serde_json::to_writer(&mut list, &ListedFile { url: url.into(), file: file.into() })?;
        list.write_all(b"\n")?;
    }
    list.flush()
}

/// A line of the list.
#[derive(Serialize, Deserialize)]
struct ListedFile<'f> {
    #[serde(borrow)]
    url: Cow<'f, str>,
    #[serde(borrow)]
    file: Cow<'f, str>,
}

#[cfg(test)]
mod tests;
