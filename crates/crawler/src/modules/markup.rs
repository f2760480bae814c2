//! Escapes text for HTML, XML and Markdown.

use super::xml::Escaped;
use crate::printable::printable;

/// Text as it may be in elements and attributes. Control characters are shown as escape sequences: XML cannot contain them.
pub fn escaped(text: &str) -> String {
    Escaped(&printable(text)).to_string()
}

/// Whether a URL may become a link: a script must not.
pub fn is_web_url(url: &str) -> bool {
    url.starts_with("http://") || url.starts_with("https://")
}

/// A URL as a link in Markdown. What is not a URL is code.
pub fn markdown_link(url: &str) -> String {
    let is_special = |character: char| matches!(character, '<' | '>' | ' ' | '\\') || character.is_control();
    match is_web_url(url) && !url.contains(is_special) {
        true => format!("<{url}>"),
        false => markdown_code(url),
    }
}

/// Text in Markdown in which nothing has a meaning: no markup, no mention of a user, no reference to an issue.
pub fn markdown_code(text: &str) -> String {
    format!("`{}`", printable(text).replace('`', "'"))
}
