//! Measures the floor of a crawl: what fetching the pages of a site and finding their links costs at least.
//!
//! ```text
//! floor ROOT_URL LIST REQUESTS_IN_FLIGHT
//! ```
//!
//! LIST has the path and query of a page on each line. The program fetches them over kept-alive HTTP/1.1 connections,
//! resolves the links of each page, and looks each link up in a set of all URLs found. That is all: one thread, no
//! robots.txt, no delays, no timeouts, no storage, and links are not followed. The server must answer each request with
//! the status 200 and a Content-Length.
//!
//! `bench/pipeline.py` and `bench/classic.py` compare the CPU time of crawls with that of this program.

use std::collections::VecDeque;
use std::error::Error;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::{env, fs};

use crawler::internal::html;
use crawler::internal::similarity::HashKey;
use hashbrown::HashTable;
use memchr::memmem;
use url::{Position, Url};

/// The first size of the read buffer, which grows to the size of the largest response.
const BUFFER_BYTES: usize = 256 * 1024;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [root, list, in_flight] = arguments.as_slice() else {
        return Err("usage: floor ROOT_URL LIST REQUESTS_IN_FLIGHT".into());
    };
    let (root, list) = (Url::parse(root)?, fs::read_to_string(list)?);
    let mut pages = list.lines().map(|path| root.join(path));
    let mut connections = VecDeque::new();
    for page in pages.by_ref().take(in_flight.parse()?) {
        let connection = TcpStream::connect(&root[Position::BeforeHost..Position::AfterPort])?;
        connections.push_back(start(connection, page?)?);
    }
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut links = Links { key: HashKey::new(1), urls: HashTable::new(), count: 0 };
    // The connections take turns. When one has its turn again, its response has mostly arrived.
    while let Some((mut connection, page)) = connections.pop_front() {
        let response =
            Response::read(&mut connection, &mut buffer).map_err(|error| format!("{page}: {error}"))?;
        if let Some(next) = pages.next() {
            connections.push_back(start(connection, next?)?);
        }
        links.add(&page, &response);
    }
    println!("{} pages, {} links, {} URLs", list.lines().count(), links.count, links.urls.len());
    Ok(())
}

/// Sends the request for a page.
fn start(mut connection: TcpStream, page: Url) -> Result<(TcpStream, Url), Box<dyn Error>> {
    let host = &page[Position::BeforeHost..Position::AfterPort];
    let target = &page[Position::BeforePath..Position::AfterQuery];
    connection.write_all(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes())?;
    Ok((connection, page))
}

struct Response<'b> {
    content_type: &'b str,
    body: &'b [u8],
}

impl<'b> Response<'b> {
    /// Reads one response to its end.
    fn read(connection: &mut TcpStream, buffer: &'b mut Vec<u8>) -> Result<Response<'b>, Box<dyn Error>> {
        let mut filled = 0;
        let head_end = loop {
            filled += read_some(connection, &mut buffer[filled..])?;
            if let Some(end) = memmem::find(&buffer[..filled], b"\r\n\r\n") {
                break end;
            }
        };
        let head = str::from_utf8(&buffer[..head_end])?;
        if !head.starts_with("HTTP/1.1 200 ") {
            return Err(format!("not a page: {head}").into());
        }
        let length: usize = header(head, "content-length").ok_or("no Content-Length")?.parse()?;
        let body_start = head_end + "\r\n\r\n".len();
        let end = body_start + length;
        if buffer.len() < end {
            buffer.resize(end, 0);
        }
        while filled < end {
            filled += read_some(connection, &mut buffer[filled..end])?;
        }
        let head = str::from_utf8(&buffer[..head_end])?;
        Ok(Response {
            content_type: header(head, "content-type").unwrap_or(""),
            body: &buffer[body_start..end],
        })
    }
}

fn read_some(connection: &mut TcpStream, buffer: &mut [u8]) -> Result<usize, Box<dyn Error>> {
    match connection.read(buffer)? {
        0 => Err("the response is not complete, or its headers are too long".into()),
        bytes => Ok(bytes),
    }
}

fn header<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let fields = head.split("\r\n").filter_map(|line| line.split_once(':'));
    fields.filter(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
}

/// The links of all pages.
struct Links {
    key: HashKey,
    /// The hash of each URL.
    urls: HashTable<u64>,
    count: usize,
}

impl Links {
    fn add(&mut self, page: &Url, response: &Response) {
        if !response.content_type.starts_with("text/html") {
            return;
        }
        html::each_link(page, Some(response.content_type), response.body, |_, link| {
            self.count += 1;
            if let Ok(url) = link {
                let hash = self.key.url_id(url);
                self.urls.entry(hash, |other| *other == hash, |hash| *hash).or_insert(hash);
            }
        });
    }
}
