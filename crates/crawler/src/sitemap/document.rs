//! Reads the text of a sitemap piece by piece: XML sitemaps and indexes, RSS and Atom feeds, and lists of URLs, one per line.

use quick_xml::errors::Error;
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::reader::Reader;
use url::Url;

use super::date::unix_seconds;
use super::resolver::SitemapResolver;
use crate::format::counted;
use crate::html::{BadLink, MAX_TARGET_BYTES};
use crate::url_list::UrlList;

/// The most URLs of a file, and the most sitemaps of an index, by the sitemap protocol.
pub const MAX_URLS: usize = 50_000;

/// The most bytes of a file's URLs together. Fifty thousand URLs of common length take a third of it.
const MAX_LIST_BYTES: usize = 16 << 20;

/// The longest piece of markup, such as a tag or a comment. It must be read completely before it means anything.
const MAX_MARKUP_BYTES: usize = 64 << 10;

/// How much text is new before it is read. The text before it may be read again with it, so a file that arrives byte by byte
/// must not be read byte by byte.
const MIN_NEW_BYTES: usize = 16 << 10;

/// What a sitemap contains.
#[derive(Debug, Default)]
pub struct Contents {
    /// The URLs of pages, normalized.
    pub urls: UrlList,
    /// When pages were last modified: the index of a URL, and the Unix time in seconds.
    pub lastmods: Vec<(u32, u32)>,
    /// The URLs of further sitemaps, normalized.
    pub sitemaps: UrlList,
    /// Entries that are not URLs that can be fetched.
    pub bad_links: Vec<BadLink>,
    /// Why the file was not read to its end, or is no sitemap. What was read before is used.
    pub problem: Option<String>,
    list_bytes: usize,
}

/// A sitemap that is being read.
pub(super) struct Document {
    resolver: SitemapResolver,
    form: Form,
    /// Text that is not read yet.
    buffer: String,
    /// How much of the buffer was there already when it was read last: the start of an incomplete piece.
    incomplete: usize,
    /// The number of open elements.
    open: usize,
    entry: SitemapEntry,
    pub(super) contents: Contents,
    is_done: bool,
}

/// The form of a sitemap.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Nothing but white space was read yet.
    Unknown,
    /// One URL per line.
    Lines,
    /// XML before its root element.
    Prolog,
    /// A list of pages.
    Pages,
    /// A list of sitemaps.
    Index,
    Rss,
    Atom,
}

impl Form {
    /// The name of the elements that each describe one URL.
    fn entry(self) -> &'static str {
        match self {
            Form::Pages => "url",
            Form::Index => "sitemap",
            Form::Rss => "item",
            Form::Atom => "entry",
            Form::Unknown | Form::Lines | Form::Prolog => "",
        }
    }

    fn field(self, name: &str) -> EntryField {
        match (self, name) {
            (Form::Pages | Form::Index, "loc") | (Form::Rss, "link") => EntryField::Url,
            (Form::Pages | Form::Index, "lastmod")
            | (Form::Rss, "pubDate" | "date")
            | (Form::Atom, "updated") => EntryField::Date,
            _ => EntryField::Other,
        }
    }
}

/// What the text of an element means.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum EntryField {
    #[default]
    Other,
    Url,
    Date,
}

/// The entry that is being read.
#[derive(Default)]
struct SitemapEntry {
    /// The number of open elements in its own element; 0 outside of an entry.
    level: usize,
    url: String,
    date: String,
    field: EntryField,
    /// Its URL is too long, or has an entity that is not defined by XML itself.
    bad_link: Option<BadLink>,
}

impl Document {
    /// A sitemap at this URL, to which its URLs may be relative.
    pub(super) fn new(base: Url) -> Document {
        Document {
            resolver: SitemapResolver::new(base),
            form: Form::Unknown,
            buffer: String::new(),
            incomplete: 0,
            open: 0,
            entry: SitemapEntry::default(),
            contents: Contents::default(),
            is_done: false,
        }
    }

    /// Where decoded text is appended.
    pub(super) fn buffer(&mut self) -> &mut String {
        &mut self.buffer
    }

