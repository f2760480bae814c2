//! Serves many hosts with many pages as cheaply as it can, each answer after a while, until standard input ends; then
//! says in JSON what was asked for, how fast, and how soon after each other: `broad HOSTS PAGES MILLISECONDS SENTENCES`.
//!
//! The first line it prints is its port. Hosts are `h0.test`, `h1.test` …; pages are `/` and `/1`, `/2` …, of which each
//! links to the next few of its host and to one of another host.
//!
//! It is not `testweb` itself because it shares the machine with the crawler that it measures: whatever it spends is taken
//! from that one. It knows neither broken requests nor anything but GET.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::io::{self, Read as _};
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::{LocalSet, spawn_local};

/// Thousands of connections may come at once.
const BACKLOG: u32 = 4096;

/// Pages are made of sentences out of so many, so many words long: two pages have hardly one of their sentences in
/// common, and are nothing like each other.
const SENTENCES: usize = 4096;
const WORDS_A_SENTENCE: usize = 14;

/// A page links to so many that come after it, so that its host never runs out of pages to ask for.
const LINKS_AHEAD: usize = 5;

/// More than any request has.
const LARGEST_REQUEST: usize = 8 << 10;

type Shared = Rc<RefCell<Web>>;

/// Everything that is served, and everything that was asked.
struct Web {
    hosts: Vec<Host>,
    pages: usize,
    delay: Duration,
    port: u16,
    sentences: Vec<String>,
    sentences_a_page: usize,
    hits: Vec<Instant>,
    connections: u64,
    strays: u64,
    smallest_gap: Option<Duration>,
    at_once: usize,
}

#[derive(Clone, Default)]
struct Host {
    asked: Vec<bool>,
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
    println!("{}", web.borrow().account());
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
            // Out of file descriptors, most likely: let some connections end first.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        // Without this a small answer may wait 40 ms for the client's acknowledgement.
        let _ = socket.set_nodelay(true);
        web.borrow_mut().connections += 1;
        spawn_local(serve(socket, Rc::clone(&web)));
    }
}

/// Answers until the client goes away; an error is its doing, and nobody is left to tell.
async fn serve(mut socket: TcpStream, web: Shared) -> io::Result<()> {
    let mut request = Vec::with_capacity(1024);
    loop {
        request.clear();
        while !request.ends_with(b"\r\n\r\n") {
            if socket.read_buf(&mut request).await? == 0 || request.len() > LARGEST_REQUEST {
                return Ok(());
            }
        }
        let Some((host, page)) = web.borrow_mut().asked(&request, Instant::now()) else {
            socket.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").await?;
            continue;
        };
        let delay = web.borrow().delay;
        tokio::time::sleep(delay).await;
        let answer = web.borrow().answer(host, page);
        // Before the write: the client cannot have had it earlier, however late this thread gets to run again.
        let end = Instant::now();
        let written = socket.write_all(&answer).await;
        web.borrow_mut().answered(host, end);
        written?;
    }
}

impl Web {
    fn new(hosts: usize, pages: usize, sentences_a_page: usize, delay: Duration, port: u16) -> Web {
        let mut random = Random(1);
        let sentence = |_| (0..WORDS_A_SENTENCE).map(|_| random.word()).collect::<Vec<_>>().join(" ");
        Web {
            hosts: vec![Host { asked: vec![false; pages], ..Host::default() }; hosts],
            pages,
            delay,
            port,
            sentences: (0..SENTENCES).map(sentence).collect(),
            sentences_a_page,
            hits: Vec::with_capacity(hosts * pages),
            connections: 0,
            strays: 0,
            smallest_gap: None,
            at_once: 0,
        }
    }

    /// Notes a request; `None` if it is for no page.
    fn asked(&mut self, request: &[u8], now: Instant) -> Option<(usize, usize)> {
        let Some((index, page)) = self.find(request) else {
            self.strays += 1;
            return None;
        };
        let host = &mut self.hosts[index];
        host.asked[page] = true;
        host.in_flight += 1;
        self.at_once = self.at_once.max(host.in_flight);
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

    fn answered(&mut self, host: usize, end: Instant) {
        let host = &mut self.hosts[host];
        host.in_flight -= 1;
        host.last_end = Some(end);
    }

    /// Head and body in one piece, so that it costs one write.
    fn answer(&self, host: usize, page: usize) -> Vec<u8> {
        let mut body = String::with_capacity(3072);
        let mut random = Random((host * self.pages + page + 1) as u64);
        // Formatting into a String cannot fail.
        let _ = writeln!(body, "<!DOCTYPE html><title>Page {page} of host {host}</title>");
        for _ in 0..self.sentences_a_page {
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

    /// What was asked for, in JSON.
    fn account(&self) -> String {
        let distinct = self.hosts.iter().flat_map(|host| &host.asked).filter(|asked| **asked).count();
        let between = |from: usize, to: usize| match (self.hits.get(from), self.hits.get(to)) {
            (Some(from), Some(to)) => to.duration_since(*from).as_secs_f64(),
            _ => 0.0,
        };
        let hits = self.hits.len();
        let (tenth, last) = (hits / 10, hits.saturating_sub(1));
        let (span, steady) = (between(0, last), between(tenth, last - tenth.min(last)));
        let gap = self.smallest_gap.map_or("null".into(), |gap| format!("{:.3}", 1e3 * gap.as_secs_f64()));
        format!(
            "{{\"hits\": {hits}, \"distinct\": {distinct}, \"strays\": {}, \"connections\": {}, \"at_once\": {}, \
             \"smallest_gap_milliseconds\": {gap}, \"span_seconds\": {span:.3}, \"steady_hits\": {}, \
             \"steady_seconds\": {steady:.3}}}",
            self.strays,
            self.connections,
            self.at_once,
            (last + 1).saturating_sub(2 * tenth),
        )
    }
}

/// Numbers that look random and are the same in every run (SplitMix64).
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
