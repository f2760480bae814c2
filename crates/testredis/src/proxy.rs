//! Stands between a client and a server and makes the troubles of a network: whatever passes can be delayed, cut,
//! swallowed or held, switched while connections are open.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::ports::ReservedPort;
use crate::server::Server;

/// How long a server is quiet when it has answered all that it was asked.
const QUIET: Duration = Duration::from_millis(50);
/// How long the port of a proxy that refused may take to be free again.
const REBIND: Duration = Duration::from_secs(10);

/// What happens to what passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// It passes.
    Pass,
    /// Each piece, in either direction, passes so much later.
    Delay(Duration),
    /// It is held, and passes when the mode changes: late, also if nobody waits for it any more.
    Hold,
    /// It is read and lost. When the mode changes, the connections that lost something are cut.
    BlackHole,
    /// Nobody is let in, and who was in is cut off.
    Refuse,
}

/// What happens to the next answer, once.
#[derive(Debug, Clone, Copy)]
enum Next {
    /// It passes up to so many bytes, and then both sides are cut.
    Cut(usize),
    /// It is lost, and the client is cut off: what it asked was done.
    Swallow,
}

/// What happens to a question, once, after so many others.
#[derive(Debug, Clone, Copy)]
enum Question {
    /// It is kept, and the client is cut off; it comes to the server when that is asked for.
    Keep(usize),
    /// Only its first command passes. The client is cut off, and hears nothing any more.
    FirstCommand(usize),
}

/// A proxy. It lets nobody through any more when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    url: String,
}

#[derive(Debug)]
struct Shared {
    address: SocketAddr,
    /// The proxy does not listen while it refuses connections: nobody else may take its port then.
    _port: ReservedPort,
    server: SocketAddr,
    state: Mutex<State>,
    changed: Condvar,
    asked: AtomicU64,
    answered: AtomicU64,
}

#[derive(Debug)]
struct State {
    mode: Mode,
    next: Option<Next>,
    question: Option<Question>,
    /// A question that was kept, where it is to go, and the number of its connection.
    kept: Option<(Vec<u8>, TcpStream, u64)>,
    /// Both sides of each connection.
    open: Vec<(u64, [TcpStream; 2])>,
    connections: u64,
    is_over: bool,
}

impl Proxy {
    /// A proxy before a server; its [`url`](Proxy::url) is the server's with the port of the proxy.
    pub fn before(server: &Server) -> Proxy {
        let mut proxy = Proxy::to(server.url_address());
        let (from, to) = (server.url_address().port(), proxy.shared.address.port());
        proxy.url = server.url().replace(&format!("127.0.0.1:{from}"), &format!("127.0.0.1:{to}"));
        proxy
    }

    /// A proxy before whatever listens there.
    pub fn to(server: SocketAddr) -> Proxy {
        let port = ReservedPort::new();
        let listener = bind_again((Ipv4Addr::LOCALHOST, port.number()).into());
        let address = listener.local_addr().unwrap();
        let state = State {
            mode: Mode::Pass,
            next: None,
            question: None,
            kept: None,
            open: Vec::new(),
            connections: 0,
            is_over: false,
        };
        let shared = Arc::new(Shared {
            address,
            _port: port,
            server,
            state: Mutex::new(state),
            changed: Condvar::new(),
            asked: AtomicU64::new(0),
            answered: AtomicU64::new(0),
        });
        accept(listener, &shared);
        Proxy { shared, url: format!("redis://{address}/") }
    }

    /// Where a client finds it.
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// The same as an address.
    pub fn address(&self) -> SocketAddr {
        self.shared.address
    }

    /// Changes what happens to what passes, from now.
    pub fn set(&self, mode: Mode) {
        let before = {
            let mut state = self.shared.state();
            let before = std::mem::replace(&mut state.mode, mode);
            if before != mode && (before == Mode::BlackHole || mode == Mode::Refuse) {
                state.cut();
            }
            before
        };
        self.shared.changed.notify_all();
        match (before, mode) {
            (Mode::Refuse, Mode::Refuse) => {}
            (Mode::Refuse, _) => accept(bind_again(self.shared.address), &self.shared),
            (_, Mode::Refuse) => self.stop_listening(),
            _ => {}
        }
    }

