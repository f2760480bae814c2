//! The server: listeners on loopback, and the thread that serves them.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::oneshot;

use crate::connection;
use crate::log::{Entry, Log, Recorder};
use crate::request::Request;
use crate::response::Response;

/// Large enough for thousands of clients that connect at once.
const BACKLOG: u32 = 4096;

/// How long the server waits for a free file descriptor.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

type Handler = Arc<dyn Fn(&Request) -> Response + Send + Sync>;

/// Where a server listens, and whether it keeps a log.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The address. Default: 127.0.0.1.
    pub address: IpAddr,
    /// The HTTP port. Default: a free one.
    pub port: u16,
    /// Whether requests are logged for [`Server::log`]. Default: true. Benchmarks of millions of requests disable it.
    pub log: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { address: Ipv4Addr::LOCALHOST.into(), port: 0, log: true }
    }
}

/// A running server. A drop stops it.
pub struct Server {
    address: IpAddr,
    port: u16,
    handler: Handler,
    recorder: Arc<Recorder>,
    /// Numbers the connections of all listeners.
    connections: Arc<AtomicU64>,
    runtime: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What all connections of one port share.
pub struct Listener {
    pub(crate) handler: Handler,
    pub(crate) scheme: &'static str,
    recorder: Arc<Recorder>,
    port: u16,
}

impl Listener {
    /// `http` or `https`.
    pub fn scheme(&self) -> &'static str {
        self.scheme
    }

    /// Records the start of a request in the log.
    pub fn log_request(&self, connection: u64, request: &Request) -> Entry {
        self.recorder.start(connection, self.port, request)
    }
}

impl Server {
    /// Starts a server on a free port of 127.0.0.1, on its own thread.
    pub fn start(handler: impl Fn(&Request) -> Response + Send + Sync + 'static) -> io::Result<Server> {
        Server::start_with(Options::default(), handler)
    }

    /// Starts a server with these options, on its own thread.
    pub fn start_with(
        options: Options,
        handler: impl Fn(&Request) -> Response + Send + Sync + 'static,
    ) -> io::Result<Server> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut server = Server {
            address: options.address,
            port: 0,
            handler: Arc::new(handler),
            recorder: Arc::new(Recorder::new(options.log)),
            connections: Arc::new(AtomicU64::new(1)),
            runtime: runtime.handle().clone(),
            stop: None,
            thread: None,
        };
        server.port = server.listen("http", options.port, |socket, number, listener| {
            connection::serve(socket, |socket| socket, number, listener)
        })?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("demoweb".into());
        server.thread = Some(thread.spawn(move || run(runtime, stopped))?);
        server.stop = Some(stop);
        Ok(server)
    }

    /// Listens on another port (0: a free one) and returns it. `serve` serves each accepted connection; its
    /// second argument is the number of the connection.
    pub fn listen<F, S>(&self, scheme: &'static str, port: u16, serve: F) -> io::Result<u16>
    where
        F: Fn(TcpStream, u64, Arc<Listener>) -> S + Send + 'static,
        S: Future<Output = ()> + Send + 'static,
    {
        let _entered = self.runtime.enter();
        let socket = bind(SocketAddr::new(self.address, port))?;
        let port = socket.local_addr()?.port();
        let (handler, recorder) = (self.handler.clone(), self.recorder.clone());
        let listener = Arc::new(Listener { handler, recorder, scheme, port });
        self.runtime.spawn(accept(socket, listener, self.connections.clone(), serve));
        Ok(port)
    }

    /// `http://127.0.0.1:PORT` and the path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", SocketAddr::new(self.address, self.port))
    }

    /// `http://host:PORT` and the path.
    pub fn url_of(&self, host: &str, path: &str) -> String {
        format!("http://{host}:{}{path}", self.port)
    }

    /// The HTTP port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// All requests so far. A response that its client has received completely is listed with its end.
    pub fn log(&self) -> Log {
        // Read the log on the server's thread, which is then not between sending a response and recording its end.
        let (recorder, (sender, receiver)) = (self.recorder.clone(), mpsc::channel());
        self.runtime.spawn(async move { sender.send(recorder.log()) });
        receiver.recv().unwrap_or_else(|_| self.recorder.log())
    }

    /// The number of requests so far: cheap enough to poll.
    pub fn hits(&self) -> usize {
        self.recorder.count()
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("address", &self.address)
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(runtime: Runtime, stopped: oneshot::Receiver<()>) {
    // The drop of the sender is the signal. The drop of the runtime then closes every connection.
    let _ = runtime.block_on(stopped);
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

async fn accept<F, S>(from: TcpListener, listener: Arc<Listener>, connections: Arc<AtomicU64>, serve: F)
where
    F: Fn(TcpStream, u64, Arc<Listener>) -> S,
    S: Future<Output = ()> + Send + 'static,
{
    loop {
        let Ok((socket, _)) = from.accept().await else {
            // Probably out of file descriptors: wait until some connections end.
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let number = connections.fetch_add(1, Ordering::Relaxed);
        // Without this, a small response may wait 40 ms for the client's acknowledgement.
        let _ = socket.set_nodelay(true);
        drop(tokio::spawn(serve(socket, number, listener.clone())));
    }
}
