//! Writes an event as one line, as text or JSON: without control characters, and not longer than a pipe takes at once.

use std::fmt::{self, Debug, Write};
use std::time::SystemTime;

use clap::ValueEnum;
use crawler::internal::modules::timestamp::rfc3339;
use crawler::internal::printable::is_unsafe;
use tracing::Level;
use tracing::field::{Field, Visit};

/// The longest line. A write of this many bytes to a pipe is not mixed with those of other processes.
pub const MAX_LINE: usize = 4096;

/// The longest text of an event, and of one of its fields, in bytes after escaping.
const MAX_TEXT: usize = 1000;
const MAX_VALUE: usize = 2000;

/// The length of all fields: what the time, the level, the target, the text and the names around them leave.
const MAX_FIELDS: usize = MAX_LINE - MAX_TEXT - 200;

/// The form of the lines: for people, or JSON objects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

impl LogFormat {
    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            LogFormat::Text => "text",
            LogFormat::Json => "json",
        }
    }
}

/// The text and the fields of an event.
pub struct Line {
    format: LogFormat,
    text: String,
    fields: String,
    is_truncated: bool,
}

impl Line {
    pub fn new(format: LogFormat) -> Line {
        Line { format, text: String::new(), fields: String::new(), is_truncated: false }
    }

    /// The whole line, with its end.
    pub fn finish(mut self, level: Level, target: &str) -> String {
        if self.is_truncated {
            self.is_truncated = false;
            self.add_plain("truncated", format_args!("true"));
        }
        let (time, pid) = (rfc3339(SystemTime::now()), std::process::id());
        let Line { text, fields, .. } = self;
        match self.format {
            LogFormat::Text => format!("{time} {level:<5} [{pid}] {target}: {text}{fields}\n"),
            LogFormat::Json => {
                let level = level.as_str().to_ascii_lowercase();
                format!(
                    "{{\"time\":\"{time}\",\"level\":\"{level}\",\"pid\":{pid},\"target\":\"{target}\",\"event\":\"{text}\"{fields}}}\n"
                )
            }
        }
    }

    /// The line for a terminal, without time, process and end.
    pub fn finish_short(self, level: Level, target: &str) -> String {
        format!("{level} {target}: {}{}", self.text, self.fields)
    }

    /// Sets the text of the event, or adds a field.
    pub fn add_text(&mut self, name: &str, value: &str) {
        if name == "message" {
            let escape = if self.format == LogFormat::Json { Escape::Json } else { Escape::Plain };
            self.is_truncated |= push_escaped(&mut self.text, value, MAX_TEXT, escape);
            return;
        }
        let escape = match self.format {
            LogFormat::Json => Escape::Json,
            LogFormat::Text if needs_quotes(value) => Escape::Quoted,
            LogFormat::Text => Escape::Plain,
        };
        let quote = if escape == Escape::Plain { "" } else { "\"" };
        let start = self.fields.len();
        self.start_field(name);
        self.fields.push_str(quote);
        let room = MAX_FIELDS.saturating_sub(self.fields.len()).min(MAX_VALUE);
        if room < 16 {
            self.fields.truncate(start);
            self.is_truncated = true;
            return;
        }
        self.is_truncated |= push_escaped(&mut self.fields, value, room, escape);
        self.fields.push_str(quote);
    }

    /// Adds a field that is a number.
    pub fn add_number(&mut self, name: &str, value: u64) {
        self.add_plain(name, format_args!("{value}"));
    }

    fn add_plain(&mut self, name: &str, value: fmt::Arguments<'_>) {
        let start = self.fields.len();
        self.start_field(name);
        // Writing to a String does not fail.
        let _ = self.fields.write_fmt(value);
        if self.fields.len() > MAX_FIELDS + 32 {
            self.fields.truncate(start);
            self.is_truncated = true;
        }
    }

