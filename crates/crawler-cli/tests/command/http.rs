//! Sends requests to the server of the dashboard, as they are written, and reads the responses.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// A response takes no longer, not even on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The server of a dashboard.
#[derive(Debug, Clone, Copy)]
pub struct Server {
    pub port: u16,
}

/// A response.
#[derive(Debug)]
pub struct HttpResponse {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Server {
    /// The server whose address is in what a process printed.
    #[track_caller]
    pub fn announced(printed: &str) -> Server {
        let start = printed.find("http://").unwrap_or_else(|| panic!("no address: {printed}"));
        let authority = printed[start + 7..].split('/').next().unwrap();
        Server { port: authority.rsplit(':').next().unwrap().parse().unwrap_or_else(|_| panic!("{printed}")) }
    }

    pub fn connect(self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream
    }

    /// Sends bytes, and reads until the server closes the connection.
    pub fn send(self, request: &[u8]) -> HttpResponse {
        let mut stream = self.connect();
        // The server may refuse the request before it has read all of it.
        let _ = stream.write_all(request);
        let mut response = Vec::new();
        let _ = stream.read_to_end(&mut response);
        let response = String::from_utf8(response).unwrap();
        let (head, body) = response.split_once("\r\n\r\n").unwrap_or((&response, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        HttpResponse { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }

    /// A request with these lines of headers. HTTP/1.0, so that no body is chunked.
    pub fn request(self, method: &str, path: &str, headers: &[&str], body: &str) -> HttpResponse {
        let host = format!("Host: 127.0.0.1:{}", self.port);
        let has_host = headers.iter().any(|header| header.to_ascii_lowercase().starts_with("host:"));
        let headers = headers.iter().copied().chain((!has_host).then_some(host.as_str()));
        let headers: String = headers.map(|header| format!("{header}\r\n")).collect();
        let length =
            if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
        self.send(format!("{method} {path} HTTP/1.0\r\n{headers}{length}\r\n{body}").as_bytes())
    }

    pub fn get(self, path: &str) -> HttpResponse {
        self.request("GET", path, &[], "")
    }

    /// The status of the crawl.
    #[track_caller]
    pub fn status(self) -> Value {
        let answer = self.get("/api/status");
        serde_json::from_str(&answer.body).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
    }

    /// Sends an action, with the CSRF token of the session.
    pub fn act(self, action: &Value) -> HttpResponse {
        let session: Value = serde_json::from_str(&self.get("/api/session").body).unwrap();
        let csrf = format!("X-CSRF-Token: {}", session["csrf"].as_str().unwrap());
        self.request("POST", "/api/action", &[&csrf, "Content-Type: application/json"], &action.to_string())
    }

    /// Opens the stream of events.
    pub fn events(self) -> Events {
        let mut stream = self.connect();
        write!(stream, "GET /events HTTP/1.0\r\nHost: localhost:{}\r\n\r\n", self.port).unwrap();
        let mut lines = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") && lines.read_line(&mut head).unwrap() > 0 {}
        Events { head, lines }
    }
}

/// A stream of events.
pub struct Events {
    pub head: String,
    lines: BufReader<TcpStream>,
}

/// An event: its name and data.
pub type Event = (String, Value);

impl Iterator for Events {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let (mut name, mut data) = (String::new(), None);
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            let line = line.strip_suffix('\n').unwrap();
            match line.split_once(": ") {
                Some(("event", event)) => name = event.to_owned(),
                // Each event has one line of data.
                Some(("data", json)) => assert!(data.replace(serde_json::from_str(json).unwrap()).is_none()),
                Some(("id" | "retry" | "", _)) => {}
                None if line.is_empty() => {
                    if let Some(data) = data.take() {
                        return Some((name, data));
                    }
                }
                _ => panic!("not a line of an event: {line:?}"),
            }
        }
    }
}
