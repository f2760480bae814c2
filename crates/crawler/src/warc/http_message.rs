//! Reads the HTTP responses of records, as they are in real archives: of any HTTP version, and with headers that no server should send.

use bytes::Bytes;
use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use memchr::memchr;

/// The most bytes of a head that are read.
pub const MAX_HEAD_BYTES: usize = 256 * 1024;

/// The most header lines that are read. The others are ignored.
const MAX_HEADERS: usize = 1_000;

/// The head of a response, and where its body starts.
#[derive(Debug)]
pub struct ResponseHead {
    /// The status code.
    pub status: u16,
    /// The headers. Lines that are no header are left out.
    pub headers: HeaderMap,
    /// The offset of the body in the block.
    pub body_start: usize,
}

impl ResponseHead {
    /// Parses the head of a response. An error says what is wrong.
    pub fn parse(block: &[u8]) -> Result<ResponseHead, String> {
        let (first, mut position) = next_line(block, 0);
        let status = status(first).ok_or("it is not an HTTP response")?;
        let (mut headers, mut last): (Vec<(HeaderName, Vec<u8>)>, Option<usize>) = (Vec::new(), None);
        while position < block.len().min(MAX_HEAD_BYTES) {
            let (line, next) = next_line(block, position);
            position = next;
            if line.is_empty() {
                break;
            }
            if line.starts_with(b" ") || line.starts_with(b"\t") {
                if let Some((_, value)) = last.and_then(|last| headers.get_mut(last)) {
                    value.push(b' ');
                    value.extend_from_slice(line.trim_ascii());
                }
                continue;
            }
            let field =
                memchr(b':', line).map(|colon| (line[..colon].trim_ascii(), line[colon + 1..].trim_ascii()));
            let name =
                field.and_then(|(name, value)| Some((HeaderName::from_bytes(name).ok()?, value.to_vec())));
            last = name.filter(|_| headers.len() < MAX_HEADERS).map(|field| {
                headers.push(field);
                headers.len() - 1
            });
        }
        let mut map = HeaderMap::with_capacity(headers.len());
        for (name, value) in headers {
            if let Ok(value) = HeaderValue::from_bytes(&value) {
                // It fails if there are too many.
                let _ = map.try_append(name, value);
            }
        }
        Ok(ResponseHead { status, headers: map, body_start: position })
    }

    /// Whether the headers say that the body is sent in chunks.
    pub fn is_chunked(&self) -> bool {
        let codings = self.headers.get_all("transfer-encoding").iter();
        codings.into_iter().any(|coding| coding.as_bytes().to_ascii_lowercase().ends_with(b"chunked"))
    }

    /// The body after this head in a block, without chunks.
    pub fn body_of(&self, block: Vec<u8>) -> Bytes {
        let body = Bytes::from(block).slice(self.body_start..);
        let chunks = if self.is_chunked() { without_chunks(&body) } else { None };
        chunks.map_or(body, Bytes::from)
    }
}

/// A line without its end, and where the next one starts.
fn next_line(block: &[u8], start: usize) -> (&[u8], usize) {
    let rest = &block[start..];
    match memchr(b'\n', rest) {
        Some(end) => (rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]), start + end + 1),
        None => (rest, block.len()),
    }
}

/// The code in a status line: `HTTP/1.1 200 OK`, `HTTP/2 200`.
fn status(line: &[u8]) -> Option<u16> {
    let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let version = words.next()?;
    if !version.get(..5)?.eq_ignore_ascii_case(b"HTTP/") {
        return None;
    }
    let code = std::str::from_utf8(words.next()?).ok()?;
    code.parse().ok().filter(|code| (100..1_000).contains(code))
}

