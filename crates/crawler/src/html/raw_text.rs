//! Finds the end of elements with raw text content, including the escaping rules of scripts.

use memchr::{memchr, memchr2};

use super::attributes::{Name, ends_tag_name};

/// The position of the end tag `</name` of a raw text element whose content starts at `start`.
pub(super) fn closing_tag(page: &[u8], start: usize, name: Name) -> Option<usize> {
    match name {
        Name::SCRIPT => script_closing_tag(page, start),
        _ => {
            let mut at = start;
            loop {
                at += memchr(b'<', &page[at..])?;
                if is_tag(&page[at + 1..], b"/", name) {
                    return Some(at);
                }
                at += 1;
            }
        }
    }
}

/// The escape state of a script, which decides what a `</script>` means.
#[derive(PartialEq)]
enum ScriptState {
    /// It ends the script.
    Plain,
    /// After `<!--`: it ends the script, unless a `<script>` comes before it.
    Escaped,
    /// After `<!-- <script>`: it ends that inner script.
    DoubleEscaped,
}

fn script_closing_tag(page: &[u8], start: usize) -> Option<usize> {
    let mut state = ScriptState::Plain;
    let mut at = start;
    loop {
        let rest = &page[at..];
        let offset = match state {
            ScriptState::Plain => memchr(b'<', rest)?,
            ScriptState::Escaped | ScriptState::DoubleEscaped => memchr2(b'<', b'-', rest)?,
        };
        let (found, rest) = (at + offset, &rest[offset + 1..]);
        at = found + 1;
        if page[found] == b'-' {
            if rest.starts_with(b"->") {
                state = ScriptState::Plain;
            }
            continue;
        }
        match state {
            ScriptState::Plain if rest.starts_with(b"!--") => {
                state = ScriptState::Escaped;
                // The dashes of `<!--` may also be part of `-->`.
                at = found + "<!".len();
            }
            ScriptState::Plain | ScriptState::Escaped if is_tag(rest, b"/", Name::SCRIPT) => {
                return Some(found);
            }
            ScriptState::Escaped if is_tag(rest, b"", Name::SCRIPT) => state = ScriptState::DoubleEscaped,
            ScriptState::DoubleEscaped if is_tag(rest, b"/", Name::SCRIPT) => state = ScriptState::Escaped,
            _ => {}
        }
    }
}

/// Whether `text` starts with the prefix and the complete name.
#[inline]
fn is_tag(text: &[u8], prefix: &[u8], name: Name) -> bool {
    let end = prefix.len() + name.len();
    text.starts_with(prefix)
        && text.get(end).is_some_and(|&byte| ends_tag_name(byte))
        && text[prefix.len()..end].eq_ignore_ascii_case(&name.bytes()[..name.len()])
}
