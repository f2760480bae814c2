//! The test web: its sites, and an HTTPS listener in addition to the HTTP server of `demoweb`.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use demoweb::{Listener, Log, Options, Request, Server, host_of};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use crate::certificate::{Authority, Certificate};
use crate::http2;
use crate::response::Response;
use crate::seeded::{self, Truth};
use crate::site::Site;

/// A running web server. A drop stops it.
#[derive(Debug)]
pub struct Web {
    address: IpAddr,
    server: Server,
    https_port: Option<u16>,
    authority: Option<Arc<Authority>>,
    hosts: Arc<Hosts>,
}

/// Configures a web server: its hosts and where it listens.
#[derive(Debug)]
pub struct Builder {
    hosts: Hosts,
    address: IpAddr,
    port: u16,
    certificate: Option<Certificate>,
    http1_only: bool,
    http2_flood: bool,
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

    pub(crate) fn respond_to(&self, request: &Request) -> Response {
        self.site(&request.host()).respond_to(request)
    }
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

    /// Responds to all HTTP/2 requests with endless interim responses (1xx). They are not logged.
    pub fn http2_flood(mut self) -> Self {
        self.http2_flood = true;
        self
    }

    /// Listens on this address instead of 127.0.0.1.
    pub fn address(mut self, address: IpAddr) -> Self {
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
        let options = Options { address: self.address, port: self.port, log: !self.log_disabled };
        let hosts = Arc::new(self.hosts);
        let plain_hosts = hosts.clone();
        let server =
            Server::start_with(options, move |request| plain_hosts.respond_to(request).over_http1(request))?;
        let (mut https_port, mut authority) = (None, None);
        if let Some(certificate) = self.certificate {
            let new = Authority::new(certificate, self.address).map_err(io::Error::other)?;
            let authority = authority.insert(Arc::new(new));
            let acceptor = TlsAcceptor::from(authority.server(!self.http1_only).map_err(io::Error::other)?);
            let hosts = (!self.http2_flood).then(|| hosts.clone());
            let port = server.listen("https", 0, move |socket, number, listener| {
                serve_tls(acceptor.clone(), socket, number, listener, hosts.clone())
            })?;
            https_port = Some(port);
        }
        Ok(Web { address: self.address, server, https_port, authority, hosts })
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
            http2_flood: false,
            log_disabled: false,
        }
    }

    /// `http://127.0.0.1:PORT` and the path.
    pub fn url(&self, path: &str) -> String {
        self.server.url(path)
    }

    /// `http://host:PORT` and the path.
    pub fn url_of(&self, host: &str, path: &str) -> String {
        self.server.url_of(host, path)
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
        self.server.port()
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
        self.authority.as_ref().map_or_else(String::new, |authority| authority.root_pem().to_owned())
    }

    /// The certificate of a host itself, in PEM. For `localhost`, it is that of connections without a host name.
    ///
    /// # Panics
    /// If the server was built without HTTPS.
    pub fn certificate_pem(&self, host: &str) -> String {
        let authority = self.authority.as_ref().expect("the server was built without HTTPS");
        authority.certificate(host).expect("a host name").1
    }

    /// All requests so far. If a client has received a complete response, the log has its end.
    pub fn log(&self) -> Log {
        self.server.log()
    }

    /// The number of requests so far. Cheap enough to poll.
    pub fn hits(&self) -> usize {
        self.server.hits()
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

/// Serves one connection. Without hosts, it floods HTTP/2 clients.
async fn serve_tls(
    tls: TlsAcceptor,
    socket: TcpStream,
    number: u64,
    listener: Arc<Listener>,
    hosts: Option<Arc<Hosts>>,
) {
    // A client that rejects an invalid certificate ends here.
    let Ok(socket) = tls.accept(socket).await else { return };
    match (socket.get_ref().1.alpn_protocol(), hosts) {
        (Some(b"h2"), Some(hosts)) => http2::serve(socket, number, listener, hosts).await,
        // An error means that the client has closed the connection.
        (Some(b"h2"), None) => drop(http2::flood(socket).await),
        _ => demoweb::serve(socket, |socket| socket.get_ref().0, number, listener).await,
    }
}
