//! Hostile servers: the exact bytes that each sends, and how the connection ends.

mod bomb;
mod content;

pub(crate) use content::PICTURE;

use std::time::Duration;

use demoweb::{ConnectionEnd, Request, Script};

use crate::response::Response;

/// The time between two bytes of a dripping response: well within any read timeout.
const DRIP: Duration = Duration::from_millis(100);
/// Larger than any head that a client should accept.
const HUGE_HEADER: usize = 8 << 20;
const MANY_HEADERS: usize = 100_000;

/// One hostile behaviour. Over HTTP/2, those that are well-formed HTTP are sent, and the others reset the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Hostile {
    /// An endless body without a length, as fast as the client reads.
    EndlessBody,
    /// The same in chunks.
    EndlessChunkedBody,
    /// An endless body with one byte every 100 ms.
    DripBody,
    /// An endless header with one byte every 100 ms.
    DripHeaders,
    /// Reads the request and never responds.
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
    /// 4 KB of random bytes, then the connection closes.
    GarbageBytes,
    /// The greeting of an SSH server.
    NotHttp,
    /// A body shorter than its Content-Length, then the connection closes.
    ShortBody,
    /// A body longer than its Content-Length: a second response without a request.
    LongBody,
    /// `Content-Length: -1`, then a page, then the connection closes.
    NegativeContentLength,
    /// Two Content-Lengths that differ.
    TwoContentLengths,
    /// A valid chunk, then one whose size is not a number.
    BrokenChunk,
    /// A chunk with a size of 8 EB, of which a few bytes are sent before the connection closes.
    HugeChunkSize,
    /// A chunked body that ends in the middle of a chunk.
    EarlyClose,
    /// A deflate stream with a page, then endless zeros.
    BytesAfterDeflate,
    /// A gzip member with a page, then endless empty members.
    EmptyGzipMembers,
    /// A zstd frame with a page, then endless skippable frames.
    SkippableZstdFrames,
    /// An endless brotli stream of empty metadata blocks.
    EmptyBrotliBlocks,
    /// An endless body in chunks of one byte.
    TinyChunks,
    /// Endless `100 Continue` and `103 Early Hints` responses.
    InformationalFlood,
    /// A head, then a reset instead of the body.
    ResetAfterHeaders,
    /// A reset instead of a response.
    ResetImmediately,
    /// The connection closes instead of a response.
    CloseImmediately,
    /// A valid response with keep-alive, after which the connection closes.
    CloseIdleConnection,
    /// A redirect to the requested URL itself.
    RedirectLoop,
    /// A page with terminal control sequences in title, text and links, and 8-bit ones in a header.
    EscapeSequences,
    /// Escape characters in the reason phrase and in header values, which HTTP forbids.
    EscapeHeaders,
    /// A page with NULs in text, tags and links.
    Nuls,
    /// A page with a link of 100 KB.
    LongLink,
    /// A page with relative links to 0, 1, … 99999.
    ManyLinks,
    /// A page of 100,000 nested elements.
    DeepNesting,
    /// An image with the Content-Type `text/html`.
    BinaryAsHtml,
    /// A page with the Content-Type `application/octet-stream`.
    HtmlAsBinary,
    /// A page without a Content-Type.
    NoContentTypeHtml,
    /// An image without a Content-Type.
    NoContentTypeBinary,
}

impl Hostile {
    /// All behaviours, for tests that try each.
    #[rustfmt::skip]
    pub const ALL: [Hostile; 41] = {
        use Hostile::*;
        [
            EndlessBody, EndlessChunkedBody, DripBody, DripHeaders, Silence, GzipBomb, BrotliBomb, ZstdBomb,
            HugeHeader, ManyHeaders, GarbageStatusLine, GarbageBytes, NotHttp, ShortBody, LongBody,
            NegativeContentLength, TwoContentLengths, BrokenChunk, HugeChunkSize, EarlyClose,
            BytesAfterDeflate, EmptyGzipMembers, SkippableZstdFrames, EmptyBrotliBlocks, TinyChunks,
            InformationalFlood, ResetAfterHeaders, ResetImmediately, CloseImmediately, CloseIdleConnection, RedirectLoop,
            EscapeSequences, EscapeHeaders, Nuls, LongLink, ManyLinks, DeepNesting, BinaryAsHtml, HtmlAsBinary,
            NoContentTypeHtml, NoContentTypeBinary,
        ]
    };

    /// The response, if it is well-formed HTTP with hostile content.
    pub(crate) fn content(self, request: &Request) -> Option<Response> {
        Some(match self {
            Hostile::GzipBomb => Response::status(200).encoded("gzip", bomb::gzip()),
            Hostile::BrotliBomb => Response::status(200).encoded("br", bomb::brotli(bomb::UNPACKED)),
            Hostile::ZstdBomb => Response::status(200).encoded("zstd", bomb::zstd(bomb::UNPACKED)),
            Hostile::RedirectLoop => Response::redirect(302, &request.path),
            Hostile::EscapeSequences => content::escape_sequences(),
            Hostile::Nuls => Response::page(content::NULS),
            Hostile::LongLink => Response::page(content::long_link()),
            Hostile::ManyLinks => Response::page(content::many_links()),
            Hostile::DeepNesting => Response::page(content::deep_nesting()),
            Hostile::BinaryAsHtml => Response::page(content::PICTURE),
            Hostile::HtmlAsBinary => Response::page(content::PAGE).content_type("application/octet-stream"),
            Hostile::NoContentTypeHtml => Response::page(content::PAGE).without_content_type(),
            Hostile::NoContentTypeBinary => Response::page(content::PICTURE).without_content_type(),
            _ => return None,
        })
    }

