//! Proxies on loopback for tests: HTTP (CONNECT and forwarding, also over TLS) and SOCKS5, with a log and faults.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;

use crate::certificate::{Authority, Certificate};

/// The largest head of a request.
const MAX_HEAD: usize = 64 * 1024;

/// A running proxy. A drop stops it, and closes its connections.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    scheme: &'static str,
    ca_pem: String,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Configures a proxy.
#[derive(Debug)]
pub struct ProxyBuilder {
    kind: Kind,
    port: u16,
    tls: bool,
    credentials: Option<(String, String)>,
    fault: Option<ProxyFault>,
}

/// What a proxy does instead of serving the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyFault {
    /// Closes the connection when it has read the request.
    Close,
    /// Never replies.
    Hang,
    /// Replies with bytes that are no response.
    Garbage,
    /// Sends a response whose headers never end.
    EndlessHeader,
    /// Replies with this HTTP status.
    Status(u16),
    /// Replies to a SOCKS5 request with this code.
    SocksReply(u8),
}

/// A request that a proxy received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyRequest {
    /// `CONNECT`, `GET` or another method; `SOCKS5`.
    pub method: String,
    /// What was requested: host and port, or a URL.
    pub target: String,
    /// Whether a SOCKS5 request had a name rather than an address.
    pub by_name: bool,
    /// The headers of an HTTP request in order, names in lower case.
    pub headers: Vec<(String, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Http,
    Socks5,
}

#[derive(Debug)]
struct Shared {
    kind: Kind,
    credentials: Option<(String, String)>,
    fault: Mutex<Option<ProxyFault>>,
    log: Mutex<Vec<ProxyRequest>>,
}

impl ProxyBuilder {
    /// Listens on this port instead of a free one.
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Speaks TLS to its clients, with a certificate of [`Proxy::ca_pem`].
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// Requires this user name and password.
    pub fn credentials(mut self, user: &str, password: &str) -> Self {
        self.credentials = Some((user.into(), password.into()));
        self
    }

    /// Has this fault from the start.
    pub fn fault(mut self, fault: ProxyFault) -> Self {
        self.fault = Some(fault);
        self
    }

    /// Starts the proxy on a thread of its own.
    ///
    /// # Panics
    /// If it cannot listen.
    pub fn start(self) -> Proxy {
        self.try_start().expect("cannot start the proxy")
    }

    fn try_start(self) -> io::Result<Proxy> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (acceptor, ca_pem) = match self.tls {
            false => (None, String::new()),
            true => {
                let address = IpAddr::from(Ipv4Addr::LOCALHOST);
                let authority = Authority::new(Certificate::Good, address).map_err(io::Error::other)?;
                let authority = Arc::new(authority);
                let ca_pem = authority.root_pem().to_owned();
                let config = authority.server(false).map_err(io::Error::other)?;
                (Some(TlsAcceptor::from(config)), ca_pem)
            }
        };
        let (fault, log) = (Mutex::new(self.fault), Mutex::default());
        let shared = Arc::new(Shared { kind: self.kind, credentials: self.credentials, fault, log });
        let listener = {
            let _entered = runtime.enter();
            let socket = TcpSocket::new_v4()?;
            socket.set_reuseaddr(true)?;
            socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, self.port)))?;
            socket.listen(1024)?
        };
        let port = listener.local_addr()?.port();
        let (stop, stopped) = oneshot::channel();
        let (served, tls) = (shared.clone(), acceptor.is_some());
        let thread = std::thread::Builder::new().name("proxy".into()).spawn(move || {
            runtime.spawn(accept(listener, acceptor, served));
            // The drop of the sender is the signal. The drop of the runtime then closes every connection.
            let _ = runtime.block_on(stopped);
        })?;
        let scheme = match (self.kind, tls) {
            (Kind::Socks5, _) => "socks5h",
            (Kind::Http, true) => "https",
            (Kind::Http, false) => "http",
        };
        Ok(Proxy { port, scheme, ca_pem, shared, stop: Some(stop), thread: Some(thread) })
    }
}

impl Proxy {
    /// An HTTP proxy. All names are hosts of this machine.
    pub fn http() -> ProxyBuilder {
        ProxyBuilder { kind: Kind::Http, port: 0, tls: false, credentials: None, fault: None }
    }

    /// A SOCKS5 proxy. All names are hosts of this machine.
    pub fn socks5() -> ProxyBuilder {
        ProxyBuilder { kind: Kind::Socks5, ..Proxy::http() }
    }

    /// The URL of the proxy, without credentials. That of a SOCKS5 proxy has the scheme `socks5h`.
    pub fn url(&self) -> String {
        format!("{}://127.0.0.1:{}", self.scheme, self.port)
    }

