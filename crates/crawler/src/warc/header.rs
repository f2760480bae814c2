//! The header of a WARC record: its version and its named fields.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::sitemap::date::unix_seconds;

/// The most bytes of a header. Real ones have some hundred.
pub const MAX_HEADER_BYTES: usize = 64 * 1024;

/// The most fields of a header.
const MAX_FIELDS: usize = 200;

/// The header of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordHeader {
    /// The version, such as `1.1`.
    pub version: String,
    /// The fields in their order.
    fields: Vec<(String, String)>,
}

/// The types of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordType {
    /// About the file.
    Warcinfo,
    /// An HTTP response, or another one.
    Response,
    /// A file, without the protocol by which it was fetched.
    Resource,
    /// A request.
    Request,
    /// About another record.
    Metadata,
    /// The same payload as that of an earlier record.
    Revisit,
    /// A payload in another format.
    Conversion,
    /// A further part of a record.
    Continuation,
    /// Of another type, or without a type.
    Other,
}

impl RecordType {
    /// The type as in a header.
    pub fn name(self) -> &'static str {
        match self {
            RecordType::Warcinfo => "warcinfo",
            RecordType::Response => "response",
            RecordType::Resource => "resource",
            RecordType::Request => "request",
            RecordType::Metadata => "metadata",
            RecordType::Revisit => "revisit",
            RecordType::Conversion => "conversion",
            RecordType::Continuation => "continuation",
            RecordType::Other => "unknown record type",
        }
    }
}

const TYPES: [RecordType; 8] = [
    RecordType::Warcinfo,
    RecordType::Response,
    RecordType::Resource,
    RecordType::Request,
    RecordType::Metadata,
    RecordType::Revisit,
    RecordType::Conversion,
    RecordType::Continuation,
];

impl RecordHeader {
    /// A header without fields.
    pub fn new(version: &str) -> RecordHeader {
        RecordHeader { version: version.to_owned(), fields: Vec::new() }
    }

    /// Parses a header, from its version line up to the empty line after it. Lines end with CR LF, or with LF alone. A line that
    /// starts with white space continues the one before. An error says what is wrong.
    pub fn parse(bytes: &[u8]) -> Result<RecordHeader, String> {
        let mut lines =
            bytes.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let version = lines.next().and_then(version).ok_or("it does not start with a WARC version")?;
        let mut header = RecordHeader::new(version);
        for line in lines.take_while(|line| !line.is_empty()) {
            let text = String::from_utf8_lossy(line);
            if header.fields.len() >= MAX_FIELDS {
                return Err("its header has too many fields".into());
            }
            match (text.split_once(':'), header.fields.last_mut()) {
                (_, Some((_, value))) if text.starts_with([' ', '\t']) => {
                    value.push(' ');
                    value.push_str(text.trim());
                }
                (Some((name, value)), _) if !name.trim().is_empty() => header.push(name.trim(), value.trim()),
                _ => return Err("its header has a line that is no field".into()),
            }
        }
        Ok(header)
    }

    /// The header as it is written, with the empty line after it.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut text = format!("WARC/{}\r\n", self.version);
        for (name, value) in &self.fields {
            text += &format!("{name}: {value}\r\n");
        }
        text += "\r\n";
        text.into_bytes()
    }

    /// Adds a field.
    pub fn push(&mut self, name: &str, value: &str) {
        self.fields.push((name.to_owned(), value.to_owned()));
    }

    /// The first field with this name, in upper or lower case.
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(field, _)| field.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The type of the record.
    pub fn record_type(&self) -> RecordType {
        let name = self.get("WARC-Type").unwrap_or_default();
        TYPES.into_iter().find(|known| known.name().eq_ignore_ascii_case(name)).unwrap_or(RecordType::Other)
    }

    /// The number of bytes of the block after the header.
    pub fn content_length(&self) -> Option<u64> {
        let value = self.get("Content-Length")?;
        value.bytes().all(|byte| byte.is_ascii_digit()).then(|| value.parse().ok()).flatten()
    }

    /// The URI that the record is about. Wget writes it in angle brackets.
    pub fn target_uri(&self) -> Option<&str> {
        self.get("WARC-Target-URI").map(without_brackets)
    }

    /// The URI of the record with the payload of a revisit.
    pub fn refers_to_target_uri(&self) -> Option<&str> {
        self.get("WARC-Refers-To-Target-URI").map(without_brackets)
    }

    /// When the record with the payload of a revisit was captured.
    pub fn refers_to_date(&self) -> Option<SystemTime> {
        self.time("WARC-Refers-To-Date")
    }

    /// When the content was captured.
    pub fn date(&self) -> Option<SystemTime> {
        self.time("WARC-Date")
    }

    fn time(&self, name: &str) -> Option<SystemTime> {
        let date = self.get(name)?;
        let seconds = UNIX_EPOCH + Duration::from_secs(unix_seconds(date)?.into());
        Some(seconds + fraction(date))
    }

    /// Whether the block has only a part of what was sent.
    pub fn is_truncated(&self) -> bool {
        self.get("WARC-Truncated").is_some() || self.get("WARC-Segment-Number").is_some()
    }
}

