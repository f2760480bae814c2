//! The web itself: the sites, and the listener for https beside the server for http.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use demoweb::{Listener, Log, Options, Request, Server, host_of};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use crate::answer::Answer;
use crate::certificate::{Authority, Certificate};
use crate::http2;
use crate::seeded::{self, Truth};
use crate::site::Site;

/// A web being served. It stops when this is dropped.
#[derive(Debug)]
pub struct Web {
    address: IpAddr,
    server: Server,
    https_port: Option<u16>,
    ca_pem: String,
    hosts: Arc<Hosts>,
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
        let options = Options { address: self.address, port: self.port, log: !self.forgetful };
        let hosts = Arc::new(self.hosts);
        let plain = hosts.clone();
        let server =
            Server::start_with(options, move |request| plain.answer_to(request).over_http1(request))?;
        let (mut https_port, mut ca_pem) = (None, String::new());
        if let Some(certificate) = self.certificate {
            let authority = Authority::new(certificate, self.address).map_err(io::Error::other)?;
            ca_pem = authority.root_pem().to_owned();
            let acceptor = TlsAcceptor::from(authority.server(!self.http1_only).map_err(io::Error::other)?);
            let hosts = hosts.clone();
            let port = server.listen("https", 0, move |socket, number, listener| {
                serve_tls(acceptor.clone(), socket, number, listener, hosts.clone())
            })?;
            https_port = Some(port);
        }
        Ok(Web { address: self.address, server, https_port, ca_pem, hosts })
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

    /// The port for http.
    pub fn port(&self) -> u16 {
        self.server.port()
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
        self.server.log()
    }

    /// How many requests there have been so far: cheap enough to poll.
    pub fn hits(&self) -> usize {
        self.server.hits()
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

async fn serve_tls(
    tls: TlsAcceptor,
    socket: TcpStream,
    number: u64,
    listener: Arc<Listener>,
    hosts: Arc<Hosts>,
) {
    // A client that refuses the certificate ends here; that is what the bad ones are for.
    let Ok(socket) = tls.accept(socket).await else { return };
    if socket.get_ref().1.alpn_protocol() == Some(b"h2") {
        http2::serve(socket, number, listener, hosts).await;
    } else {
        demoweb::serve(socket, |socket| socket.get_ref().0, number, listener).await;
    }
}
