//! The lines of a CDXJ index: where the record of a URL is, with what is needed to choose one.
//!
//! A line is the [key](super::surt) of the URL, a timestamp of 14 digits and a JSON object, in the form of cdxj-indexer.

use std::time::SystemTime;

use hyper::header::CONTENT_TYPE;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

use super::header::RecordType;
use super::http_message::ResponseHead;
use super::reader::WarcRecord;
use super::surt::surt;
use crate::modules::timestamp::rfc3339;

/// The type of the records that describe others in lines of text. No index has them.
const FIELDS_TYPE: &str = "application/warc-fields";

/// The type that an index has for revisits.
pub const REVISIT: &str = "warc/revisit";

/// A record in an index.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct IndexEntry {
    /// The key of the URL.
    #[serde(skip)]
    pub key: String,
    /// When it was captured: year, month, day, hour, minute and second, in 14 digits.
    #[serde(skip)]
    pub timestamp: String,
    /// The URL.
    pub url: String,
    /// The media type of the response.
    #[serde(default)]
    pub mime: Option<String>,
    /// The HTTP status.
    #[serde(default, deserialize_with = "optional_text")]
    pub status: Option<String>,
    /// The digest of the payload.
    #[serde(default)]
    pub digest: Option<String>,
    /// The bytes of the record, or its compressed member, in its file.
    #[serde(default, deserialize_with = "number")]
    pub length: u64,
    /// Where it starts.
    #[serde(deserialize_with = "number")]
    pub offset: u64,
    /// The name of the file.
    pub filename: String,
}

/// Whether an index has records of this kind.
pub fn is_indexed(record_type: RecordType, content_type: Option<&str>) -> bool {
    match record_type {
        RecordType::Response | RecordType::Revisit => true,
        RecordType::Resource | RecordType::Metadata => content_type != Some(FIELDS_TYPE),
        _ => false,
    }
}

impl IndexEntry {
    /// The entry of a record in a file of this name. The digest is that of its payload, if its header has none. An error says why
    /// it cannot be in an index.
    pub fn from_record(
        record: &WarcRecord,
        filename: &str,
        digest: impl FnOnce() -> Option<String>,
    ) -> Result<IndexEntry, &'static str> {
        let header = &record.header;
        let url = header.target_uri().ok_or("its header has no WARC-Target-URI")?.replace(' ', "%20");
        let date = header.date().ok_or("its header has no valid WARC-Date")?;
        let record_type = header.record_type();
        let has_head =
            has_http_head(record_type, &url) && record.block_length > 0 && !record.block.is_empty();
        let head = has_head.then(|| ResponseHead::parse(&record.block).ok()).flatten();
        let mime = match record_type {
            RecordType::Revisit => Some(REVISIT.to_owned()),
            RecordType::Response => head.as_ref().and_then(|head| {
                let value = head.headers.get(CONTENT_TYPE)?;
                Some(essence(&String::from_utf8_lossy(value.as_bytes())))
            }),
            _ => header.get("Content-Type").map(essence),
        };
        Ok(IndexEntry {
            key: surt(&url),
            timestamp: timestamp(date),
            url,
            mime,
            status: head.map(|head| head.status.to_string()),
            digest: header.get("WARC-Payload-Digest").map(str::to_owned).or_else(digest),
            length: record.length.unwrap_or_default(),
            offset: record.offset,
            filename: filename.to_owned(),
        })
    }

    /// Whether it is the server's statement that nothing had changed.
    pub fn is_not_modified(&self) -> bool {
        self.mime.as_deref() == Some(REVISIT) && self.status.as_deref() == Some("304")
    }

    /// The line in an index, with its end.
    pub fn line(&self) -> String {
        let mut line = format!("{} {} {{", self.key, self.timestamp);
        let (length, offset) = (self.length.to_string(), self.offset.to_string());
        let fields = [
            ("url", Some(self.url.as_str())),
            ("mime", self.mime.as_deref()),
            ("status", self.status.as_deref()),
            ("digest", self.digest.as_deref()),
            ("length", Some(&length)),
            ("offset", Some(&offset)),
            ("filename", Some(&self.filename)),
        ];
        let mut separator = "";
        for (name, value) in fields.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            line += &format!("{separator}\"{name}\": \"");
            push_escaped(&mut line, value);
            line.push('"');
            separator = ", ";
        }
        line += "}\n";
        line
    }

    /// Reads a line of an index. `None` if it is none, as the first line of some indexes.
    pub fn parse(line: &str) -> Option<IndexEntry> {
        let (key, rest) = line.split_once(' ')?;
        let (timestamp, fields) = rest.split_once(' ')?;
        let entry: IndexEntry = serde_json::from_str(fields.trim_end()).ok()?;
        Some(IndexEntry { key: key.to_owned(), timestamp: timestamp.to_owned(), ..entry })
    }

    /// Whether the record has the payload of an earlier one.
    pub fn is_revisit(&self) -> bool {
        self.mime.as_deref() == Some(REVISIT)
    }
}

