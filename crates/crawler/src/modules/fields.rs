//! The fields of a page: their names, types and values. Only this file knows them.
//!
//! `jsonl`, `csv` and `parquet` write the same fields. A field that is not chosen is not computed.

use std::borrow::Cow;
use std::time::SystemTime;

use serde::{Serialize, Serializer};

use super::timestamp;
use crate::html::head;
use crate::media::Media;
use crate::page::Page;

/// The type of a field. A value of each type can also be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldType {
    /// Text of any length, UTF-8.
    Text,
    /// A number that is not negative.
    Integer,
    /// Yes or no.
    Boolean,
    /// A moment, written as RFC 3339 in UTC.
    Time,
    /// A list of texts.
    List,
    /// Names with values, in order; a name may repeat.
    Pairs,
    /// Durations in milliseconds, with these names.
    Durations(&'static [&'static str]),
}

/// The value of a field for a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value<'p> {
    /// The page has no value.
    Missing,
    Text(Cow<'p, str>),
    Integer(u64),
    Boolean(bool),
    Time(SystemTime),
    List(Vec<&'p str>),
    Pairs(Vec<(&'p str, Cow<'p, str>)>),
    Durations(Vec<(&'static str, u64)>),
}

impl<'p> Value<'p> {
    fn text(text: Option<impl Into<Cow<'p, str>>>) -> Value<'p> {
        text.map_or(Value::Missing, |text| Value::Text(text.into()))
    }

    fn time(time: Option<SystemTime>) -> Value<'p> {
        time.map_or(Value::Missing, Value::Time)
    }
}

/// A missing value is null, a time its text; pairs are arrays of two, durations an object.
impl Serialize for Value<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::Missing => serializer.serialize_none(),
            Value::Text(text) => serializer.serialize_str(text),
            Value::Integer(number) => serializer.serialize_u64(*number),
            Value::Boolean(is_set) => serializer.serialize_bool(*is_set),
            Value::Time(time) => serializer.serialize_str(&timestamp::rfc3339(*time)),
            Value::List(texts) => serializer.collect_seq(texts),
            Value::Pairs(pairs) => serializer.collect_seq(pairs),
            Value::Durations(durations) => serializer.collect_map(durations.iter().copied()),
        }
    }
}

/// A field of a page.
#[derive(Debug)]
pub(super) struct Field {
    /// The key in JSON, and the name of the column in tables.
    pub(super) name: &'static str,
    pub(super) kind: FieldType,
    /// Whether it is written if no fields are chosen.
    is_default: bool,
    value: for<'p> fn(&'p Page) -> Value<'p>,
}

impl Field {
    const fn new(name: &'static str, kind: FieldType, value: for<'p> fn(&'p Page) -> Value<'p>) -> Field {
        Field { name, kind, is_default: true, value }
    }

    /// A field that has to be selected, because it is large or takes long.
    const fn on_request(self) -> Field {
        Field { is_default: false, ..self }
    }

    /// Its value for a page, always of its type or missing.
    pub(super) fn value<'p>(&self, page: &'p Page) -> Value<'p> {
        (self.value)(page)
    }
}

/// The durations of the field `timing`.
const TIMING: [&str; 2] = ["first_byte_ms", "total_ms"];

/// All fields, in the order in which they are written if none are chosen.
static FIELDS: [Field; 20] = [
    Field::new("url", FieldType::Text, |page| Value::Text(page.url.as_str().into())),
    Field::new("depth", FieldType::Integer, |page| Value::Integer(page.depth.into())),
    Field::new("status", FieldType::Integer, |page| Value::Integer(page.status.into())),
    Field::new("title", FieldType::Text, |page| Value::Text(page.title.as_str().into())),
    Field::new("language", FieldType::Text, |page| Value::text(page.language())),
    Field::new("canonical", FieldType::Text, |page| Value::text(canonical(page))),
    Field::new("content_type", FieldType::Text, |page| Value::text(page.content_type())),
    Field::new("bytes", FieldType::Integer, |page| Value::Integer(page.body.len() as u64)),
    Field::new("truncated", FieldType::Boolean, |page| Value::Boolean(page.truncated)),
    Field::new("fetched", FieldType::Time, |page| Value::Time(page.fetched)),
    Field::new("lastmod", FieldType::Time, |page| Value::time(page.lastmod)),
    Field::new("version", FieldType::Integer, |page| Value::Integer(page.version.into())),
    Field::new("changed", FieldType::Boolean, |page| Value::Boolean(page.changed)),
    Field::new("robots", FieldType::List, |page| Value::List(page.robots.names().collect())),
    Field::new("links", FieldType::List, |page| Value::List(page.links.iter().collect())),
    Field::new("referrer", FieldType::Text, |page| Value::text(page.found_on.as_deref())).on_request(),
    Field::new("redirects", FieldType::List, |page| {
        Value::List(page.redirects.iter().map(String::as_str).collect())
    })
    .on_request(),
    Field::new("timing", FieldType::Durations(&TIMING), |page| Value::Durations(timing(page))).on_request(),
    Field::new("headers", FieldType::Pairs, |page| Value::Pairs(page.headers().collect())).on_request(),
    Field::new("text", FieldType::Text, |page| Value::Text(page.text())).on_request(),
];