    /// Reads what was appended to the buffer. Returns whether more is wanted.
    pub(super) fn read(&mut self, is_last: bool) -> bool {
        if self.is_done {
            self.buffer.clear();
            return false;
        }
        if !is_last && self.buffer.len() < self.incomplete + MIN_NEW_BYTES {
            return true;
        }
        if self.form == Form::Unknown {
            let start = self.buffer.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
            match start.chars().next() {
                None => self.buffer.clear(),
                Some('<') => self.form = Form::Prolog,
                Some(_) => self.form = Form::Lines,
            }
        }
        match self.form {
            Form::Unknown => {}
            Form::Lines => self.read_lines(is_last),
            _ => self.read_markup(is_last),
        }
        self.incomplete = self.buffer.len();
        if is_last && !self.is_done {
            match self.form {
                Form::Unknown => self.fail("it is empty"),
                Form::Prolog => self.fail("it has no root element"),
                Form::Lines => {}
                _ if self.open > 0 => self.fail("it is truncated"),
                _ => {}
            }
        }
        !self.is_done
    }

    /// Stops reading.
    pub(super) fn fail(&mut self, problem: impl Into<String>) {
        self.contents.problem.get_or_insert_with(|| problem.into());
        self.is_done = true;
    }

    fn read_lines(&mut self, is_last: bool) {
        let end = match is_last {
            true => self.buffer.len(),
            false => self.buffer.rfind(['\n', '\r']).map_or(0, |end| end + 1),
        };
        let text = std::mem::take(&mut self.buffer);
        for line in text[..end].split(['\n', '\r']) {
            let line = line.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
            if line.is_empty() || self.is_done {
                continue;
            }
            let is_url = ["http://", "https://"].iter().any(|scheme| {
                line.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
            });
            if !is_url && self.contents.listed() == 0 {
                self.fail("it is neither XML nor a list of URLs");
            } else {
                self.add(Ok(line), None, false);
            }
        }
        self.buffer.push_str(&text[end..]);
        if self.buffer.len() > MAX_TARGET_BYTES && !self.is_done {
            if self.contents.listed() == 0 {
                self.fail("it is neither XML nor a list of URLs");
            } else {
                self.buffer.clear();
                self.add(Err(BadLink::TooLong), None, false);
            }
        }
    }

