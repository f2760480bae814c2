//! A TCP proxy that injects network faults: it delays, truncates, drops or holds traffic, on new and open connections.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::ports::ReservedPort;
use crate::server::Server;

/// A server that has been silent this long has sent all replies.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(50);
/// Timeout to bind the port again after `Mode::Refuse`.
const REBIND_TIMEOUT: Duration = Duration::from_secs(10);

/// What happens to the traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// It is forwarded.
    Pass,
    /// Each chunk, in both directions, is forwarded after this delay.
    Delay(Duration),
    /// It is held and forwarded when the mode changes, even if the client no longer waits for it.
    Hold,
    /// It is read and dropped. When the mode changes, all connections are closed.
    BlackHole,
    /// Connections are refused, and existing ones closed.
    Refuse,
}

/// A fault that is injected into the next reply.
#[derive(Debug, Clone, Copy)]
enum ReplyFault {
    /// Only this many bytes are forwarded, then both connections are closed.
    Truncate(usize),
    /// The reply is dropped and the client's connection closed. The server has executed the command.
    Drop,
}

/// A fault that is injected into one request, after this many other requests.
#[derive(Debug, Clone, Copy)]
enum RequestFault {
    /// The request is held back and the client's connection closed. `Proxy::deliver_held_request` sends it to the server.
    Hold(usize),
    /// Only the first command of a pipeline is forwarded. The client's connection is closed, and no more traffic
    /// passes.
    FirstCommand(usize),
}

/// A running proxy. A drop closes its connections and its port.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    url: String,
}

#[derive(Debug)]
struct Shared {
    address: SocketAddr,
    /// The proxy does not listen while it refuses connections. The reservation keeps other processes off its port.
    _port: ReservedPort,
    server: SocketAddr,
    state: Mutex<ProxyState>,
    changed: Condvar,
    bytes_requested: AtomicU64,
    bytes_replied: AtomicU64,
}

#[derive(Debug)]
struct ProxyState {
    mode: Mode,
    reply_fault: Option<ReplyFault>,
    request_fault: Option<RequestFault>,
    /// A request that was held back, its connection to the server, and the number of the connection.
    held_request: Option<(Vec<u8>, TcpStream, u64)>,
    /// The number of the connection whose request was held back last.
    held_connection: Option<u64>,
    /// How many bytes of requests are held, in the mode `Hold`.
    held_bytes: usize,
    /// The number of each connection, with its client side and its server side.
    open: Vec<(u64, [TcpStream; 2])>,
    connections: u64,
    is_stopped: bool,
}

impl Proxy {
    /// Starts a proxy for a server. Its [`url`](Proxy::url) is the server's with the port of the proxy.
    pub fn for_server(server: &Server) -> Proxy {
        let mut proxy = Proxy::to(server.url_address());
        let (from, to) = (server.url_address().port(), proxy.shared.address.port());
        proxy.url = server.url().replace(&format!("127.0.0.1:{from}"), &format!("127.0.0.1:{to}"));
        proxy
    }

    /// Starts a proxy for an address.
    pub fn to(server: SocketAddr) -> Proxy {
        let port = ReservedPort::new();
        let listener = rebind((Ipv4Addr::LOCALHOST, port.number()).into());
        let address = listener.local_addr().unwrap();
        let state = ProxyState {
            mode: Mode::Pass,
            reply_fault: None,
            request_fault: None,
            held_request: None,
            held_connection: None,
            held_bytes: 0,
            open: Vec::new(),
            connections: 0,
            is_stopped: false,
        };
        let shared = Arc::new(Shared {
            address,
            _port: port,
            server,
            state: Mutex::new(state),
            changed: Condvar::new(),
            bytes_requested: AtomicU64::new(0),
            bytes_replied: AtomicU64::new(0),
        });
        accept(listener, &shared);
        Proxy { shared, url: format!("redis://{address}/") }
    }

    /// The URL for clients.
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// The address for clients.
    pub fn address(&self) -> SocketAddr {
        self.shared.address
    }