/// Chosen fields, in the order in which they are written.
#[derive(Debug, Clone)]
pub(super) struct Fields(Vec<&'static Field>);

impl Default for Fields {
    fn default() -> Fields {
        Fields(FIELDS.iter().filter(|field| field.is_default).collect())
    }
}

impl Fields {
    /// Parses names that are separated by commas, such as `url,title,text`.
    pub(super) fn parse(names: &str) -> Result<Fields, String> {
        let mut fields: Vec<&'static Field> = Vec::new();
        for name in names.split(',').map(str::trim) {
            let Some(field) = FIELDS.iter().find(|field| field.name == name) else {
                let all: Vec<&str> = FIELDS.iter().map(|field| field.name).collect();
                return Err(format!("there is no field '{name}'; fields are {}", all.join(", ")));
            };
            if fields.iter().any(|chosen| chosen.name == name) {
                return Err(format!("field '{name}' is given twice"));
            }
            fields.push(field);
        }
        Ok(Fields(fields))
    }

    /// These fields and further ones, which must exist.
    pub(super) fn with(mut self, names: &[&str]) -> Fields {
        self.0.extend(names.iter().filter_map(|name| FIELDS.iter().find(|field| field.name == *name)));
        self
    }

    /// The [format](super::BuiltinOutput::format) of an output with these fields. The default fields are not named.
    pub(super) fn format(&self, output: &str) -> String {
        match self.names() == Fields::default().names() {
            true => output.to_owned(),
            false => format!("{output},fields={}", self.names()),
        }
    }

    /// The names, separated by commas.
    pub(super) fn names(&self) -> String {
        self.iter().map(|field| field.name).collect::<Vec<_>>().join(",")
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &'static Field> {
        self.0.iter().copied()
    }

    /// Whether one of them is how the page was found.
    pub(super) fn want_found_on(&self) -> bool {
        self.0.iter().any(|field| ["referrer", "redirects"].contains(&field.name))
    }
}

/// How long the response took to start, and to finish, from the request on, in milliseconds.
fn timing(page: &Page) -> Vec<(&'static str, u64)> {
    let since = |end: SystemTime| end.duration_since(page.requested).unwrap_or_default().as_millis() as u64;
    TIMING.into_iter().zip([since(page.first_byte), since(page.fetched)]).collect()
}

/// The canonical URL that the page declares, otherwise the one of its Link headers.
fn canonical(page: &Page) -> Option<String> {
    let declared = match page.media {
        Media::Html => head::canonical(&page.url, page.content_type().as_deref(), &page.body),
        _ => None,
    };
    let of_header = || {
        let links = page.headers().filter(|(name, _)| *name == "link");
        links.filter_map(|(_, value)| canonical_link(&value).map(str::to_owned)).next()
    };
    let resolved = || crate::html::resolve(&page.url, &of_header()?).ok();
    declared.or_else(resolved).map(String::from)
}

/// The target of the first link with `rel=canonical` in a Link header (RFC 8288).
fn canonical_link(header: &str) -> Option<&str> {
    let mut rest = header;
    while let Some((_, link)) = rest.split_once('<') {
        let (target, after) = link.split_once('>')?;
        let end = link_end(after);
        let is_canonical = after[..end].split(';').any(|parameter| {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let mut relations = value.trim().trim_matches('"').split_ascii_whitespace();
            name.trim().eq_ignore_ascii_case("rel")
                && relations.any(|relation| relation.eq_ignore_ascii_case("canonical"))
        });
        if is_canonical {
            return Some(target);
        }
        rest = &after[end..];
    }
    None
}

/// Where the parameters of a link end: at the first comma outside of quotes.
fn link_end(parameters: &str) -> usize {
    let mut is_quoted = false;
    let is_end = |(_, byte): &(usize, u8)| {
        is_quoted ^= *byte == b'"';
        *byte == b',' && !is_quoted
    };
    parameters.bytes().enumerate().find(is_end).map_or(parameters.len(), |(position, _)| position)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules::example;
    use hyper::header::{HeaderName, HeaderValue};

    fn page(body: &str, headers: &[(&'static str, &'static str)]) -> Page {
        let mut page = example::page("http://a.test/x/", body.as_bytes(), &[]);
        for (name, value) in headers {
            page.headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        page
    }

    #[test]
    fn every_value_has_the_type_of_its_field() {
        let mut page = page("<html lang=en><link rel=canonical href=y><p>text", &[]);
        page.lastmod = Some(page.fetched);
        for field in &FIELDS {
            let value = field.value(&page);
            let kind = match value {
                Value::Missing => continue,
                Value::Text(_) => FieldType::Text,
                Value::Integer(_) => FieldType::Integer,
                Value::Boolean(_) => FieldType::Boolean,
                Value::Time(_) => FieldType::Time,
                Value::List(_) => FieldType::List,
                Value::Pairs(_) => FieldType::Pairs,
                Value::Durations(ref durations) => {
                    assert!(durations.iter().map(|(name, _)| *name).eq(TIMING));
                    FieldType::Durations(&TIMING)
                }
            };
            assert_eq!(field.kind, kind, "{}", field.name);
        }
    }

    #[test]
    fn fields_have_the_order_given() {
        let names = |fields: Fields| fields.iter().map(|field| field.name).collect::<Vec<_>>().join(",");
        assert_eq!(names(Fields::parse("text, url").unwrap()), "text,url");
        for field in ["text", "headers", "referrer", "redirects", "timing"] {
            assert!(!Fields::default().iter().any(|default| default.name == field), "{field}");
        }
        assert!(names(Fields::default()).starts_with("url,depth,status,title,"));
    }

    #[test]
    fn error_names_the_field_and_all_fields() {
        let error = Fields::parse("url,colour").unwrap_err();
        assert!(
            error.starts_with("there is no field 'colour'; fields are url, depth, status, title, "),
            "{error}"
        );
        assert!(error.ends_with(", text"), "{error}");
        assert!(Fields::parse("").unwrap_err().starts_with("there is no field ''; "));
        assert_eq!(Fields::parse("url,url").unwrap_err(), "field 'url' is given twice");
    }

    #[test]
    fn language_is_declared_by_the_page_or_else_by_one_header() {
        let declared = |body, headers: &[_]| page(body, headers).language();
        let german = ("content-language", " de ");
        assert_eq!(declared("<html lang=en>", &[german]).as_deref(), Some("en"));
        assert_eq!(declared("<html>", &[german]).as_deref(), Some("de"));
        assert_eq!(declared("<html lang=''>", &[german]), None, "the page declares that it is unknown");
        assert_eq!(declared("<html>", &[("content-language", "de, en")]), None);
        assert_eq!(declared("<html>", &[]), None);
    }

    #[test]
    fn canonical_url_is_declared_by_the_page_or_else_by_a_header() {
        let declared = |body, headers: &[_]| canonical(&page(body, headers));
        let link = (
            "link",
            "</a,b>; rel=preload; title=\"x, <y>\", <../c>;  REL=\"next Canonical\"; x, <d>; rel=canonical",
        );
        assert_eq!(declared("<p>", &[("link", "<z>; rel=next"), link]).as_deref(), Some("http://a.test/c"));
        assert_eq!(declared("<link rel=canonical href=/e>", &[link]).as_deref(), Some("http://a.test/e"));
        for header in
            ["", "<", "<a", "<a>", "<a>; rel", "<a>; rel=\"", "rel=canonical", "<mailto:x>; rel=canonical"]
        {
            assert_eq!(declared("<p>", &[("link", header)]), None, "{header}");
        }
    }
}