    fn start_field(&mut self, name: &str) {
        let _ = match self.format {
            LogFormat::Text => write!(self.fields, " {name}="),
            LogFormat::Json => write!(self.fields, ",\"{name}\":"),
        };
    }
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add_text(field.name(), value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add_plain(field.name(), format_args!("{value}"));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add_plain(field.name(), format_args!("{value}"));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        match value.is_finite() {
            true => self.add_plain(field.name(), format_args!("{value:.3}")),
            false => self.add_text(field.name(), &value.to_string()),
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add_plain(field.name(), format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let mut text = BoundedText::default();
        // An error means that the text is long enough.
        let _ = write!(text, "{value:?}");
        self.add_text(field.name(), &text.0);
    }
}

/// A text that takes as much as can be logged, so that a long one costs no more.
#[derive(Default)]
struct BoundedText(String);

impl Write for BoundedText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = text.floor_char_boundary((MAX_VALUE + 1).saturating_sub(self.0.len()));
        self.0.push_str(&text[..end]);
        if end < text.len() { Err(fmt::Error) } else { Ok(()) }
    }
}

fn needs_quotes(value: &str) -> bool {
    let is_special = |c: char| c.is_whitespace() || matches!(c, '"' | '\\' | '=') || is_unsafe(c);
    value.is_empty() || value.chars().any(is_special)
}

/// How a text is escaped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Escape {
    /// Control characters only.
    Plain,
    /// Between quotes.
    Quoted,
    /// As a JSON string.
    Json,
}

/// Appends a text, escaped, in at most this many bytes. Returns whether it was truncated.
fn push_escaped(out: &mut String, text: &str, max: usize, escape: Escape) -> bool {
    let end = out.len() + max - '…'.len_utf8();
    let mut escaped = String::with_capacity(16);
    for character in text.chars() {
        escaped.clear();
        match character {
            '"' | '\\' if escape != Escape::Plain => escaped.extend(['\\', character]),
            _ if !is_unsafe(character) => escaped.push(character),
            // All of them are in the basic plane.
            _ if escape == Escape::Json => escaped.push_str(&format!("\\u{:04x}", u32::from(character))),
            _ => escaped.extend(character.escape_unicode()),
        }
        if out.len() + escaped.len() > end {
            out.push('…');
            return true;
        }
        out.push_str(&escaped);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(format: LogFormat, text: &str, fields: &[(&str, &str)]) -> String {
        let mut line = Line::new(format);
        line.add_text("message", text);
        fields.iter().for_each(|(name, value)| line.add_text(name, value));
        line.finish(Level::INFO, "host")
    }

    #[test]
    fn text_has_quotes_where_they_are_needed_and_no_control_characters() {
        let fields = [("a", "plain"), ("b", "two words"), ("c", "\"\x1b[2J\u{202e}\n="), ("d", "")];
        let text = line(LogFormat::Text, "it said \"hi\"\r\n", &fields);
        let (head, rest) = text.split_once(" INFO  [").unwrap();
        assert!(head.len() == 24 && head.ends_with('Z'), "{head}");
        let expected =
            r#"] host: it said "hi"\u{d}\u{a} a=plain b="two words" c="\"\u{1b}[2J\u{202e}\u{a}=" d="""#;
        assert_eq!(rest.trim_end_matches('\n').trim_start_matches(char::is_numeric), expected);
    }

    #[test]
    fn json_lines_have_the_very_values() {
        let hostile: String =
            (0..0x300).chain(0x2000..0x2100).chain([0xFEFF, 0x1F600]).filter_map(char::from_u32).collect();
        let text = line(LogFormat::Json, "a \"text\"\n", &[("url", &hostile)]);
        assert!(text.ends_with("}\n") && !text.trim_end_matches('\n').chars().any(is_unsafe), "{text}");
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["event"], "a \"text\"\n");
        assert_eq!((value["level"].as_str(), value["target"].as_str()), (Some("info"), Some("host")));
        let short: String = hostile.chars().take(200).collect();
        let value: serde_json::Value =
            serde_json::from_str(&line(LogFormat::Json, "", &[("url", &short)])).unwrap();
        assert_eq!(value["url"], short);
    }

    #[test]
    fn lines_are_bounded_and_say_so() {
        for format in [LogFormat::Text, LogFormat::Json] {
            for filler in ["x", "\u{1}", "漢", "\u{1F600}", "\""] {
                let long = filler.repeat(10_000);
                let fields = [("a", &*long), ("b", &long), ("c", &long), ("d", "short")];
                let text = line(format, &long, &fields);
                assert!(text.len() <= MAX_LINE, "{}", text.len());
                match format {
                    LogFormat::Text => assert!(text.ends_with(" truncated=true\n"), "{text}"),
                    LogFormat::Json => {
                        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
                        assert_eq!(value["truncated"], true);
                    }
                }
            }
        }
    }
}
