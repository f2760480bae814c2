//! Pages as JSON lines: one object per page, with its keys in a fixed order.

use std::io;

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;

use super::fields::Fields;
use super::{BuiltinOutput, OutputWrite};
use crate::page::Page;

/// One JSON object per page, with these fields. Every field is there, and null if the page has no value.
#[derive(Debug, Clone, Default)]
pub struct Jsonl {
    fields: Fields,
}

impl Jsonl {
    pub(super) fn new(fields: Fields) -> Jsonl {
        Jsonl { fields }
    }
}

impl BuiltinOutput for Jsonl {
    fn name(&self) -> &str {
        "jsonl"
    }

    fn format(&self) -> String {
        self.fields.format(self.name())
    }

    fn wants_found_on(&self) -> bool {
        self.fields.want_found_on()
    }

    fn render(&self, page: &Page) -> OutputWrite {
        OutputWrite::Append(line(&JsonPage { fields: &self.fields, page }))
    }
}

/// The line for a program: the keys of [`Jsonl`], then headers (pairs of name and value), text (the page's visible
/// text) and the page's bytes: `body` if they are UTF-8, otherwise `body_base64`. There is always exactly one of the
/// two, so that most programs can use `body` directly, and no bytes are changed silently.
pub(super) fn line_with_content(page: &Page) -> Vec<u8> {
    let body = std::str::from_utf8(&page.body);
    line(&FullRecord {
        record: JsonPage { fields: &Fields::default().with(&["headers", "text"]), page },
        body: body.ok(),
        body_base64: body.is_err().then(|| base64(&page.body)),
    })
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

struct JsonPage<'p> {
    fields: &'p Fields,
    page: &'p Page,
}

impl Serialize for JsonPage<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.fields.iter().map(|field| (field.name, field.value(self.page))))
    }
}

#[derive(Serialize)]
struct FullRecord<'p> {
    #[serde(flatten)]
    record: JsonPage<'p>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<&'p str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
}

/// A line with the JSON of a value.
pub(super) fn line(record: &impl Serialize) -> Vec<u8> {
    let mut line = json(record);
    line.push(b'\n');
    line
}

/// The JSON of a value, without control characters.
pub(super) fn json(value: &impl Serialize) -> Vec<u8> {
    let mut json = Vec::with_capacity(1024);
    let mut serializer = Serializer::with_formatter(&mut json, ControlEscaper);
    value.serialize(&mut serializer).expect("strings and numbers are always JSON");
    json
}

/// Escapes every control character, also those that JSON allows unescaped: lines may be printed, and some terminals
/// interpret U+0080 to U+009F.
struct ControlEscaper;

impl Formatter for ControlEscaper {
    fn write_string_fragment<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment.as_bytes();
        // In UTF-8 these are 7F, and C2 followed by 80 to 9F.
        let mut from = 0;
        while let Some(found) = memchr::memchr2(0x7F, 0xC2, &rest[from..]) {
            let at = from + found;
            let (character, length) = match (rest[at], rest.get(at + 1)) {
                (0x7F, _) => (0x7F, 1),
                (_, Some(second @ 0x80..=0x9F)) => (*second, 2),
                _ => {
                    from = at + 1;
                    continue;
                }
            };
            writer.write_all(&rest[..at])?;
            write!(writer, "\\u00{character:02x}")?;
            rest = &rest[at + length..];
            from = 0;
        }
        writer.write_all(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules::example;

    fn written(page: &Page) -> String {
        let OutputWrite::Append(line) = Jsonl::default().render(page) else { panic!("jsonl appends") };
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn keys_have_a_fixed_order() {
        let mut page =
            example::page("http://a.test/x?y=1", b"<p>12345", &["http://a.test/", "http://b.test/"]);
        page.title = "A title".into();
        page.robots.noindex = true;
        assert_eq!(
            written(&page),
            "{\"url\":\"http://a.test/x?y=1\",\"depth\":2,\"status\":200,\"title\":\"A title\",\"language\":null,\"canonical\":null,\
             \"content_type\":\"text/html; charset=utf-8\",\"bytes\":8,\"truncated\":false,\"fetched\":\"2026-11-05T06:07:08.009Z\",\
             \"lastmod\":null,\"version\":1,\"changed\":false,\"robots\":[\"noindex\"],\"links\":[\"http://a.test/\",\"http://b.test/\"]}\n"
        );
    }

    #[test]
    fn chosen_fields_are_the_keys() {
        let page = example::page("http://a.test/", b"<p>One<p>two", &[]);
        let OutputWrite::Append(line) =
            Jsonl::new(Fields::parse("text,depth,lastmod").unwrap()).render(&page)
        else {
            panic!("jsonl appends")
        };
        assert_eq!(
            String::from_utf8(line).unwrap(),
            "{\"text\":\"One\\ntwo\",\"depth\":2,\"lastmod\":null}\n"
        );
    }

    #[test]
    fn page_with_any_content_is_one_line() {
        let mut page = example::page("http://a.test/", b"", &["http://a.test/\"\n\r,"]);
        page.title = "\"quoted\" \\ \u{0}\u{1f}\u{7f}\n\u{2028} é 😀".into();
        page.headers.clear();
        let line = written(&page);
        assert_eq!(line.matches('\n').count(), 1, "{line}");
        assert!(line.contains(r#""title":"\"quoted\" \\ \u0000\u001f"#), "{line}");
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read["title"], page.title);
        assert_eq!(read["links"][0], "http://a.test/\"\n\r,");
        assert_eq!(read["content_type"], serde_json::Value::Null);
    }

    #[test]
    fn control_characters_are_escaped() {
        let mut page = example::page("http://a.test/", b"", &[]);
        page.title = "a\u{7f}\u{80}b\u{9b}2J\u{9f}\u{a0}\u{c2}é\u{1b}😀\u{9f}".into();
        let line = written(&page);
        assert_eq!(line.trim_end().chars().find(|c| c.is_control()), None, "{line:?}");
        let title = r"a\u007f\u0080b\u009b2J\u009f";
        assert!(line.contains(&format!("{title}\u{a0}\u{c2}é\\u001b😀\\u009f\"")), "{line}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&line).unwrap()["title"], page.title);
        for title in ["", "plain", "é\u{c2}", "\u{9b}", "Â\u{7f}Â"] {
            page.title = title.into();
            assert_eq!(serde_json::from_str::<serde_json::Value>(&written(&page)).unwrap()["title"], title);
        }
    }

    #[test]
    fn body_is_text_if_it_is_utf8_and_base64_otherwise() {
        let line = |body: &[u8]| {
            String::from_utf8(line_with_content(&example::page("http://a.test/", body, &[]))).unwrap()
        };
        assert!(
            line("<p>Zoë &amp; co".as_bytes()).ends_with(
                "\"links\":[],\"headers\":[[\"content-type\",\"text/html; charset=utf-8\"],[\"x-note\",\"one\"]],\
                 \"text\":\"Zoë & co\",\"body\":\"<p>Zoë &amp; co\"}\n"
            ),
            "{}",
            line("<p>Zoë &amp; co".as_bytes())
        );
        let latin = line(b"<p>Zo\xEB");
        assert!(latin.ends_with(",\"body_base64\":\"PHA+Wm/r\"}\n"), "{latin}");
        assert!(!latin.contains("\"body\":"));
    }
}