/// Whether the block of a record starts with the head of an HTTP response.
pub fn has_http_head(record_type: RecordType, url: &str) -> bool {
    matches!(record_type, RecordType::Response | RecordType::Revisit)
        && (url.starts_with("http:") || url.starts_with("https:"))
}

/// A time as 14 digits.
pub fn timestamp(time: SystemTime) -> String {
    rfc3339(time).bytes().filter(u8::is_ascii_digit).take(14).map(char::from).collect()
}

/// A media type without its parameters.
fn essence(value: &str) -> String {
    value.split([';', ' ', '\t', '\r', '\n']).next().unwrap_or_default().to_owned()
}

/// Appends a JSON string without its quotes, in ASCII.
fn push_escaped(text: &mut String, value: &str) {
    for character in value.chars() {
        match character {
            '"' => *text += "\\\"",
            '\\' => *text += "\\\\",
            '\n' => *text += "\\n",
            '\r' => *text += "\\r",
            '\t' => *text += "\\t",
            '\u{8}' => *text += "\\b",
            '\u{C}' => *text += "\\f",
            ' '..='~' => text.push(character),
            other => {
                for unit in other.encode_utf16(&mut [0; 2]) {
                    *text += &format!("\\u{unit:04x}");
                }
            }
        }
    }
}

/// A number that some writers quote.
#[derive(Deserialize)]
#[serde(untagged)]
enum TextOrNumber {
    Text(String),
    Number(u64),
}

fn number<'d, D: Deserializer<'d>>(deserializer: D) -> Result<u64, D::Error> {
    match TextOrNumber::deserialize(deserializer)? {
        TextOrNumber::Number(number) => Ok(number),
        TextOrNumber::Text(text) => text.parse().map_err(|_| D::Error::custom("no number")),
    }
}

fn optional_text<'d, D: Deserializer<'d>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(match Option::<TextOrNumber>::deserialize(deserializer)? {
        None => None,
        Some(TextOrNumber::Number(number)) => Some(number.to_string()),
        Some(TextOrNumber::Text(text)) => Some(text),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_written_and_read() {
        let entry = IndexEntry {
            key: "test,a)/\u{e9}".into(),
            timestamp: "20261105060708".into(),
            url: "http://a.test/\u{e9}\u{1F600}\"\\\u{7f}".into(),
            mime: Some("text/html".into()),
            status: None,
            digest: Some("sha1:X".into()),
            length: 12,
            offset: 3_000_000_000,
            filename: "a.warc.gz".into(),
        };
        let line = entry.line();
        assert_eq!(
            line,
            "test,a)/\u{e9} 20261105060708 {\"url\": \"http://a.test/\\u00e9\\ud83d\\ude00\\\"\\\\\\u007f\", \
             \"mime\": \"text/html\", \"digest\": \"sha1:X\", \"length\": \"12\", \"offset\": \"3000000000\", \
             \"filename\": \"a.warc.gz\"}\n"
        );
        assert_eq!(IndexEntry::parse(&line), Some(entry));
        let numbers = r#"k 2026 {"url":"u","status":200,"length":1,"offset":2,"filename":"f","other":[]}"#;
        let parsed = IndexEntry::parse(numbers).unwrap();
        assert_eq!((parsed.status.as_deref(), parsed.length, parsed.offset), (Some("200"), 1, 2));
        for line in ["", "!meta 0 {\"format\": \"cdxj-gzip-1.0\"}", "k 2026", "k 2026 {\"url\": \"u\"}"] {
            assert_eq!(IndexEntry::parse(line), None, "{line}");
        }
    }
}