    /// Changes the mode for new and open connections.
    pub fn set_mode(&self, mode: Mode) {
        let before = {
            let mut state = self.shared.state();
            let before = std::mem::replace(&mut state.mode, mode);
            if before != mode && (before == Mode::BlackHole || mode == Mode::Refuse) {
                state.close_connections();
            }
            before
        };
        self.shared.changed.notify_all();
        match (before, mode) {
            (Mode::Refuse, Mode::Refuse) => {}
            (Mode::Refuse, _) => accept(rebind(self.shared.address), &self.shared),
            (_, Mode::Refuse) => self.stop_listening(),
            _ => {}
        }
    }

    /// Closes all connections. Clients can connect again.
    pub fn close_connections(&self) {
        self.shared.state().close_connections();
    }

    /// Truncates the next reply after this many bytes and closes its connection.
    pub fn truncate_next_reply(&self, bytes: usize) {
        self.shared.state().reply_fault = Some(ReplyFault::Truncate(bytes));
    }

    /// Drops the next reply and closes its connection. The server has executed the commands completely.
    pub fn drop_next_reply(&self) {
        self.shared.state().reply_fault = Some(ReplyFault::Drop);
    }

    /// Holds back the request after `skip` others and closes its connection. The client retries, and the held request
    /// arrives [late](Proxy::deliver_held_request).
    pub fn hold_request_after(&self, skip: usize) {
        self.shared.state().request_fault = Some(RequestFault::Hold(skip));
    }

    /// Sends the held request to the server on its original connection, and waits until it is executed.
    pub fn deliver_held_request(&self) {
        let (request, mut server, number) =
            self.shared.state().held_request.take().expect("a request is held back");
        server.write_all(&request).unwrap();
        let _ = server.shutdown(Shutdown::Write);
        while self.shared.state().open.iter().any(|(other, _)| *other == number) {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Forwards only the first command of the request after `skip` others. No more traffic passes from then on.
    pub fn forward_only_first_command_after(&self, skip: usize) {
        self.shared.state().request_fault = Some(RequestFault::FirstCommand(skip));
    }

    /// Whether an injected fault has not happened yet.
    pub fn is_armed(&self) -> bool {
        let state = self.shared.state();
        state.reply_fault.is_some() || state.request_fault.is_some()
    }

    /// How many bytes of requests are held, in the mode `Hold`.
    pub fn held_bytes(&self) -> usize {
        self.shared.state().held_bytes
    }

    /// How many connections were opened.
    pub fn connections(&self) -> u64 {
        self.shared.state().connections
    }

    /// How many bytes of requests and of replies were read.
    pub fn bytes(&self) -> (u64, u64) {
        (
            self.shared.bytes_requested.load(Ordering::Relaxed),
            self.shared.bytes_replied.load(Ordering::Relaxed),
        )
    }

    /// Wakes the accepting thread, so that it sees the new mode and closes the port.
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
            state.is_stopped = true;
            state.close_connections();
            std::mem::replace(&mut state.mode, Mode::Refuse) != Mode::Refuse
        };
        self.shared.changed.notify_all();
        if was_listening {
            self.stop_listening();
        }
    }
}

impl ProxyState {
    /// The fault to inject into the current request, if any.
    fn take_request_fault(&mut self) -> Option<RequestFault> {
        match self.request_fault.as_mut()? {
            RequestFault::Hold(skip) | RequestFault::FirstCommand(skip) if *skip > 0 => {
                *skip -= 1;
                None
            }
            RequestFault::FirstCommand(_) => {
                self.mode = Mode::BlackHole;
                self.request_fault.take()
            }
            RequestFault::Hold(_) => self.request_fault.take(),
        }
    }

