//! Escapes characters from the web that could steer a terminal, or hide or reorder text.

use std::borrow::Cow;

/// The text with every control character, and every character that reorders or hides others, replaced by its escape
/// sequence.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_unsafe(character) {
            escaped.extend(character.escape_unicode());
        } else {
            escaped.push(character);
        }
    }
    Cow::Owned(escaped)
}

/// Whether a character could steer a terminal, or hide or reorder text.
pub fn is_unsafe(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{FEFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_direction_characters_are_escaped() {
        assert_eq!(printable("\x1b[2J\x07\u{9b}1m\r\n"), r"\u{1b}[2J\u{7}\u{9b}1m\u{d}\u{a}");
        assert_eq!(printable("a\u{202E}b"), r"a\u{202e}b");
        assert!(matches!(printable("plain, größer, 漢字"), Cow::Borrowed(_)));
    }
}
