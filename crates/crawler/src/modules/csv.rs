//! Writes CSV: fields are quoted where RFC 4180 requires it. Lines end with a line feed only, which CSV readers, `cut` and
//! `sort` accept.

use std::borrow::Cow;

/// Appends a line with these fields.
pub(super) fn push_line<'f>(lines: &mut Vec<u8>, fields: impl IntoIterator<Item = &'f str>) {
    for (index, field) in fields.into_iter().enumerate() {
        if index > 0 {
            lines.push(b',');
        }
        push_field(lines, field);
    }
    lines.push(b'\n');
}

/// Appends one field.
pub(super) fn push_field(line: &mut Vec<u8>, field: &str) {
    if !field.bytes().any(|byte| matches!(byte, b',' | b'"' | b'\r' | b'\n')) {
        return line.extend_from_slice(field.as_bytes());
    }
    line.push(b'"');
    line.extend_from_slice(field.replace('"', "\"\"").as_bytes());
    line.push(b'"');
}

/// A text from the web as a spreadsheet can show it: a text that a spreadsheet would take for a formula, because it starts
/// with `=`, `+`, `-` or `@`, follows an apostrophe. Control characters other than tabs and line feeds are replaced.
pub(super) fn safe_text(text: &str) -> Cow<'_, str> {
    let is_unsafe = |c: char| c.is_control() && c != '\n' && c != '\t';
    let text = match text.contains(is_unsafe) {
        true => Cow::Owned(text.replace(is_unsafe, "\u{FFFD}")),
        false => Cow::Borrowed(text),
    };
    match text.starts_with(['=', '+', '-', '@', '\t', '＝', '＋', '－', '＠']) {
        true => Cow::Owned(format!("'{text}")),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_are_texts_and_control_characters_are_replaced() {
        for (text, safe) in [
            ("=1+2", "'=1+2"),
            ("-1", "'-1"),
            ("@SUM(1)", "'@SUM(1)"),
            ("+x", "'+x"),
            ("＝x", "'＝x"),
            ("\t=x", "'\t=x"),
            ("a=b-c@d", "a=b-c@d"),
            ("a\nb\tc", "a\nb\tc"),
            ("\u{1b}[2J\0\u{9b}\r", "\u{FFFD}[2J\u{FFFD}\u{FFFD}\u{FFFD}"),
            ("", ""),
        ] {
            assert_eq!(safe_text(text), safe);
        }
    }
}
