//! The web itself: listeners on loopback, the sites behind them, and the thread that serves them.

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

/// Thousands of clients may connect before the first is accepted.
const BACKLOG: u32 = 4096;

/// A web being served. It stops when this is dropped.
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

/// A web to be served: who its hosts are and where it listens.
#[derive(Debug)]
pub struct Builder {
    hosts: Hosts,
    address: IpAddr,
    port: u16,
    certificate: Option<Certificate>,
    http1_only: bool,
    forgetful: bool,
}

/// Which site answers for which host name.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    named: HashMap<String, Site>,
    other: Site,
}

impl Hosts {
    fn site(&self, host: &str) -> &Site {
        self.named.get(host).unwrap_or(&self.other)
    }

    pub(crate) fn answer_to(&self, request: &Request) -> Answer {
        self.site(&request.host()).answer_to(request)
    }
}

/// What every connection accepted on one port shares.
pub(crate) struct Listener {
    pub(crate) hosts: Arc<Hosts>,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) scheme: &'static str,
    pub(crate) port: u16,
}

impl Builder {
    /// The site of this host name; the port of the Host header does not matter.
    pub fn host(mut self, name: &str, site: Site) -> Self {
        self.hosts.named.insert(name.to_ascii_lowercase(), site);
        self
    }

    /// The site of every other host name, 127.0.0.1 and localhost among them.
    pub fn site(mut self, site: Site) -> Self {
        self.hosts.other = site;
        self
    }

    /// Many hosts of one seeded web, `h0.test` to `h{hosts - 1}.test`, with links from each to others.
    /// [`Web::truth_from`] tells what a crawl of it must find.
    ///
    /// # Panics
    /// Without a single host or a single page on each.
    pub fn seeded_hosts(mut self, seed: u64, hosts: usize, pages_per_host: usize) -> Self {
        for seeded in seeded::Seeded::many(seed, hosts, pages_per_host) {
            self.hosts.named.insert(seeded.name(), Site::of_seeded(seeded));
        }
        self
    }

    /// Listens for https as well, on a second port.
    pub fn https(mut self, certificate: Certificate) -> Self {
        self.certificate = Some(certificate);
        self
    }

    /// Does not offer h2 over https.
    pub fn http1_only(mut self) -> Self {
        self.http1_only = true;
        self
    }

    /// Listens on another address than 127.0.0.1.
    pub fn on(mut self, address: IpAddr) -> Self {
        self.address = address;
        self
    }

    /// Listens for http on this port instead of a free one.
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Keeps no log, for benchmarks of millions of requests.
    pub fn without_log(mut self) -> Self {
        self.forgetful = true;
        self
    }

    /// Starts serving.
    ///
    /// # Panics
    /// If it cannot listen; [`try_start`](Self::try_start) says so instead.
    pub fn start(self) -> Web {
        self.try_start().expect("the test web cannot start")
    }

    /// Starts serving, in a thread of its own, unless it cannot listen.
    pub fn try_start(self) -> io::Result<Web> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let entered = runtime.enter();
        let http = listen(SocketAddr::new(self.address, self.port))?;
        let https = self.certificate.map(|_| listen(SocketAddr::new(self.address, 0))).transpose()?;
        drop(entered);

        let hosts = Arc::new(self.hosts);
        let recorder = Arc::new(Recorder::new(self.forgetful));
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
    /// A web with no hosts yet, on 127.0.0.1.
    pub fn builder() -> Builder {
        Builder {
            hosts: Hosts::default(),
            address: Ipv4Addr::LOCALHOST.into(),
            port: 0,
            certificate: None,
            http1_only: false,
            forgetful: false,
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

    /// The port for http.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The port for https.
    ///
    /// # Panics
    /// If the web was built without https.
    pub fn https_port(&self) -> u16 {
        self.https_port.expect("this web was built without https")
    }

    /// The root that signed the good certificate, in PEM, for a client to trust. Empty without https.
    pub fn ca_pem(&self) -> String {
        self.ca_pem.clone()
    }

    /// Every request so far. An answer that its client has wholly received is in it with its end.
    pub fn log(&self) -> Log {
        // Asked in the server's own thread, which is then not between sending an answer and noting its end.
        let (recorder, (tell, told)) = (self.recorder.clone(), mpsc::channel());
        self.runtime.spawn(async move { tell.send(recorder.log()) });
        told.recv().unwrap_or_else(|_| self.recorder.log())
    }

    /// How many requests there have been so far: cheap enough to poll.
    pub fn hits(&self) -> usize {
        self.recorder.count()
    }

    /// What a crawl of the seeded site must find that starts at `path` of [`url`](Self::url): by path, each page
    /// within `max_depth` hops, its fewest hops, and its body.
    ///
    /// # Panics
    /// If the site is not a seeded one.
    pub fn truth(&self, path: &str, max_depth: usize) -> Truth {
        let origin = self.url("");
        let found = self.truth_from(&self.url(path), max_depth).into_iter();
        found.filter_map(|(url, page)| Some((url.strip_prefix(&origin)?.to_owned(), page))).collect()
    }

    /// The same from any URL of a seeded site or of seeded hosts, by URL, other hosts included.
    ///
    /// # Panics
    /// If the URL's host is not a seeded one.
    pub fn truth_from(&self, url: &str, max_depth: usize) -> Truth {
        let (scheme, rest) = url.split_once("://").expect("an absolute URL");
        let slash = rest.find('/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at(slash);
        let seeded = self.hosts.site(host_of(authority)).seeded_part().expect("the site is a seeded one");
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
    // Dropping the sender is the signal; dropping the runtime afterwards breaks every connection off.
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
            // Out of file descriptors, most likely: let some connections end first.
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            continue;
        };
        let number = connections.fetch_add(1, Ordering::Relaxed);
        // Without this a small answer may wait 40 ms for the client's acknowledgement.
        let _ = socket.set_nodelay(true);
        match tls.clone() {
            None => drop(tokio::spawn(connection::serve(socket, number, listener.clone()))),
            Some(tls) => drop(tokio::spawn(serve_tls(tls, socket, number, listener.clone()))),
        }
    }
}

async fn serve_tls(tls: TlsAcceptor, socket: TcpStream, number: u64, listener: Arc<Listener>) {
    // A client that refuses the certificate ends here; that is what the bad ones are for.
    let Ok(socket) = tls.accept(socket).await else { return };
    if socket.get_ref().1.alpn_protocol() == Some(b"h2") {
        http2::serve(socket, number, listener).await;
    } else {
        connection::serve(socket, number, listener).await;
    }
}
