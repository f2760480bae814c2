//! The web server: its listeners on loopback, its sites, and the thread that serves them.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;

use crate::answer::Answer;
use crate::certificate::{Authority, Certificate};
use crate::log::{Log, Recorder};
use crate::request::{Request, host_of};
use crate::seeded::{self, Truth};
use crate::site::Site;
use crate::{connection, http2};

/// Large enough for thousands of clients that connect at once.
const BACKLOG: u32 = 4096;

/// A running web server. A drop stops it.
#[derive(Debug)]
pub struct Web {
    address: IpAddr,
    port: u16,
    https_port: Option<u16>,
    ca_pem: String,
    hosts: Arc<Hosts>,
    recorder: Arc<Recorder>,
    runtime: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Configures a web server: its hosts and where it listens.
#[derive(Debug)]
pub struct Builder {
    hosts: Hosts,
    address: IpAddr,
    port: u16,
    certificate: Option<Certificate>,
    http1_only: bool,
    log_disabled: bool,
}

/// The site of each host name.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    named: HashMap<String, Site>,
    other: Site,
}

impl Hosts {
    fn site(&self, host: &str) -> &Site {
        self.named.get(host).unwrap_or(&self.other)
    }

    pub(crate) fn respond_to(&self, request: &Request) -> Answer {
        self.site(&request.host()).respond_to(request)
    }
}

/// What all connections of one port share.
pub(crate) struct Listener {
    pub(crate) hosts: Arc<Hosts>,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) scheme: &'static str,
    pub(crate) port: u16,
}

impl Builder {
    /// Sets the site of a host name. The port in the Host header is ignored.
    pub fn host(mut self, name: &str, site: Site) -> Self {
        self.hosts.named.insert(name.to_ascii_lowercase(), site);
        self
    }

    /// Sets the site of all other host names, including 127.0.0.1 and localhost.
    pub fn site(mut self, site: Site) -> Self {
        self.hosts.other = site;
        self
    }

    /// Adds seeded hosts, `h0.test` to `h{hosts - 1}.test`, that link to each other. [`Web::truth_from`] returns what a
    /// crawl of them must find.
    ///
    /// # Panics
    /// If `hosts` or `pages_per_host` is 0.
    pub fn seeded_hosts(mut self, seed: u64, hosts: usize, pages_per_host: usize) -> Self {
        for seeded in seeded::Seeded::many(seed, hosts, pages_per_host) {
            self.hosts.named.insert(seeded.name(), Site::from_seeded(seeded));
        }
        self
    }

    /// Listens for HTTPS too, on a second port.
    pub fn https(mut self, certificate: Certificate) -> Self {
        self.certificate = Some(certificate);
        self
    }

    /// Does not offer HTTP/2 over HTTPS.
    pub fn http1_only(mut self) -> Self {
        self.http1_only = true;
        self
    }

    /// Listens on this address instead of 127.0.0.1.
    pub fn on(mut self, address: IpAddr) -> Self {
        self.address = address;
        self
    }

    /// Listens for HTTP on this port instead of a free one.
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Keeps no log, for benchmarks of millions of requests.
    pub fn without_log(mut self) -> Self {
        self.log_disabled = true;
        self
    }

    /// Starts serving.
    ///
    /// # Panics
    /// If it cannot listen. [`try_start`](Self::try_start) returns the error instead.
    pub fn start(self) -> Web {
        self.try_start().expect("cannot start the test web")
    }

    /// Starts serving in a new thread. Fails if it cannot listen.
    pub fn try_start(self) -> io::Result<Web> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let entered = runtime.enter();
        let http = listen(SocketAddr::new(self.address, self.port))?;
        let https = self.certificate.map(|_| listen(SocketAddr::new(self.address, 0))).transpose()?;
        drop(entered);

        let hosts = Arc::new(self.hosts);
        let recorder = Arc::new(Recorder::new(self.log_disabled));
        let connections = Arc::new(AtomicU64::new(1));
        let listener = |scheme, port| {
            Arc::new(Listener { hosts: hosts.clone(), recorder: recorder.clone(), scheme, port })
        };

        let port = http.local_addr()?.port();
        runtime.spawn(accept(http, None, listener("http", port), connections.clone()));
        let (mut https_port, mut ca_pem) = (None, String::new());
        if let (Some(https), Some(certificate)) = (https, self.certificate) {
            let authority = Authority::new(certificate, self.address).map_err(io::Error::other)?;
            ca_pem = authority.root_pem().to_owned();
            let acceptor = TlsAcceptor::from(authority.server(!self.http1_only).map_err(io::Error::other)?);
            let port = https.local_addr()?.port();
            https_port = Some(port);
            runtime.spawn(accept(https, Some(acceptor), listener("https", port), connections));
        }

