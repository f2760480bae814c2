//! Servers that misbehave: what each sends, byte for byte, and how it ends.

mod bomb;
mod content;

pub(crate) use content::PICTURE;

use std::time::Duration;

use demoweb::{End, Request, Script};

use crate::answer::Answer;

/// How often something that drips sends its next byte: well within any timeout between two reads.
const DRIP: Duration = Duration::from_millis(100);
/// Larger than the head any client should be ready to hold.
const HUGE_HEADER: usize = 8 << 20;
const MANY_HEADERS: usize = 100_000;

/// One way to misbehave. Over h2 those that are well-formed HTTP are sent as they are, and the others
/// reset the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Hostile {
    /// A body without a length, as fast as the client reads, for ever.
    EndlessBody,
    /// The same in chunks.
    EndlessChunkedBody,
    /// A body of which a byte comes every 100 ms, for ever.
    DripBody,
    /// A header of which a byte comes every 100 ms, for ever.
    DripHeaders,
    /// Takes the request and never answers.
    Silence,
    /// 1 MB of gzip that unpacks to 1 GB.
    GzipBomb,
    /// A kilobyte of brotli that unpacks to 1 GB.
    BrotliBomb,
    /// 32 KB of zstd that unpack to 1 GB.
    ZstdBomb,
    /// One header of 8 MB, then a page.
    HugeHeader,
    /// 100,000 headers, then a page.
    ManyHeaders,
    /// A status line without a number in it.
    GarbageStatusLine,
    /// 4 KB of noise, then the end.
    GarbageBytes,
    /// The greeting of an SSH server.
    NotHttp,
    /// Less body than Content-Length says, then the end.
    ShortBody,
    /// More than Content-Length says: a second answer that nobody asked for.
    LongBody,
    /// `Content-Length: -1`, then a page, then the end.
    NegativeContentLength,
    /// Two Content-Lengths that differ.
    TwoContentLengths,
    /// A good chunk, then one whose size is no number.
    BrokenChunk,
    /// A chunk that says it is 8 EB long; then a few bytes, then the end.
    HugeChunkSize,
    /// A chunked body that ends in the middle of a chunk.
    EarlyClose,
    /// `100 Continue` and `103 Early Hints`, for ever.
    InformationalFlood,
    /// A head, then a reset instead of the body.
    ResetAfterHeaders,
    /// A reset instead of an answer.
    ResetAtOnce,
    /// The end of the connection instead of an answer.
    CloseAtOnce,
    /// A good answer that promises to keep the connection, which is then closed.
    CloseIdleConnection,
    /// A redirect to the very URL that was asked for.
    RedirectLoop,
    /// A page with terminal control sequences in title, text and links, and 8-bit ones in a header.
    EscapeSequences,
    /// Escape characters in the reason phrase and in header values, which HTTP forbids.
    EscapeHeaders,
    /// A page with NULs in text, tags and links.
    Nuls,
    /// A page with a link of 100 KB.
    LongLink,
    /// A page with links to 0, 1, … 99999, beside itself.
    ManyLinks,
    /// A page of 100,000 elements, each inside the one before.
    DeepNesting,
    /// A picture that says it is `text/html`.
    BinaryAsHtml,
    /// A page that says it is `application/octet-stream`.
    HtmlAsBinary,
    /// A page without a Content-Type.
    NoContentTypeHtml,
    /// A picture without a Content-Type.
    NoContentTypeBinary,
}

impl Hostile {
    /// Every one of them, for tests that try them all.
    #[rustfmt::skip]
    pub const ALL: [Hostile; 36] = {
        use Hostile::*;
        [
            EndlessBody, EndlessChunkedBody, DripBody, DripHeaders, Silence, GzipBomb, BrotliBomb, ZstdBomb,
            HugeHeader, ManyHeaders, GarbageStatusLine, GarbageBytes, NotHttp, ShortBody, LongBody,
            NegativeContentLength, TwoContentLengths, BrokenChunk, HugeChunkSize, EarlyClose,
            InformationalFlood, ResetAfterHeaders, ResetAtOnce, CloseAtOnce, CloseIdleConnection, RedirectLoop,
            EscapeSequences, EscapeHeaders, Nuls, LongLink, ManyLinks, DeepNesting, BinaryAsHtml, HtmlAsBinary,
            NoContentTypeHtml, NoContentTypeBinary,
        ]
    };

