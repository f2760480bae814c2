//! Writes archives as different programs do.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use flate2::write::{DeflateEncoder, GzEncoder};
use flate2::{Compression, Crc};

/// A record, as its bytes.
pub fn record(kind: &str, uri: &str, fields: &[(&str, &str)], block: &[u8]) -> Vec<u8> {
    let mut header = format!(
        "WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Record-ID: <urn:uuid:0>\r\nWARC-Date: 2026-11-05T06:07:08Z\r\n"
    );
    if !uri.is_empty() {
        header += &format!("WARC-Target-URI: {uri}\r\n");
    }
    for (name, value) in fields {
        header += &format!("{name}: {value}\r\n");
    }
    header += &format!("Content-Length: {}\r\n\r\n", block.len());
    [header.as_bytes(), block, b"\r\n\r\n"].concat()
}

/// An HTTP response with these headers, each of which ends with a line end.
pub fn response(uri: &str, status_line: &str, headers: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let head = format!("{status_line}\r\n{headers}\r\n");
    let fields = [("Content-Type", "application/http; msgtype=response")];
    record("response", uri, &fields, &[head.as_bytes(), body.as_ref()].concat())
}

/// An HTML page.
pub fn page(uri: &str, html: impl AsRef<[u8]>) -> Vec<u8> {
    response(uri, "HTTP/1.1 200 OK", "Content-Type: text/html; charset=utf-8\r\n", html)
}

/// A page with a text that resembles no other one.
pub fn text_of(number: usize) -> String {
    let words: Vec<String> = (0..40).map(|word| format!("w{}", (number + 1) * 7919 + word * word)).collect();
    format!("<title>Page {number}</title><p>{}</p><a href=/{}>next</a>", words.join(" "), number + 1)
}

pub fn pages(numbers: impl IntoIterator<Item = usize>) -> Vec<Vec<u8>> {
    numbers.into_iter().map(|number| page(&format!("http://a.test/{number}"), text_of(number))).collect()
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// An archive with a gzip member for each record, as nearly all are.
pub fn gzipped(records: &[Vec<u8>]) -> Vec<u8> {
    records.iter().flat_map(|record| gzip(record)).collect()
}

/// A zip file, such as a WACZ file, whose entries are stored or deflated.
pub fn zip(entries: &[(&str, &[u8])], is_deflated: bool) -> Vec<u8> {
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for (name, content) in entries {
        let mut crc = Crc::new();
        crc.update(content);
        let data = match is_deflated {
            false => content.to_vec(),
            true => {
                let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
                encoder.write_all(content).unwrap();
                encoder.finish().unwrap()
            }
        };
        let offset = file.len() as u32;
        let mut common = vec![20, 0, 0, 0, if is_deflated { 8 } else { 0 }, 0, 0, 0, 0, 0];
        for number in [crc.sum(), data.len() as u32, content.len() as u32] {
            common.extend(number.to_le_bytes());
        }
        common.extend((name.len() as u16).to_le_bytes());
        common.extend([0, 0]);
        file.extend([b"PK\x03\x04", &common[..], name.as_bytes(), &data].concat());
        directory.extend([b"PK\x01\x02\x14\0", &common[..], &[0; 10]].concat());
        directory.extend(offset.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let (start, count) = (file.len() as u32, entries.len() as u16);
    file.extend(&directory);
    file.extend(b"PK\x05\x06\0\0\0\0");
    file.extend([count.to_le_bytes(), count.to_le_bytes()].concat());
    file.extend((directory.len() as u32).to_le_bytes());
    file.extend(start.to_le_bytes());
    file.extend([0, 0]);
    file
}

/// Fetches a path, and returns the response as it was received.
pub fn fetch(authority: &str, path: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(authority).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n").unwrap();
    let mut response = Vec::new();
    stream.read_to_end(&mut response).unwrap();
    response
}

/// A record of what a server sends now.
pub fn fetched(url: &str) -> Vec<u8> {
    let (authority, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let received = fetch(authority, &format!("/{path}"));
    record("response", url, &[("Content-Type", "application/http; msgtype=response")], &received)
}

/// Writes an archive, and returns its path as an argument.
pub fn write(directory: &Path, name: &str, bytes: &[u8]) -> String {
    let path = directory.join(name);
    std::fs::write(&path, bytes).unwrap();
    path.display().to_string()
}