    /// What a server that violates HTTP/1.1 sends.
    pub(crate) fn script(self) -> Script {
        use Script::{Repeat, Send};
        let fast = Duration::ZERO;
        let page = |headers: &str| [head(headers).as_slice(), content::PAGE.as_bytes()].concat();
        match self {
            Hostile::EndlessBody => Repeat(head("Connection: close\r\n"), filler(), fast),
            Hostile::EndlessChunkedBody => Repeat(head(CHUNKED), chunk(&filler()), fast),
            Hostile::BytesAfterDeflate => endless_encoded(content::page().deflate(), &[0; 1 << 16]),
            Hostile::EmptyGzipMembers => {
                let empty = Response::page("").gzip().plain.body;
                endless_encoded(content::page().gzip(), &empty.repeat(3_000))
            }
            Hostile::SkippableZstdFrames => {
                endless_encoded(content::page().zstd(), &b"\x50\x2a\x4d\x18\0\0\0\0".repeat(8_000))
            }
            // The first bit is the window size; each block is padded to a byte.
            Hostile::EmptyBrotliBlocks => {
                endless_encoded(Response::page("").brotli_bytes(&b"\x0c"[..]), &[0x06; 1 << 16])
            }
            Hostile::TinyChunks => Repeat(head(CHUNKED), chunk(b"a").repeat(1_000), fast),
            Hostile::DripBody => Repeat(head("Content-Length: 1000000\r\n"), b"a".to_vec(), DRIP),
            Hostile::DripHeaders => Repeat(b"HTTP/1.1 200 OK\r\nX-Drip: ".to_vec(), b"a".to_vec(), DRIP),
            Hostile::Silence => Repeat(Vec::new(), Vec::new(), Duration::from_secs(3600)),
            Hostile::HugeHeader => {
                Send(page(&format!("X-Huge: {}\r\n", "a".repeat(HUGE_HEADER))), ConnectionEnd::Close)
            }
            Hostile::ManyHeaders => {
                let headers: String = (0..MANY_HEADERS).map(|n| format!("X-Header-{n}: {n}\r\n")).collect();
                Send(page(&headers), ConnectionEnd::Close)
            }
            Hostile::GarbageStatusLine => Send(
                b"HTTP/1.1 two hundred, fine\r\nContent-Length: 0\r\n\r\n".to_vec(),
                ConnectionEnd::Close,
            ),
            Hostile::GarbageBytes => Send(content::noise(4096), ConnectionEnd::Close),
            Hostile::NotHttp => {
                Send(b"SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n".to_vec(), ConnectionEnd::StayOpen)
            }
            Hostile::ShortBody => Send(page("Content-Length: 100000\r\n"), ConnectionEnd::Close),
            Hostile::LongBody => {
                let length = format!("Content-Length: {}\r\n", content::PAGE.len());
                let unrequested = b"<title>A response without a request</title>\n";
                let second = head(&format!("Content-Length: {}\r\n", unrequested.len()));
                Send([page(&length).as_slice(), &second, unrequested].concat(), ConnectionEnd::StayOpen)
            }
            Hostile::NegativeContentLength => Send(page("Content-Length: -1\r\n"), ConnectionEnd::Close),
            Hostile::TwoContentLengths => {
                Send(page("Content-Length: 5\r\nContent-Length: 50\r\n"), ConnectionEnd::Close)
            }
            Hostile::BrokenChunk => Send(
                [head(CHUNKED), chunk(b"<p>good"), b"five\r\n<p>bad\r\n".to_vec()].concat(),
                ConnectionEnd::StayOpen,
            ),
            Hostile::HugeChunkSize => {
                Send([head(CHUNKED), b"7fffffffffffffff\r\n<p>hello".to_vec()].concat(), ConnectionEnd::Close)
            }
            Hostile::EarlyClose => Send(
                [head(CHUNKED), chunk(b"<p>good"), b"ff\r\n<p>cut o".to_vec()].concat(),
                ConnectionEnd::Close,
            ),
            Hostile::InformationalFlood => {
                let flood = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n";
                Repeat(Vec::new(), flood.repeat(100).into_bytes(), fast)
            }
            Hostile::ResetAfterHeaders => Send(head("Content-Length: 1000\r\n"), ConnectionEnd::Reset),
            Hostile::ResetImmediately => Send(Vec::new(), ConnectionEnd::Reset),
            Hostile::CloseIdleConnection => {
                let length = content::PAGE.len();
                Send(
                    page(&format!("Content-Length: {length}\r\nConnection: keep-alive\r\n")),
                    ConnectionEnd::Close,
                )
            }
            Hostile::EscapeHeaders => {
                let title = "HTTP/1.1 200 \x1b]0;owned\x07\r\nContent-Type: text/html\x1b[2J\r\n\r\n";
                Send([title.as_bytes(), content::PAGE.as_bytes()].concat(), ConnectionEnd::Close)
            }
            // CloseImmediately. All others have content.
            _ => Send(Vec::new(), ConnectionEnd::Close),
        }
    }
}

/// The encoded body of a response in one chunk, then chunks of `more`.
fn endless_encoded(response: Response, more: &[u8]) -> Script {
    let (_, coding) = response.plain.headers.last().expect("an encoded response names its coding");
    let head = head(&format!("{CHUNKED}Content-Encoding: {coding}\r\n"));
    Script::Repeat([head, chunk(&response.plain.body)].concat(), chunk(more), Duration::ZERO)
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