        let (stop, stopped) = oneshot::channel();
        let handle = runtime.handle().clone();
        let thread =
            std::thread::Builder::new().name("testweb".into()).spawn(move || run(runtime, stopped))?;
        let (stop, thread) = (Some(stop), Some(thread));
        Ok(Web {
            address: self.address,
            port,
            https_port,
            ca_pem,
            hosts,
            recorder,
            runtime: handle,
            stop,
            thread,
        })
    }
}

impl Web {
    /// A web server without hosts, on 127.0.0.1.
    pub fn builder() -> Builder {
        Builder {
            hosts: Hosts::default(),
            address: Ipv4Addr::LOCALHOST.into(),
            port: 0,
            certificate: None,
            http1_only: false,
            log_disabled: false,
        }
    }

    /// `http://127.0.0.1:PORT` and the path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", SocketAddr::new(self.address, self.port))
    }

    /// `http://host:PORT` and the path.
    pub fn url_of(&self, host: &str, path: &str) -> String {
        format!("http://{host}:{}{path}", self.port)
    }

    /// `https://127.0.0.1:PORT` and the path.
    pub fn https_url(&self, path: &str) -> String {
        format!("https://{}{path}", SocketAddr::new(self.address, self.https_port()))
    }

    /// `https://host:PORT` and the path.
    pub fn https_url_of(&self, host: &str, path: &str) -> String {
        format!("https://{host}:{}{path}", self.https_port())
    }

    /// The port for HTTP.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The port for HTTPS.
    ///
    /// # Panics
    /// If the server was built without HTTPS.
    pub fn https_port(&self) -> u16 {
        self.https_port.expect("the server was built without HTTPS")
    }

    /// The root certificate that signed the valid certificate, in PEM, for clients to trust. Empty without HTTPS.
    pub fn ca_pem(&self) -> String {
        self.ca_pem.clone()
    }

    /// All requests so far. If a client has received a complete response, the log has its end.
    pub fn log(&self) -> Log {
        // Read the log on the server's thread, which is then not between sending a response and recording its end.
        let (recorder, (sender, receiver)) = (self.recorder.clone(), mpsc::channel());
        self.runtime.spawn(async move { sender.send(recorder.log()) });
        receiver.recv().unwrap_or_else(|_| self.recorder.log())
    }

    /// The number of requests so far. Cheap enough to poll.
    pub fn hits(&self) -> usize {
        self.recorder.count()
    }

    /// What a crawl of the seeded site must find if it starts at `path` of [`url`](Self::url): by path, each page
    /// within `max_depth` links, its depth and its body.
    ///
    /// # Panics
    /// If the site is not seeded.
    pub fn truth(&self, path: &str, max_depth: usize) -> Truth {
        let origin = self.url("");
        let found = self.truth_from(&self.url(path), max_depth).into_iter();
        found.filter_map(|(url, page)| Some((url.strip_prefix(&origin)?.to_owned(), page))).collect()
    }

    /// The same for a start at any URL of seeded hosts, by URL, including other hosts.
    ///
    /// # Panics
    /// If the URL's host is not seeded.
    pub fn truth_from(&self, url: &str, max_depth: usize) -> Truth {
        let (scheme, rest) = url.split_once("://").expect("an absolute URL");
        let slash = rest.find('/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at(slash);
        let seeded = self.hosts.site(host_of(authority)).seeded_site().expect("the site is seeded");
        seeded.truth(&format!("{scheme}://{authority}"), path, max_depth)
    }
}

impl Drop for Web {
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

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

async fn accept(
    from: TcpListener,
    tls: Option<TlsAcceptor>,
    listener: Arc<Listener>,
    connections: Arc<AtomicU64>,
) {
    loop {
        let Ok((socket, _)) = from.accept().await else {
            // Probably out of file descriptors: wait until some connections end.
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            continue;
        };
        let number = connections.fetch_add(1, Ordering::Relaxed);
        // Without this, a small response may wait 40 ms for the client's acknowledgement.
        let _ = socket.set_nodelay(true);
        match tls.clone() {
            None => drop(tokio::spawn(connection::serve(socket, number, listener.clone()))),
            Some(tls) => drop(tokio::spawn(serve_tls(tls, socket, number, listener.clone()))),
        }
    }
}

async fn serve_tls(tls: TlsAcceptor, socket: TcpStream, number: u64, listener: Arc<Listener>) {
    // A client that rejects an invalid certificate ends here.
    let Ok(socket) = tls.accept(socket).await else { return };
    if socket.get_ref().1.alpn_protocol() == Some(b"h2") {
        http2::serve(socket, number, listener).await;
    } else {
        connection::serve(socket, number, listener).await;
    }
}