    /// The URL with a user name and a password.
    pub fn url_with(&self, credentials: &str) -> String {
        format!("{}://{credentials}@127.0.0.1:{}", self.scheme, self.port)
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The root certificate of a proxy that speaks TLS.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// All requests so far, also those that were not served.
    pub fn log(&self) -> Vec<ProxyRequest> {
        unpoisoned(&self.shared.log).clone()
    }

    /// From now on, has this fault or none.
    pub fn set_fault(&self, fault: Option<ProxyFault>) {
        *unpoisoned(&self.shared.fault) = fault;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl ProxyRequest {
    /// The value of the first header with this lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

async fn accept(listener: TcpListener, acceptor: Option<TlsAcceptor>, shared: Arc<Shared>) {
    while let Ok((socket, _)) = listener.accept().await {
        let _ = socket.set_nodelay(true);
        let (acceptor, shared) = (acceptor.clone(), shared.clone());
        drop(tokio::spawn(async move {
            // An error means that one of the sides has closed its connection.
            let _ = match acceptor {
                None => shared.serve(socket).await,
                Some(acceptor) => match acceptor.accept(socket).await {
                    Ok(socket) => shared.serve(socket).await,
                    Err(error) => Err(error),
                },
            };
        }));
    }
}

impl Shared {
    async fn serve<S: AsyncRead + AsyncWrite + Unpin>(&self, client: S) -> io::Result<()> {
        match self.kind {
            Kind::Http => self.serve_http(client).await,
            Kind::Socks5 => self.serve_socks5(client).await,
        }
    }

    async fn serve_http<S: AsyncRead + AsyncWrite + Unpin>(&self, mut client: S) -> io::Result<()> {
        let mut server = None;
        loop {
            let Some(request) = read_head(&mut client).await? else { return Ok(()) };
            unpoisoned(&self.log).push(request.clone());
            if let Some(fault) = self.fault() {
                return misbehave(&mut client, fault).await;
            }
            let expected = self.credentials.as_ref().map(|(user, password)| basic(user, password));
            if expected.as_deref() != request.header("proxy-authorization").filter(|_| expected.is_some()) {
                let denied = "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n";
                client.write_all(denied.as_bytes()).await?;
                continue;
            }
            if request.method == "CONNECT" {
                let Ok(mut server) = connect(&request.target).await else {
                    client.write_all(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n").await?;
                    return Ok(());
                };
                client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
                copy_bidirectional(&mut client, &mut server).await?;
                return Ok(());
            }
            if !forward(&mut client, &mut server, &request).await? {
                return Ok(());
            }
        }
    }

    async fn serve_socks5<S: AsyncRead + AsyncWrite + Unpin>(&self, mut client: S) -> io::Result<()> {
        let methods = client.read_u16().await?.to_be_bytes()[1];
        let mut offered = vec![0; methods.into()];
        client.read_exact(&mut offered).await?;
        match &self.credentials {
            None => client.write_all(&[5, 0]).await?,
            Some(_) if !offered.contains(&2) => return client.write_all(&[5, 0xff]).await,
            Some((user, password)) => {
                client.write_all(&[5, 2]).await?;
                client.read_u8().await?;
                let given = (read_text(&mut client).await?, read_text(&mut client).await?);
                let is_right = (given.0 == *user) && (given.1 == *password);
                client.write_all(&[1, u8::from(!is_right)]).await?;
                if !is_right {
                    return Ok(());
                }
            }
        }
        let mut head = [0; 4];
        client.read_exact(&mut head).await?;
        let host = match head[3] {
            1 => IpAddr::from(client.read_u32().await?.to_be_bytes()).to_string(),
            4 => format!("[{}]", IpAddr::from(client.read_u128().await?.to_be_bytes())),
            _ => read_text(&mut client).await?,
        };
        let target = format!("{host}:{}", client.read_u16().await?);
        let (method, by_name) = ("SOCKS5".to_owned(), head[3] == 3);
        unpoisoned(&self.log).push(ProxyRequest {
            method,
            target: target.clone(),
            by_name,
            headers: Vec::new(),
        });
        if let Some(fault) = self.fault() {
            return misbehave(&mut client, fault).await;
        }
        let Ok(mut server) = connect(&target).await else {
            return client.write_all(&[5, 5, 0, 1, 0, 0, 0, 0, 0, 0]).await;
        };
        client.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
        copy_bidirectional(&mut client, &mut server).await?;
        Ok(())
    }

    fn fault(&self) -> Option<ProxyFault> {
        *unpoisoned(&self.fault)
    }
}

/// Sends a request on to its server, and the response back. Returns whether the client's connection stays open.
async fn forward<S: AsyncRead + AsyncWrite + Unpin>(
    client: &mut S,
    server: &mut Option<TcpStream>,
    request: &ProxyRequest,
) -> io::Result<bool> {
    let rest = request.target.strip_prefix("http://").unwrap_or_default();
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let authority = if authority.contains(':') { authority.to_owned() } else { format!("{authority}:80") };
    if server.is_none() {
        *server = connect(&authority).await.ok();
    }
    let Some(connection) = server else {
        client.write_all(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n").await?;
        return Ok(true);
    };
    let mut head = format!("{} {path} HTTP/1.1\r\n", request.method);
    for (name, value) in request.headers.iter().filter(|(name, _)| !name.starts_with("proxy-")) {
        head += &format!("{name}: {value}\r\n");
    }
    connection.write_all((head + "\r\n").as_bytes()).await?;
    let mut response = Vec::new();
    let end = loop {
        if connection.read_buf(&mut response).await? == 0 {
            client.write_all(&response).await?;
            return Ok(false);
        }
        if let Some(end) = response.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
    };
    client.write_all(&response).await?;
    let headers = String::from_utf8_lossy(&response[..end]).to_ascii_lowercase();
    let length =
        headers.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    let has_no_body = ["204", "304"].iter().any(|status| headers.split(' ').nth(1) == Some(status));
    let length = if has_no_body { Some(0) } else { length };
    let stays_open = !headers.contains("connection: close");
    if headers.contains("transfer-encoding: chunked") {
        let mut body = response.split_off(end);
        // No page of the test web contains this.
        while !body.ends_with(b"0\r\n\r\n") {
            body.drain(..body.len().saturating_sub(5));
            let start = body.len();
            if connection.read_buf(&mut body).await? == 0 {
                return Ok(false);
            }
            client.write_all(&body[start..]).await?;
        }
        return Ok(stays_open);
    }
    let Some(length) = length else {
        tokio::io::copy(connection, client).await?;
        return Ok(false);
    };
    let left = (length + end).saturating_sub(response.len()) as u64;
    tokio::io::copy(&mut connection.take(left), client).await?;
    Ok(stays_open)
}

async fn misbehave<S: AsyncWrite + Unpin>(client: &mut S, fault: ProxyFault) -> io::Result<()> {
    match fault {
        ProxyFault::Close => Ok(()),
        ProxyFault::Hang => std::future::pending().await,
        ProxyFault::Garbage => client.write_all(&[0xff; 100]).await,
        ProxyFault::EndlessHeader => {
            client.write_all(b"HTTP/1.1 200 OK\r\n").await?;
            loop {
                client.write_all(b"X-Filler: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n").await?;
            }
        }
        ProxyFault::Status(code) => {
            let response = format!("HTTP/1.1 {code} Fault\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            client.write_all(response.as_bytes()).await
        }
        ProxyFault::SocksReply(code) => client.write_all(&[5, code, 0, 1, 0, 0, 0, 0, 0, 0]).await,
    }
}

/// Connects to the port of a target, always on this machine.
async fn connect(target: &str) -> io::Result<TcpStream> {
    let port = target.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, port.unwrap_or_default())).await?;
    server.set_nodelay(true)?;
    Ok(server)
}

/// Reads the head of a request; `None` if the client has closed the connection.
async fn read_head<S: AsyncRead + Unpin>(client: &mut S) -> io::Result<Option<ProxyRequest>> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        if bytes.len() > MAX_HEAD {
            return Err(io::ErrorKind::InvalidData.into());
        }
        match client.read_u8().await {
            Ok(byte) => bytes.push(byte),
            Err(_) => return Ok(None),
        }
    }
    let text = String::from_utf8_lossy(&bytes);
    let mut lines = text.lines();
    let mut first = lines.next().unwrap_or_default().split(' ').map(str::to_owned);
    let (method, target) = (first.next().unwrap_or_default(), first.next().unwrap_or_default());
    let headers = lines.filter_map(|line| line.split_once(':'));
    let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())).collect();
    Ok(Some(ProxyRequest { method, target, by_name: false, headers }))
}

/// A text after its length in one byte.
async fn read_text<S: AsyncRead + Unpin>(client: &mut S) -> io::Result<String> {
    let mut bytes = vec![0; client.read_u8().await?.into()];
    client.read_exact(&mut bytes).await?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The header for a user name and password.
fn basic(user: &str, password: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let pair = format!("{user}:{password}");
    let encoded = pair.as_bytes().chunks(3).flat_map(|chunk| {
        let bits = (0..3).fold(0u32, |bits, index| bits << 8 | u32::from(*chunk.get(index).unwrap_or(&0)));
        (0..4).map(move |index| match index <= chunk.len() {
            true => char::from(DIGITS[(bits >> (18 - 6 * index)) as usize & 63]),
            false => '=',
        })
    });
    format!("Basic {}", encoded.collect::<String>())
}

fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
