//! Escapes text for XML.

use std::fmt::{self, Display, Formatter, Write};

/// Text in an element, or in an attribute with quotation marks. Characters that XML 1.0 does not allow, not even escaped, are
/// replaced by U+FFFD.
pub(super) struct Escaped<'t>(pub(super) &'t str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let is_special = |character: char| matches!(character, '\0'..='\u{1f}' | '&' | '<' | '>' | '"' | '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}');
        let mut rest = self.0;
        while let Some(at) = rest.find(is_special) {
            f.write_str(&rest[..at])?;
            let mut characters = rest[at..].chars();
            match characters.next() {
                Some('&') => f.write_str("&amp;")?,
                Some('<') => f.write_str("&lt;")?,
                Some('>') => f.write_str("&gt;")?,
                Some('"') => f.write_str("&quot;")?,
                // Parsers turn them into spaces or line feeds unless they are escaped. Some terminals interpret the last ones.
                Some(character @ ('\t' | '\n' | '\r' | '\u{7f}'..='\u{9f}')) => {
                    write!(f, "&#{};", u32::from(character))?
                }
                _ => f.write_char('\u{fffd}')?,
            }
            rest = characters.as_str();
        }
        f.write_str(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_forbidden_characters_are_replaced() {
        for (text, escaped) in [
            ("", ""),
            ("plain é 😀", "plain é 😀"),
            ("http://a/?b=1&c=\"<>'", "http://a/?b=1&amp;c=&quot;&lt;&gt;'"),
            ("a\tb\nc\rd\u{85}\u{9b}", "a&#9;b&#10;c&#13;d&#133;&#155;"),
            ("\0\u{1}\u{1b}[2J\u{fffe}\u{ffff}x", "\u{fffd}\u{fffd}\u{fffd}[2J\u{fffd}\u{fffd}x"),
            ("]]>", "]]&gt;"),
        ] {
            assert_eq!(Escaped(text).to_string(), escaped);
        }
    }
}