    /// The answer, if the hostility is in what it says rather than in how HTTP is spoken.
    pub(crate) fn content(self, request: &Request) -> Option<Answer> {
        Some(match self {
            Hostile::GzipBomb => Answer::status(200).encoded("gzip", bomb::gzip()),
            Hostile::BrotliBomb => Answer::status(200).encoded("br", bomb::brotli(bomb::UNPACKED)),
            Hostile::ZstdBomb => Answer::status(200).encoded("zstd", bomb::zstd(bomb::UNPACKED)),
            Hostile::RedirectLoop => Answer::redirect(302, &request.path),
            Hostile::EscapeSequences => content::escape_sequences(),
            Hostile::Nuls => Answer::page(content::NULS),
            Hostile::LongLink => Answer::page(content::long_link()),
            Hostile::ManyLinks => Answer::page(content::many_links()),
            Hostile::DeepNesting => Answer::page(content::deep_nesting()),
            Hostile::BinaryAsHtml => Answer::page(content::PICTURE),
            Hostile::HtmlAsBinary => Answer::page(content::PAGE).content_type("application/octet-stream"),
            Hostile::NoContentTypeHtml => Answer::page(content::PAGE).without_content_type(),
            Hostile::NoContentTypeBinary => Answer::page(content::PICTURE).without_content_type(),
            _ => return None,
        })
    }

    /// What a server that breaks the rules of HTTP/1.1 sends.
    pub(crate) fn script(self) -> Script {
        use Script::{Repeat, Say};
        let fast = Duration::ZERO;
        let page = |headers: &str| [head(headers).as_slice(), content::PAGE.as_bytes()].concat();
        match self {
            Hostile::EndlessBody => Repeat(head("Connection: close\r\n"), filler(), fast),
            Hostile::EndlessChunkedBody => Repeat(head(CHUNKED), chunk(&filler()), fast),
            Hostile::DripBody => Repeat(head("Content-Length: 1000000\r\n"), b"a".to_vec(), DRIP),
            Hostile::DripHeaders => Repeat(b"HTTP/1.1 200 OK\r\nX-Drip: ".to_vec(), b"a".to_vec(), DRIP),
            Hostile::Silence => Repeat(Vec::new(), Vec::new(), Duration::from_secs(3600)),
            Hostile::HugeHeader => Say(page(&format!("X-Huge: {}\r\n", "a".repeat(HUGE_HEADER))), End::Close),
            Hostile::ManyHeaders => {
                let headers: String = (0..MANY_HEADERS).map(|n| format!("X-Header-{n}: {n}\r\n")).collect();
                Say(page(&headers), End::Close)
            }
            Hostile::GarbageStatusLine => {
                Say(b"HTTP/1.1 two hundred, fine\r\nContent-Length: 0\r\n\r\n".to_vec(), End::Close)
            }
            Hostile::GarbageBytes => Say(content::noise(4096), End::Close),
            Hostile::NotHttp => Say(b"SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n".to_vec(), End::Stay),
            Hostile::ShortBody => Say(page("Content-Length: 100000\r\n"), End::Close),
            Hostile::LongBody => {
                let length = format!("Content-Length: {}\r\n", content::PAGE.len());
                let unasked = b"<title>An answer to a question that nobody asked</title>\n";
                let second = head(&format!("Content-Length: {}\r\n", unasked.len()));
                Say([page(&length).as_slice(), &second, unasked].concat(), End::Stay)
            }
            Hostile::NegativeContentLength => Say(page("Content-Length: -1\r\n"), End::Close),
            Hostile::TwoContentLengths => {
                Say(page("Content-Length: 5\r\nContent-Length: 50\r\n"), End::Close)
            }
            Hostile::BrokenChunk => {
                Say([head(CHUNKED), chunk(b"<p>good"), b"five\r\n<p>bad\r\n".to_vec()].concat(), End::Stay)
            }
            Hostile::HugeChunkSize => {
                Say([head(CHUNKED), b"7fffffffffffffff\r\n<p>hello".to_vec()].concat(), End::Close)
            }
            Hostile::EarlyClose => {
                Say([head(CHUNKED), chunk(b"<p>good"), b"ff\r\n<p>cut o".to_vec()].concat(), End::Close)
            }
            Hostile::InformationalFlood => {
                let flood = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n";
                Repeat(Vec::new(), flood.repeat(100).into_bytes(), fast)
            }
            Hostile::ResetAfterHeaders => Say(head("Content-Length: 1000\r\n"), End::Reset),
            Hostile::ResetAtOnce => Say(Vec::new(), End::Reset),
            Hostile::CloseIdleConnection => {
                let length = content::PAGE.len();
                Say(page(&format!("Content-Length: {length}\r\nConnection: keep-alive\r\n")), End::Close)
            }
            Hostile::EscapeHeaders => {
                let title = "HTTP/1.1 200 \x1b]0;owned\x07\r\nContent-Type: text/html\x1b[2J\r\n\r\n";
                Say([title.as_bytes(), content::PAGE.as_bytes()].concat(), End::Close)
            }
            // What is left is CloseAtOnce; the rest has content.
            _ => Say(Vec::new(), End::Close),
        }
    }
}

const CHUNKED: &str = "Transfer-Encoding: chunked\r\n";

fn head(headers: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n{headers}\r\n").into_bytes()
}

fn chunk(bytes: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

fn filler() -> Vec<u8> {
    b"<p>and so on\n".repeat(5000)
}
