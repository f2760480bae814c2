//! Serves many hosts with many pages for benchmarks: `broad HOSTS PAGES MILLISECONDS SENTENCES`.
//!
//! Each response is delayed by MILLISECONDS. When standard input ends, the program prints a report in JSON: the number
//! of requests, their rate, and the shortest gap between two requests to a host.
//!
//! The first line printed is the port. Hosts are `h0.test`, `h1.test` …; pages are `/`, `/1`, `/2` …. Each page links
//! to the next few pages of its host and to the home page of another host.
//!
//! The benchmarks do not use `testweb` itself, because the server shares the machine with the crawler and must use as
//! little CPU as possible. This server supports only well-formed GET requests.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::io::{self, Read as _};
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::{LocalSet, spawn_local};

/// Large enough for thousands of clients that connect at once.
const BACKLOG: u32 = 4096;

/// Pages are made of random sentences out of this many. Two pages share hardly any sentence, so they are not
/// near-duplicates.
const SENTENCES: usize = 4096;
const WORDS_PER_SENTENCE: usize = 14;

/// How many of the following pages a page links to, so that the crawler never runs out of URLs of a host.
const LINKS_AHEAD: usize = 5;

/// Longer than any request.
const MAX_REQUEST_BYTES: usize = 8 << 10;

type Shared = Rc<RefCell<Web>>;

/// The pages and the record of requests.
struct Web {
    hosts: Vec<Host>,
    pages: usize,
    delay: Duration,
    port: u16,
    sentences: Vec<String>,
    sentences_per_page: usize,
    hits: Vec<Instant>,
    connections: u64,
    unknown_pages: u64,
    smallest_gap: Option<Duration>,
    max_in_flight: usize,
}

#[derive(Clone, Default)]
struct Host {
    requested: Vec<bool>,
    in_flight: usize,
    last_end: Option<Instant>,
}

fn main() -> io::Result<()> {
    let numbers: Vec<usize> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let [hosts, pages, delay, sentences] = numbers[..] else {
        return Err(io::Error::other("usage: broad HOSTS PAGES MILLISECONDS SENTENCES"));
    };
    let delay = Duration::from_millis(delay as u64);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (stop, stopped) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        stop.send(())
    });
    let web = LocalSet::new().block_on(&runtime, async {
        let listener = listen()?;
        let port = listener.local_addr()?.port();
        let web = Rc::new(RefCell::new(Web::new(hosts, pages, sentences, delay, port)));
        spawn_local(accept(listener, Rc::clone(&web)));
        println!("{port}");
        let _ = stopped.await;
        io::Result::Ok(web)
    })?;
    println!("{}", web.borrow().report());
    Ok(())
}

fn listen() -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(([127, 0, 0, 1], 0).into())?;
    socket.listen(BACKLOG)
}

