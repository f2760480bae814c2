//! Escapes text for HTML and XML.

use std::borrow::Cow;

use crate::printable::printable;

/// Text as it may be in elements and attributes. Control characters are shown as escape sequences: XML cannot contain them.
pub(super) fn escaped(text: &str) -> Cow<'_, str> {
    let text = printable(text);
    match text.contains(['&', '<', '>', '"', '\'', '\u{FFFE}', '\u{FFFF}']) {
        false => text,
        true => {
            let text = text.replace(['\u{FFFE}', '\u{FFFF}'], "\u{FFFD}");
            Cow::Owned(htmlize::escape_all_quotes(text).into_owned())
        }
    }
}