    fn close_connections(&mut self) {
        for (_, sides) in self.open.drain(..) {
            for side in sides {
                let _ = side.shutdown(Shutdown::Both);
            }
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, ProxyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a request of this size may be forwarded, and counts it while it is held. Returns false if it must be dropped.
    fn request_may_pass(&self, bytes: usize) -> bool {
        let is_held = {
            let mut state = self.state();
            let is_held = state.mode == Mode::Hold;
            state.held_bytes += if is_held { bytes } else { 0 };
            is_held
        };
        let may_pass = self.may_pass();
        self.state().held_bytes -= if is_held { bytes } else { 0 };
        may_pass
    }

    /// Waits until a chunk may be forwarded. Returns false if it must be dropped.
    fn may_pass(&self) -> bool {
        let mut state = self.state();
        let mode = loop {
            match state.mode {
                _ if state.is_stopped => return false,
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

    /// Connects a client to the server, in both directions.
    fn connect(self: &Arc<Self>, client: TcpStream) {
        // If the server is down, the client's connection is closed too.
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
        thread::spawn(move || shared.forward_requests(number, from_client, to_server));
        let shared = Arc::clone(self);
        thread::spawn(move || {
            shared.forward_replies(number, server, client);
            shared.state().open.retain(|(other, _)| *other != number);
        });
    }

    fn forward_requests(&self, number: u64, mut client: TcpStream, mut server: TcpStream) {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(read @ 1..) = client.read(&mut buffer) {
            self.bytes_requested.fetch_add(read as u64, Ordering::Relaxed);
            let fault = self.state().take_request_fault();
            match fault {
                Some(RequestFault::Hold(_)) => {
                    let mut state = self.state();
                    state.held_request = Some((buffer[..read].to_vec(), server, number));
                    state.held_connection = Some(number);
                    drop(state);
                    let _ = client.shutdown(Shutdown::Both);
                    return;
                }
                Some(RequestFault::FirstCommand(_)) => {
                    let _ = server.write_all(&buffer[..first_command(&buffer[..read])]);
                    break;
                }
                None => {}
            }
            if self.request_may_pass(read) && server.write_all(&buffer[..read]).is_err() {
                break;
            }
        }
        let _ = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Write));
    }

    fn forward_replies(&self, number: u64, mut server: TcpStream, mut client: TcpStream) {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(read @ 1..) = server.read(&mut buffer) {
            self.bytes_replied.fetch_add(read as u64, Ordering::Relaxed);
            let chunk = &buffer[..read];
            let fault = {
                let mut state = self.state();
                match state.reply_fault {
                    // The reply continues in the next chunk.
                    Some(ReplyFault::Truncate(bytes)) if bytes > read => {
                        state.reply_fault = Some(ReplyFault::Truncate(bytes - read));
                        None
                    }
                    _ => state.reply_fault.take(),
                }
            };
            match fault {
                Some(ReplyFault::Truncate(bytes)) => {
                    let _ = client.write_all(&chunk[..bytes]);
                    break;
                }
                Some(ReplyFault::Drop) => {
                    let _ = client.shutdown(Shutdown::Both);
                    drain(&mut server, &mut buffer, Some(DRAIN_TIMEOUT));
                    break;
                }
                None if self.may_pass() && client.write_all(chunk).is_err() => break,
                None => {}
            }
        }
        let _ = client.shutdown(Shutdown::Both);
        if self.state().held_connection == Some(number) {
            // The server still gets the held request, from `Proxy::deliver_held_request`.
            drain(&mut server, &mut buffer, None);
        }
        let _ = server.shutdown(Shutdown::Both);
    }
}

/// The length of the first command of a request: an array of strings, each preceded by its length.
fn first_command(request: &[u8]) -> usize {
    let line = |from: usize| {
        let end = from + request[from..].windows(2).position(|end| end == b"\r\n").expect("a complete line");
        let number: usize = std::str::from_utf8(&request[from + 1..end]).unwrap().parse().unwrap();
        (number, end + 2)
    };
    let (arguments, first) = line(0);
    (0..arguments).fold(first, |at, _| {
        let (length, argument) = line(at);
        argument + length + 2
    })
}

/// Reads all replies, so that the server executes all commands before the connection is closed.
fn drain(server: &mut TcpStream, buffer: &mut [u8], timeout: Option<Duration>) {
    let _ = server.set_read_timeout(timeout);
    while let Ok(1..) = server.read(buffer) {}
}

/// Accepts clients on a new thread until the mode is `Refuse`.
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

fn rebind(address: SocketAddr) -> TcpListener {
    let start = Instant::now();
    loop {
        match TcpListener::bind(address) {
            Ok(listener) => return listener,
            Err(error) if start.elapsed() > REBIND_TIMEOUT => panic!("cannot bind {address} again: {error}"),
            Err(_) => thread::sleep(Duration::from_millis(10)),
        }
    }
}
