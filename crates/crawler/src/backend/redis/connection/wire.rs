//! One connection to one server: bytes to it, answers from it. Only this file knows sockets and TLS.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::BytesMut;
use redis::{Cmd, cmd};
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::super::address::{Address, Node};
use super::failure::Failure;
use super::reply::{self, Reply};
use crate::fetch::http::connect::{describe_io_error, tls_client_config};

/// How long the operating systems may take to connect. Where that fails it is better to try anew than to wait: they
/// repeat themselves after longer and longer pauses.
const CONNECT: Duration = Duration::from_secs(3);

/// How much is read at once.
const READ: usize = 64 << 10;

/// The name that a server knows its clients by.
const NAME: &str = "crawler";

/// How a server is greeted.
pub(super) struct Access {
    tls: Option<TlsConnector>,
    user: Option<String>,
    password: Option<String>,
    database: u32,
}

impl Access {
    pub(super) fn new(address: &Address, extra_roots: &[CertificateDer<'static>]) -> Access {
        let tls = address.tls.then(|| TlsConnector::from(Arc::new(tls_client_config(extra_roots))));
        let Address { user, password, database, .. } = address.clone();
        Access { tls, user, password, database }
    }

    /// Who does not know us: Sentinels often have no password.
    pub(super) fn anonymous(&self) -> Access {
        Access { tls: self.tls.clone(), user: None, password: None, database: 0 }
    }

    /// The same on the first database, the only one that a Sentinel has.
    pub(super) fn to_sentinel(&self) -> Access {
        Access { user: self.user.clone(), password: self.password.clone(), ..self.anonymous() }
    }

    /// What is said first, and what is wrong with an error as the answer to it.
    fn greeting(&self) -> Vec<Cmd> {
        let mut greeting = Vec::new();
        if let Some(password) = &self.password {
            let mut login = cmd("AUTH");
            if let Some(user) = &self.user {
                login.arg(user);
            }
            login.arg(password);
            greeting.push(login);
        }
        if self.database != 0 {
            greeting.push(cmd("SELECT"));
            greeting.last_mut().map(|select| select.arg(self.database));
        }
        greeting
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Sync + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Sync + Unpin> Stream for S {}

/// A connection. After a failure it is of no use any more: what comes out of it might be the answer to something else.
pub(super) struct Wire {
    stream: Box<dyn Stream>,
    received: BytesMut,
    scratch: Box<[u8]>,
}

impl Wire {
    /// Connects and says who we are.
    pub(super) async fn open(node: &Node, access: &Access) -> Result<Wire, Failure> {
        let connecting = timeout(CONNECT, TcpStream::connect((node.host.as_str(), node.port)));
        let stream = match connecting.await {
            Ok(connected) => connected.map_err(|error| cut(&error))?,
            Err(_) => return Err(Failure::Cut(format!("no connection within {} s", CONNECT.as_secs()))),
        };
        // A failure here costs a little latency and nothing else.
        let _ = stream.set_nodelay(true);
        let stream: Box<dyn Stream> = match &access.tls {
            None => Box::new(stream),
            Some(tls) => {
                let name = ServerName::try_from(node.host.clone());
                let name = name.map_err(|error| Failure::Foreign(format!("{}: {error}", node.host)))?;
                Box::new(tls.connect(name, stream).await.map_err(tls_failure)?)
            }
        };
        let scratch = vec![0; READ].into_boxed_slice();
        let mut wire = Wire { stream, received: BytesMut::new(), scratch };
        let mut greeting = access.greeting();
        let needed = greeting.len();
        // A courtesy to who looks after the server; whether it is allowed does not matter. It also makes sure that
        // somebody answers.
        greeting.push(cmd("CLIENT"));
        greeting.last_mut().map(|name| name.arg("SETNAME").arg(NAME));
        for reply in wire.ask(&greeting).await?.into_iter().take(needed) {
            reply?;
        }
        Ok(wire)
    }

    /// Asks several things in one round trip.
    pub(super) async fn ask(&mut self, commands: &[Cmd]) -> Result<Vec<Reply>, Failure> {
        let mut bytes = Vec::new();
        for command in commands {
            command.write_packed_command(&mut bytes);
        }
        self.exchange(&bytes, commands.len()).await
    }

    /// Sends bytes that hold so many commands, and receives as many answers. Both at once: a server that cannot get
    /// rid of its answers need not read on.
    pub(super) async fn exchange(&mut self, bytes: &[u8], commands: usize) -> Result<Vec<Reply>, Failure> {
        let (mut unsent, mut replies) = (bytes, Vec::with_capacity(commands));
        poll_fn(|context| {
            if let Poll::Ready(Err(error)) = self.send(&mut unsent, context) {
                return Poll::Ready(Err(cut(&error)));
            }
            while replies.len() < commands {
                match reply::next(&mut self.received)? {
                    Some(reply) => replies.push(reply),
                    None => ready!(self.receive(context)).map_err(|error| cut(&error))?,
                }
            }
            Poll::Ready(Ok(()))
        })
        .await?;
        Ok(replies)
    }

    fn send(&mut self, unsent: &mut &[u8], context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !unsent.is_empty() {
            match ready!(Pin::new(&mut self.stream).poll_write(context, unsent))? {
                0 => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                sent => *unsent = &unsent[sent..],
            }
        }
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn receive(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut buffer = ReadBuf::new(&mut self.scratch);
        ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer))?;
        if buffer.filled().is_empty() {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        self.received.extend_from_slice(buffer.filled());
        Poll::Ready(Ok(()))
    }
}

fn cut(error: &io::Error) -> Failure {
    Failure::Cut(describe_io_error(error))
}

fn tls_failure(error: io::Error) -> Failure {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(cause) => Failure::Foreign(cause.to_string()),
        None => cut(&error),
    }
}
