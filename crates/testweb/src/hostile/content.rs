//! Hostile content in well-formed HTTP responses. Pages end with an ordinary link to `next`, so that a test can check
//! whether the page was parsed to its end.

use crate::response::Response;

/// An ordinary page.
pub(super) const PAGE: &str =
    "<!doctype html><title>A page</title><h1>A page</h1><p>On to the <a href=\"next\">next</a>.\n";

pub(super) fn page() -> Response {
    Response::page(PAGE)
}

/// A PNG image, with control characters and almost no text.
pub(crate) const PICTURE: &[u8] =
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\
    \0\0\0\rIDATx\x9cc\xf8\xff\xff?\0\x05\xfe\x02\xfe\xa75\x81\x84\0\0\0\0IEND\xaeB`\x82";

pub(super) const NULS: &[u8] =
    b"<!doctype html><title>Nu\0ls</title>\0\0\0<p>te\0xt <a\0 href=\"/in-name\">1</a>\
    <a hr\0ef=\"/in-attribute\">2</a><a href=\"/in\0-link\">3</a>\0<a href=\"next\">next</a>\n";

const LONG_LINK: usize = 100_000;
const MANY_LINKS: usize = 100_000;
const DEEP_NESTING: usize = 100_000;

pub(super) fn escape_sequences() -> Response {
    let html = "<!doctype html><title>\x1b]0;owned\x07Titles \x1b[2J\x1b[H lie</title>\n\
        <h1>\x1b[31mred\x1b[0m \u{9b}31m \u{202e}backwards\u{202c} \x08\x08\x08over\x7f\r</h1>\n\
        <p><a href=\"/\x1b[31mred\">one</a> <a href=\"/\u{9b}2J\">two</a> <a href=\"/a\x07\rb\">three</a>\n\
        <a href=\"http://\x1b[5melsewhere.invalid/\">four</a> <a href=\"next\">next</a>\n";
    Response::page(html)
        .header("X-Note", "\u{9b}2J\u{9d}0;owned\u{9c}")
        .content_type("text/html; note=\"\u{9b}2J\"")
}

pub(super) fn long_link() -> String {
    format!("<!doctype html><a href=\"/{}\">long</a> <a href=\"next\">next</a>\n", "a".repeat(LONG_LINK))
}

pub(super) fn many_links() -> String {
    let links: String = (0..MANY_LINKS).map(|n| format!("<a href={n}>")).collect();
    format!("{links}<a href=\"next\">next</a>\n")
}

pub(super) fn deep_nesting() -> String {
    format!("{}<a href=\"next\">next</a>\n", "<i>".repeat(DEEP_NESTING))
}

/// Reproducible pseudo-random bytes that do not start like HTTP.
pub(super) fn noise(length: usize) -> Vec<u8> {
    let mut random = demoweb::Random::new(0xBAD);
    std::iter::once(0xFF).chain((1..length).map(|_| random.below(256) as u8)).collect()
}
