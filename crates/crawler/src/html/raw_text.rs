//! Finds the end of elements whose content is text whatever it looks like. Only this file knows how a script
//! hides `</script>`.

use memchr::{memchr, memchr2};

use super::attributes::{Name, ends_tag_name};

/// Where the end tag `</name` of a raw text element begins, whose content begins at `start`.
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

/// What the text of a script so far means for a `</script>` in it.
#[derive(PartialEq)]
enum Script {
    /// It ends the script.
    Plain,
    /// After `<!--`: the same, but a `<script>` may come before it.
    Escaped,
    /// After `<!-- <script>`: it belongs to that one.
    DoubleEscaped,
}

fn script_closing_tag(page: &[u8], start: usize) -> Option<usize> {
    let mut state = Script::Plain;
    let mut at = start;
    loop {
        let rest = &page[at..];
        let offset = match state {
            Script::Plain => memchr(b'<', rest)?,
            Script::Escaped | Script::DoubleEscaped => memchr2(b'<', b'-', rest)?,
        };
        let (found, rest) = (at + offset, &rest[offset + 1..]);
        at = found + 1;
        if page[found] == b'-' {
            if rest.starts_with(b"->") {
                state = Script::Plain;
            }
            continue;
        }
        match state {
            Script::Plain if rest.starts_with(b"!--") => {
                state = Script::Escaped;
                // The dashes of `<!--` may also be those of `-->`.
                at = found + "<!".len();
            }
            Script::Plain | Script::Escaped if is_tag(rest, b"/", Name::SCRIPT) => return Some(found),
            Script::Escaped if is_tag(rest, b"", Name::SCRIPT) => state = Script::DoubleEscaped,
            Script::DoubleEscaped if is_tag(rest, b"/", Name::SCRIPT) => state = Script::Escaped,
            _ => {}
        }
    }
}

/// Whether `text` begins with the prefix and the name, and the name ends there.
#[inline]
fn is_tag(text: &[u8], prefix: &[u8], name: Name) -> bool {
    let end = prefix.len() + name.len();
    text.starts_with(prefix)
        && text.get(end).is_some_and(|&byte| ends_tag_name(byte))
        && text[prefix.len()..end].eq_ignore_ascii_case(&name.bytes()[..name.len()])
}
