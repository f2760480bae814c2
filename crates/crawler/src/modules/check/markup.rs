//! Escapes text for HTML and XML.

use crate::modules::xml::Escaped;
use crate::printable::printable;

/// Text as it may be in elements and attributes. Control characters are shown as escape sequences: XML cannot contain them.
pub(super) fn escaped(text: &str) -> String {
    Escaped(&printable(text)).to_string()
}