async fn accept(listener: TcpListener, web: Shared) {
    loop {
        let Ok((socket, _)) = listener.accept().await else {
            // Probably out of file descriptors: wait until some connections end.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        // Without this, a small response may wait 40 ms for the client's acknowledgement.
        let _ = socket.set_nodelay(true);
        web.borrow_mut().connections += 1;
        spawn_local(serve(socket, Rc::clone(&web)));
    }
}

/// Serves requests until the client closes the connection.
async fn serve(mut socket: TcpStream, web: Shared) -> io::Result<()> {
    let mut request = Vec::with_capacity(1024);
    loop {
        request.clear();
        while !request.ends_with(b"\r\n\r\n") {
            if socket.read_buf(&mut request).await? == 0 || request.len() > MAX_REQUEST_BYTES {
                return Ok(());
            }
        }
        let Some((host, page)) = web.borrow_mut().requested(&request, Instant::now()) else {
            socket.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").await?;
            continue;
        };
        let delay = web.borrow().delay;
        tokio::time::sleep(delay).await;
        let response = web.borrow().response(host, page);
        // Taken before the write: the client cannot have received the response earlier.
        let end = Instant::now();
        let written = socket.write_all(&response).await;
        web.borrow_mut().responded(host, end);
        written?;
    }
}

impl Web {
    fn new(hosts: usize, pages: usize, sentences_per_page: usize, delay: Duration, port: u16) -> Web {
        let mut random = Random(1);
        let sentence = |_| (0..WORDS_PER_SENTENCE).map(|_| random.word()).collect::<Vec<_>>().join(" ");
        Web {
            hosts: vec![Host { requested: vec![false; pages], ..Host::default() }; hosts],
            pages,
            delay,
            port,
            sentences: (0..SENTENCES).map(sentence).collect(),
            sentences_per_page,
            hits: Vec::with_capacity(hosts * pages),
            connections: 0,
            unknown_pages: 0,
            smallest_gap: None,
            max_in_flight: 0,
        }
    }

    /// Records a request. `None` if there is no such page.
    fn requested(&mut self, request: &[u8], now: Instant) -> Option<(usize, usize)> {
        let Some((index, page)) = self.find(request) else {
            self.unknown_pages += 1;
            return None;
        };
        let host = &mut self.hosts[index];
        host.requested[page] = true;
        host.in_flight += 1;
        self.max_in_flight = self.max_in_flight.max(host.in_flight);
        let gap = match host.last_end {
            _ if host.in_flight > 1 => Some(Duration::ZERO),
            last_end => last_end.map(|end| now.saturating_duration_since(end)),
        };
        if let Some(gap) = gap {
            self.smallest_gap = Some(self.smallest_gap.map_or(gap, |smallest| smallest.min(gap)));
        }
        self.hits.push(now);
        Some((index, page))
    }

    fn find(&self, request: &[u8]) -> Option<(usize, usize)> {
        let text = std::str::from_utf8(request).ok()?;
        let (path, headers) = text.strip_prefix("GET /")?.split_once(' ')?;
        let page = if path.is_empty() { 0 } else { path.parse().ok()? };
        let line = headers
            .lines()
            .find(|line| line.as_bytes().get(..6).is_some_and(|name| name.eq_ignore_ascii_case(b"host: ")))?;
        let (host, _) = line[6..].strip_prefix('h')?.split_once(".test")?;
        let host = host.parse().ok()?;
        (host < self.hosts.len() && page < self.pages).then_some((host, page))
    }

    fn responded(&mut self, host: usize, end: Instant) {
        let host = &mut self.hosts[host];
        host.in_flight -= 1;
        host.last_end = Some(end);
    }

    /// The head and body in one buffer, so that they cost one write.
    fn response(&self, host: usize, page: usize) -> Vec<u8> {
        let mut body = String::with_capacity(3072);
        let mut random = Random((host * self.pages + page + 1) as u64);
        // Formatting into a String cannot fail.
        let _ = writeln!(body, "<!DOCTYPE html><title>Page {page} of host {host}</title>");
        for _ in 0..self.sentences_per_page {
            let sentence = &self.sentences[random.below(SENTENCES)];
            body.extend(["<p>", sentence, "</p>\n"]);
        }
        for next in (page + 1..self.pages).take(LINKS_AHEAD) {
            let _ = writeln!(body, "<a href=\"/{next}\">{next}</a>");
        }
        let (other, port) = (random.below(self.hosts.len()), self.port);
        let _ = writeln!(body, "<a href=\"/\">home</a> <a href=\"http://h{other}.test:{port}/\">friends</a>");
        let length = body.len();
        format!("HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {length}\r\n\r\n{body}").into()
    }

    /// The record of requests, in JSON.
    fn report(&self) -> String {
        let distinct =
            self.hosts.iter().flat_map(|host| &host.requested).filter(|requested| **requested).count();
        let between = |from: usize, to: usize| match (self.hits.get(from), self.hits.get(to)) {
            (Some(from), Some(to)) => to.duration_since(*from).as_secs_f64(),
            _ => 0.0,
        };
        let hits = self.hits.len();
        let (tenth, last) = (hits / 10, hits.saturating_sub(1));
        let (span, steady) = (between(0, last), between(tenth, last - tenth.min(last)));
        let gap = self.smallest_gap.map_or("null".into(), |gap| format!("{:.3}", 1e3 * gap.as_secs_f64()));
        format!(
            "{{\"hits\": {hits}, \"distinct\": {distinct}, \"unknown_pages\": {}, \"connections\": {}, \"max_in_flight\": {}, \
             \"smallest_gap_milliseconds\": {gap}, \"span_seconds\": {span:.3}, \"steady_hits\": {}, \
             \"steady_seconds\": {steady:.3}}}",
            self.unknown_pages,
            self.connections,
            self.max_in_flight,
            (last + 1).saturating_sub(2 * tenth),
        )
    }
}

/// A pseudo-random sequence, the same in every run (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn word(&mut self) -> String {
        let length = 2 + self.below(4);
        (0..length).map(|_| ["ba", "ke", "lo", "mi", "nu", "ra", "se", "ti"][self.below(8)]).collect()
    }
}