    fn read_markup(&mut self, is_last: bool) {
        let text = std::mem::take(&mut self.buffer);
        let mut reader = Reader::from_str(&text);
        let config = reader.config_mut();
        // Each piece of the file has a reader of its own, which does not know the elements that are open.
        (config.check_end_names, config.allow_unmatched_ends, config.allow_dangling_amp) =
            (false, true, true);
        let mut read = 0;
        while !self.is_done {
            let event = match reader.read_event() {
                Ok(Event::Eof) => break,
                // A reference may continue in the next piece.
                Ok(Event::Text(text)) if !is_last && reader.get_ref().is_empty() && text.contains('&') => {
                    break;
                }
                Ok(event) => event,
                // The markup may end in the next piece.
                Err(Error::Syntax(_)) if !is_last => break,
                Err(Error::Syntax(_)) => {
                    self.fail("it is truncated");
                    break;
                }
                Err(error) => {
                    self.fail(format!("it is not XML: {error}"));
                    break;
                }
            };
            self.event(event);
            read = text.len() - reader.get_ref().len();
        }
        if !self.is_done {
            self.buffer.push_str(&text[read..]);
            if self.buffer.len() > MAX_MARKUP_BYTES {
                self.fail(format!("it has a tag of more than {} KB", MAX_MARKUP_BYTES >> 10));
            }
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Start(tag) => {
                self.open += 1;
                self.start(&tag);
            }
            Event::Empty(tag) => {
                self.open += 1;
                self.start(&tag);
                self.end();
            }
            Event::End(_) => self.end(),
            Event::Text(text) => self.text(&text),
            Event::CData(text) => self.text(&text),
            Event::GeneralRef(reference) => self.reference(&reference),
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) | Event::Eof => {}
        }
    }

    fn start(&mut self, tag: &BytesStart) {
        let name = local_name(tag.name().into_inner());
        if self.form == Form::Prolog {
            self.form = match name {
                "urlset" => Form::Pages,
                "sitemapindex" => Form::Index,
                "rss" | "RDF" => Form::Rss,
                "feed" => Form::Atom,
                name if name.eq_ignore_ascii_case("html") => return self.fail("it is an HTML page"),
                _ => return self.fail("its root element is none of a sitemap or feed"),
            };
            return;
        }
        let entry = &mut self.entry;
        if entry.level == 0 {
            if name == self.form.entry() {
                *entry = SitemapEntry { level: self.open, ..SitemapEntry::default() };
            }
        } else if self.open == entry.level + 1 {
            entry.field = self.form.field(name);
            if self.form == Form::Atom && name == "link" && entry.url.is_empty() {
                entry.url = alternate_link(tag).unwrap_or_default();
            }
        }
    }

    fn end(&mut self) {
        self.open = self.open.saturating_sub(1);
        let entry = &mut self.entry;
        if entry.level > 0 && self.open <= entry.level {
            entry.field = EntryField::Other;
        }
        if entry.level > 0 && self.open < entry.level {
            let entry = std::mem::take(entry);
            let is_sitemap = self.form == Form::Index;
            let url = entry.bad_link.map_or(Ok(entry.url.trim()), Err);
            if url != Ok("") {
                self.add(url, unix_seconds(&entry.date), is_sitemap);
            }
        }
    }

    fn text(&mut self, text: &str) {
        let SitemapEntry { field, url, date, bad_link, .. } = &mut self.entry;
        match field {
            EntryField::Url if url.len() + text.len() > MAX_TARGET_BYTES => {
                *bad_link = Some(BadLink::TooLong)
            }
            EntryField::Url => url.push_str(text),
            EntryField::Date if date.len() + text.len() < 100 => date.push_str(text),
            EntryField::Date | EntryField::Other => {}
        }
    }

    /// Entities that the file defines are not expanded: a few bytes could become gigabytes.
    fn reference(&mut self, reference: &BytesRef) {
        if self.entry.field == EntryField::Other {
            return;
        }
        let character = match reference.resolve_char_ref() {
            Ok(Some(character)) => Some(character),
            _ => match &**reference {
                "amp" => Some('&'),
                "lt" => Some('<'),
                "gt" => Some('>'),
                "quot" => Some('"'),
                "apos" => Some('\''),
                _ => None,
            },
        };
        match character {
            Some(character) => self.text(character.encode_utf8(&mut [0; 4])),
            None => self.entry.bad_link = Some(BadLink::Malformed),
        }
    }

    fn add(&mut self, url: Result<&str, BadLink>, date: Option<u32>, is_sitemap: bool) {
        if self.contents.listed() >= MAX_URLS {
            let what = if is_sitemap { "sitemap" } else { "URL" };
            return self.fail(format!("it has more than {}", counted(MAX_URLS as u64, what)));
        }
        let url = match url.map(|url| self.resolver.resolve(url)) {
            Ok(None) => return self.fail("its international names of hosts take too long"),
            Ok(Some(Ok(url))) => url,
            Ok(Some(Err(bad_link))) | Err(bad_link) => return self.contents.bad_links.push(bad_link),
        };
        let contents = &mut self.contents;
        contents.list_bytes += url.as_str().len();
        if contents.list_bytes > MAX_LIST_BYTES {
            return self.fail(format!("its URLs take more than {} MB", MAX_LIST_BYTES >> 20));
        }
        if is_sitemap {
            contents.sitemaps.push(url.as_str());
            return;
        }
        contents.lastmods.extend(date.map(|date| (contents.urls.len() as u32, date)));
        contents.urls.push(url.as_str());
    }
}

impl Contents {
    /// The number of URLs and sitemaps that the file lists, as far as it was read.
    pub fn listed(&self) -> usize {
        self.urls.len() + self.sitemaps.len() + self.bad_links.len()
    }
}

fn local_name(name: &str) -> &str {
    name.rsplit_once(':').map_or(name, |(_, local)| local)
}

/// The target of an Atom link, if it is the page of its entry.
fn alternate_link(tag: &BytesStart) -> Option<String> {
    let (mut href, mut is_alternate) = (None, true);
    // A malformed attribute is skipped.
    for attribute in tag.attributes().with_checks(false).flatten() {
        let value = || quick_xml::escape::unescape(&attribute.value).ok().map(|value| value.into_owned());
        match attribute.key.into_inner() {
            "href" => href = value(),
            "rel" => is_alternate = value().is_none_or(|rel| rel == "alternate"),
            _ => {}
        }
    }
    href.filter(|href| is_alternate && href.len() <= MAX_TARGET_BYTES)
}