    /// Cuts all connections, now; who comes again is let in.
    pub fn cut(&self) {
        self.shared.state().cut();
    }

    /// Cuts the connection of the next answer in the middle of it, after so many bytes.
    pub fn cut_next_answer_after(&self, bytes: usize) {
        self.shared.state().next = Some(Next::Cut(bytes));
    }

    /// Loses the next answer and cuts its connection. The server has done what it was asked, to the end.
    pub fn swallow_next_answer(&self) {
        self.shared.state().next = Some(Next::Swallow);
    }

    /// Keeps what is asked next after so many questions, and cuts the connection it came on: who asked asks again, and what
    /// was kept comes [late](Proxy::deliver).
    pub fn keep_question_after(&self, others: usize) {
        self.shared.state().question = Some(Question::Keep(others));
    }

    /// Lets the server have what was kept, on the connection that it came on, and waits until it is done.
    pub fn deliver(&self) {
        let (question, mut server, number) = self.shared.state().kept.take().expect("a question was kept");
        server.write_all(&question).unwrap();
        let _ = server.shutdown(Shutdown::Write);
        while self.shared.state().open.iter().any(|(other, _)| *other == number) {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Lets only the first command pass of what is asked next after so many questions; nothing passes from then on.
    pub fn pass_only_the_first_command_after(&self, others: usize) {
        self.shared.state().question = Some(Question::FirstCommand(others));
    }

    /// Whether an answer that is to be cut or swallowed, or a question that is not to pass, has not come yet.
    pub fn is_armed(&self) -> bool {
        let state = self.shared.state();
        state.next.is_some() || state.question.is_some()
    }

    /// How many connections there were.
    pub fn connections(&self) -> u64 {
        self.shared.state().connections
    }

    /// How many bytes were asked and answered through it.
    pub fn bytes(&self) -> (u64, u64) {
        (self.shared.asked.load(Ordering::Relaxed), self.shared.answered.load(Ordering::Relaxed))
    }

    /// Wakes whoever listens, so that it sees that it shall not; afterwards connections are refused.
    fn stop_listening(&self) {
        while TcpStream::connect(self.shared.address).is_ok() {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let was_listening = {
            let mut state = self.shared.state();
            state.is_over = true;
            state.cut();
            std::mem::replace(&mut state.mode, Mode::Refuse) != Mode::Refuse
        };
        self.shared.changed.notify_all();
        if was_listening {
            self.stop_listening();
        }
    }
}

impl State {
    /// What happens to the question that came, if it is not to pass.
    fn next_question(&mut self) -> Option<Question> {
        match self.question.as_mut()? {
            Question::Keep(others) | Question::FirstCommand(others) if *others > 0 => {
                *others -= 1;
                None
            }
            Question::FirstCommand(_) => {
                self.mode = Mode::BlackHole;
                self.question.take()
            }
            Question::Keep(_) => self.question.take(),
        }
    }

    fn cut(&mut self) {
        for (_, sides) in self.open.drain(..) {
            for side in sides {
                let _ = side.shutdown(Shutdown::Both);
            }
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a piece may pass; tells whether it may at all.
    fn may_pass(&self) -> bool {
        let mut state = self.state();
        let mode = loop {
            match state.mode {
                _ if state.is_over => return false,
                Mode::Hold => {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                mode => break mode,
            }
        };
        drop(state);
        if let Mode::Delay(time) = mode {
            thread::sleep(time);
        }
        !matches!(mode, Mode::BlackHole | Mode::Refuse)
    }

    /// Connects a client with the server, both ways.
    fn connect(self: &Arc<Self>, client: TcpStream) {
        // A server that is not there ends the connection to the client as well.
        let Ok(server) = TcpStream::connect(self.server) else { return };
        let copy = || Some((client.try_clone().ok()?, server.try_clone().ok()?));
        let (Some((from_client, to_server)), Some((kept_client, kept_server))) = (copy(), copy()) else {
            return;
        };
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let number = {
            let mut state = self.state();
            state.connections += 1;
            let number = state.connections;
            state.open.push((number, [kept_client, kept_server]));
            number
        };
        let shared = Arc::clone(self);
        thread::spawn(move || shared.pass_questions(number, from_client, to_server));
        let shared = Arc::clone(self);
        thread::spawn(move || {
            shared.pass_answers(server, client);
            shared.state().open.retain(|(other, _)| *other != number);
        });
    }

    fn pass_questions(&self, number: u64, mut client: TcpStream, mut server: TcpStream) {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(read @ 1..) = client.read(&mut buffer) {
            self.asked.fetch_add(read as u64, Ordering::Relaxed);
            let next = self.state().next_question();
            match next {
                Some(Question::Keep(_)) => {
                    self.state().kept = Some((buffer[..read].to_vec(), server, number));
                    let _ = client.shutdown(Shutdown::Both);
                    return;
                }
                Some(Question::FirstCommand(_)) => {
                    let _ = server.write_all(&buffer[..first_command(&buffer[..read])]);
                    break;
                }
                None => {}
            }
            if self.may_pass() && server.write_all(&buffer[..read]).is_err() {
                break;
            }
        }
        let _ = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Write));
    }

    fn pass_answers(&self, mut server: TcpStream, mut client: TcpStream) {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(read @ 1..) = server.read(&mut buffer) {
            self.answered.fetch_add(read as u64, Ordering::Relaxed);
            let piece = &buffer[..read];
            let next = {
                let mut state = self.state();
                match state.next {
                    // What is longer than this piece is cut in a later one.
                    Some(Next::Cut(bytes)) if bytes > read => {
                        state.next = Some(Next::Cut(bytes - read));
                        None
                    }
                    _ => state.next.take(),
                }
            };
            match next {
                Some(Next::Cut(bytes)) => {
                    let _ = client.write_all(&piece[..bytes]);
                    break;
                }
                Some(Next::Swallow) => {
                    let _ = client.shutdown(Shutdown::Both);
                    drain(&mut server, &mut buffer);
                    break;
                }
                None if self.may_pass() && client.write_all(piece).is_err() => break,
                None => {}
            }
        }
        let _ = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
    }
}

/// How long the first command is of what is asked: an array of words, each with its length before it.
fn first_command(asked: &[u8]) -> usize {
    let line = |from: usize| {
        let end = from + asked[from..].windows(2).position(|end| end == b"\r\n").expect("a whole line");
        let number: usize = std::str::from_utf8(&asked[from + 1..end]).unwrap().parse().unwrap();
        (number, end + 2)
    };
    let (words, first) = line(0);
    (0..words).fold(first, |at, _| {
        let (length, word) = line(at);
        word + length + 2
    })
}

/// Lets the server do all that it was asked before it loses the connection.
fn drain(server: &mut TcpStream, buffer: &mut [u8]) {
    let _ = server.set_read_timeout(Some(QUIET));
    while let Ok(1..) = server.read(buffer) {}
}

/// Lets clients in, on a thread of its own, until the mode says otherwise.
fn accept(listener: TcpListener, shared: &Arc<Shared>) {
    let shared = Arc::clone(shared);
    thread::spawn(move || {
        for client in listener.incoming() {
            if shared.state().mode == Mode::Refuse {
                break;
            }
            if let Ok(client) = client {
                shared.connect(client);
            }
        }
    });
}

fn bind_again(address: SocketAddr) -> TcpListener {
    let begun = Instant::now();
    loop {
        match TcpListener::bind(address) {
            Ok(listener) => return listener,
            Err(error) if begun.elapsed() > REBIND => panic!("{address} is not free again: {error}"),
            Err(_) => thread::sleep(Duration::from_millis(10)),
        }
    }
}