/// The version in the first line of a record.
fn version(line: &[u8]) -> Option<&str> {
    let version = line.strip_prefix(b"WARC/")?;
    let is_valid = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    let is_version = (3..=5).contains(&version.len()) && version.iter().all(is_valid);
    is_version.then(|| std::str::from_utf8(version).ok()).flatten()
}

/// Whether these bytes start a record: a version line, and a field of a record after it. `None` if they are too few.
pub fn starts_record(bytes: &[u8]) -> Option<bool> {
    const MAX_VERSION_BYTES: usize = b"WARC/1.234\r\n".len();
    let Some(end) = bytes.iter().take(MAX_VERSION_BYTES).position(|byte| *byte == b'\n') else {
        let may_start = bytes.len() < MAX_VERSION_BYTES && b"WARC/".iter().zip(bytes).all(|(a, b)| a == b);
        return if may_start { None } else { Some(false) };
    };
    let line = bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]);
    if version(line).is_none() {
        return Some(false);
    }
    let field = &bytes[end + 1..];
    let starts = [&b"warc-"[..], b"content-"].map(|name| {
        let length = name.len().min(field.len());
        field[..length].eq_ignore_ascii_case(&name[..length]).then_some(field.len() >= name.len())
    });
    match starts {
        [Some(true), _] | [_, Some(true)] => Some(true),
        [None, None] => Some(false),
        _ => None,
    }
}

fn without_brackets(uri: &str) -> &str {
    uri.strip_prefix('<').and_then(|uri| uri.strip_suffix('>')).unwrap_or(uri)
}

/// The fraction of a second in a date: WARC 1.1 allows up to nine digits.
fn fraction(date: &str) -> Duration {
    let digits = date.split_once('.').map_or("", |(_, fraction)| fraction);
    let digits: String = digits.chars().take_while(char::is_ascii_digit).take(9).collect();
    Duration::from_nanos(format!("{digits:0<9}").parse().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_is_parsed_as_writers_write_it() {
        let text = b"WARC/1.0\r\nWARC-Type: Response\r\nwarc-target-uri: <http://a.test/?q=<b>>\r\nX-Long: one\r\n  two\r\n\
            WARC-Date: 2026-11-05T06:07:08.25Z\r\nContent-Length: 12\r\n\r\nignored: yes\r\n";
        let header = RecordHeader::parse(text).unwrap();
        assert_eq!((header.version.as_str(), header.record_type()), ("1.0", RecordType::Response));
        assert_eq!(header.target_uri(), Some("http://a.test/?q=<b>"));
        assert_eq!((header.content_length(), header.get("x-long")), (Some(12), Some("one two")));
        let date = UNIX_EPOCH + Duration::from_millis(1_793_858_828_250);
        assert_eq!((header.date(), header.get("ignored")), (Some(date), None));
        assert_eq!(RecordHeader::parse(&header.to_bytes()), Ok(header));
        assert_eq!(
            RecordHeader::parse(b"WARC/0.18\nWARC-Type:revisit\n\n").unwrap().record_type(),
            RecordType::Revisit
        );
    }

    #[test]
    fn other_lines_are_no_header() {
        for text in [
            &b"HTTP/1.1 200 OK\r\n\r\n"[..],
            b"WARC/\r\n\r\n",
            b"WARC/1.0\r\nno field\r\n\r\n",
            b"WARC/1.0\r\n: x\r\n\r\n",
            b"",
        ] {
            assert!(RecordHeader::parse(text).is_err(), "{}", String::from_utf8_lossy(text));
        }
        let many = format!("WARC/1.0\r\n{}\r\n", "A: b\r\n".repeat(MAX_FIELDS + 1));
        assert!(RecordHeader::parse(many.as_bytes()).is_err());
        for length in ["", "-1", "+1", "1 2", "99999999999999999999999"] {
            let header =
                RecordHeader::parse(format!("WARC/1.0\r\nContent-Length: {length}\r\n\r\n").as_bytes());
            assert_eq!(header.unwrap().content_length(), None, "{length}");
        }
    }

    #[test]
    fn start_of_a_record_is_a_version_line_and_a_field() {
        let start = b"WARC/1.0\r\nWARC-Type: x";
        for length in 0..start.len() {
            let expected = (length >= b"WARC/1.0\r\nWARC-".len()).then_some(true);
            assert_eq!(starts_record(&start[..length]), expected, "{length}");
        }
        for (text, expected) in [
            (&b"WARC/0.18\ncontent-length: 1"[..], Some(true)),
            (b"WARC/1.0\r\nan essay", Some(false)),
            (b"WARC/1.0 is a format", Some(false)),
            (b"WARC/one\r\nWARC-Type", Some(false)),
            (b"x", Some(false)),
        ] {
            assert_eq!(starts_record(text), expected, "{}", String::from_utf8_lossy(text));
        }
    }
}