/// The content of a body that was sent in chunks; `None` if it is not in chunks. Many writers store the content, and keep the header
/// that says otherwise. An incomplete body gives what it has.
pub fn without_chunks(body: &[u8]) -> Option<Vec<u8>> {
    let (mut content, mut rest) = (Vec::with_capacity(body.len()), body);
    loop {
        let chunk = chunk_size(rest);
        let Some((size, header_length)) = chunk else {
            let is_incomplete = rest.len() < body.len() && memchr(b'\n', rest).is_none();
            return (is_incomplete || !content.is_empty()).then_some(content);
        };
        rest = &rest[header_length..];
        if size == 0 {
            return Some(content);
        }
        let taken = size.min(rest.len());
        content.extend_from_slice(&rest[..taken]);
        rest = &rest[taken..];
        match rest {
            [b'\r', b'\n', ..] => rest = &rest[2..],
            [b'\n', ..] => rest = &rest[1..],
            [] | [b'\r'] => return Some(content),
            // The first chunk is no chunk.
            _ if content.len() == taken => return None,
            _ => return Some(content),
        }
    }
}

/// The size of the chunk that starts here, and the length of the line that says it.
fn chunk_size(bytes: &[u8]) -> Option<(usize, usize)> {
    const MAX_LINE_BYTES: usize = 4096;
    let end = memchr(b'\n', &bytes[..bytes.len().min(MAX_LINE_BYTES)])?;
    let line = &bytes[..end];
    let size = line.split(|byte| *byte == b';').next()?.trim_ascii();
    if size.is_empty() || !size.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let size = usize::from_str_radix(std::str::from_utf8(size).ok()?, 16).ok()?;
    Some((size, end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_as_they_are_in_archives() {
        for (block, status, content_type, body) in [
            (
                &b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\nbody"[..],
                200,
                Some("text/html"),
                &b"body"[..],
            ),
            (b"HTTP/2 404\r\ncontent-type:a/b\r\n\r\n", 404, Some("a/b"), b""),
            (b"http/1.0  301  Moved\nContent-Type : text/\n html\n\nx", 301, Some("text/ html"), b"x"),
            (
                b"HTTP/1.1 200\r\nno header\r\nb\xE4d: x\r\nContent-Type: \xFF\r\n\r\nx",
                200,
                Some("\u{FFFD}"),
                b"x",
            ),
            (b"HTTP/1.1 200 OK\r\nContent-Type: text/html", 200, Some("text/html"), b""),
            (b"HTTP/1.1 200 OK", 200, None, b""),
        ] {
            let head = ResponseHead::parse(block).unwrap();
            let found =
                head.headers.get("content-type").map(|value| String::from_utf8_lossy(value.as_bytes()));
            assert_eq!((head.status, found.as_deref()), (status, content_type));
            assert_eq!(&block[head.body_start..], body);
        }
        for block in
            [&b""[..], b"HTTP/1.1\r\n\r\n", b"<html>", b"HTTP/1.1 abc\r\n\r\n", b"HTTP/1.1 99999 OK\r\n\r\n"]
        {
            assert!(ResponseHead::parse(block).is_err(), "{}", String::from_utf8_lossy(block));
        }
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\nbody", "A: b\r\n".repeat(40_000));
        assert_eq!(ResponseHead::parse(many.as_bytes()).unwrap().headers.len(), MAX_HEADERS);
    }

    #[test]
    fn chunks_are_joined_where_there_are_any() {
        for (body, content) in [
            (&b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: 1\r\n\r\n"[..], Some("abcde")),
            (b"0\r\n\r\n", Some("")),
            (b"3\nabc\n0\n\n", Some("abc")),
            (b"A\r\n0123", Some("0123")),
            (b"3\r\nabc\r\n5", Some("abc")),
            (b"3\r\nabc\r\nno chunk\r\n", Some("abc")),
            (b"<html>\r\n", None),
            (b"abc\r\nis no number of bytes here", Some("is no number of bytes here")),
            (b"3\r\nnot a chunk", None),
            (b"", None),
            (b"-1\r\nx", None),
            (b"FFFFFFFFFFFFFFFFFFFF\r\nx", None),
        ] {
            assert_eq!(
                without_chunks(body).as_deref(),
                content.map(str::as_bytes),
                "{}",
                String::from_utf8_lossy(body)
            );
        }
    }
}
