//! Prints what is not about a single URL, and keeps what comes from the web from steering the terminal.

use std::borrow::Cow;
use std::io::{self, Write};

/// Tells the user what is wrong. One who has closed standard error is not told, and the exit status stays what it is.
pub fn print_error(message: &str) {
    let _ = writeln!(io::stderr(), "crawler: {}", printable(message));
}

/// Prints a text as it is; false, and told, if it is lost.
pub fn print_stdout(text: &str) -> bool {
    let mut out = io::stdout();
    is_printed(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// Whether printing went well; a failure is told. A reader who has gone away (`| head`) has seen enough.
pub fn is_printed(printed: io::Result<()>) -> bool {
    match printed {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            print_error(&format!("cannot write to standard output: {error}"));
            false
        }
        _ => true,
    }
}

/// The text with every control character, and every character that reorders or hides others, written as an
/// escape instead.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_unsafe(character) {
            shown.extend(character.escape_unicode());
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

fn is_unsafe(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{FEFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_and_direction_marks_are_shown_not_sent() {
        assert_eq!(printable("\x1b[2J\x07\u{9b}1m\r\n"), r"\u{1b}[2J\u{7}\u{9b}1m\u{d}\u{a}");
        assert_eq!(printable("a\u{202E}b"), r"a\u{202e}b");
        assert!(matches!(printable("plain, größer, 漢字"), Cow::Borrowed(_)));
    }
}
