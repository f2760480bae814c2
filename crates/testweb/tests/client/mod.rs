//! An HTTP client on plain sockets that returns every byte.

// Each test program uses only some of these functions.
#![allow(dead_code, unreachable_pub)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use testweb::Web;

/// Sends a request on a new connection and reads until the server closes it.
pub fn exchange(web: &Web, request: &str) -> String {
    String::from_utf8(exchange_bytes(web, request)).unwrap()
}

pub fn exchange_bytes(web: &Web, request: &str) -> Vec<u8> {
    let mut socket = connect(web);
    socket.write_all(request.as_bytes()).unwrap();
    let mut response = Vec::new();
    socket.read_to_end(&mut response).unwrap();
    response
}

pub fn connect(web: &Web) -> TcpStream {
    let socket = TcpStream::connect(("127.0.0.1", web.port())).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    socket
}

pub fn get(host: &str, path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
}

/// The body of a complete response.
pub fn body(response: &[u8]) -> &[u8] {
    let end = response.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    &response[end + 4..]
}
