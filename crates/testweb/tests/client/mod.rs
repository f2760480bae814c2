//! A client of plain sockets, which sees every byte.

// Each test program uses its own part of this.
#![allow(dead_code, unreachable_pub)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use testweb::Web;

/// What comes back on a new connection until the server closes it.
pub fn exchange(web: &Web, request: &str) -> String {
    String::from_utf8(exchange_bytes(web, request)).unwrap()
}

pub fn exchange_bytes(web: &Web, request: &str) -> Vec<u8> {
    let mut socket = connect(web);
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).unwrap();
    answer
}

pub fn connect(web: &Web) -> TcpStream {
    let socket = TcpStream::connect(("127.0.0.1", web.port())).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    socket
}

pub fn get(host: &str, path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
}

/// The body of a whole answer.
pub fn body(answer: &[u8]) -> &[u8] {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    &answer[end + 4..]
}
