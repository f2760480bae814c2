//! Opens a connection to a server through a proxy: HTTP CONNECT, or SOCKS5 (RFC 1928, RFC 1929).

use std::io;
use std::net::{IpAddr, SocketAddr};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::connect::describe_io_error;
use super::headers::excerpt;
use crate::origin::Origin;
use crate::outcome::Outcome;
use crate::proxy::{Credentials, ProxyKind, ProxyServer};

/// The largest head of a response to CONNECT. Ordinary proxies send far less.
const MAX_CONNECT_HEAD: usize = 16 * 1024;

/// The version of SOCKS, and that of its user names and passwords.
const SOCKS5: u8 = 5;
const SOCKS5_PASSWORD: u8 = 1;

/// SOCKS5 methods.
const NO_AUTHENTICATION: u8 = 0;
const USER_AND_PASSWORD: u8 = 2;
const NO_ACCEPTABLE_METHOD: u8 = 0xff;

/// A proxy that cannot be used. Says nothing about the host that was to be connected to.
pub(super) fn proxy_failure(proxy: &ProxyServer, cause: impl AsRef<str>) -> Outcome {
    Outcome::ProxyFailed { cause: format!("the proxy {proxy} {}", cause.as_ref()), is_temporary: true }
}

/// A proxy that works and does not connect to this host.
fn proxy_refusal(proxy: &ProxyServer, cause: impl AsRef<str>) -> Outcome {
    Outcome::ProxyFailed { cause: format!("the proxy {proxy} {}", cause.as_ref()), is_temporary: false }
}

/// A proxy that could not connect to this host.
fn unreachable_host(proxy: &ProxyServer, target: &str, cause: impl AsRef<str>) -> Outcome {
    let cause = format!("the proxy {proxy} cannot connect to {target}: {}", cause.as_ref());
    Outcome::ConnectionFailed { cause }
}

/// The failure of a read or write.
fn io_failure(proxy: &ProxyServer, error: &io::Error) -> Outcome {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => proxy_failure(proxy, "closed the connection without a reply"),
        _ => proxy_failure(proxy, format!("broke the connection: {}", describe_io_error(error))),
    }
}

/// What a proxy is to connect to.
pub(super) struct TunnelTarget<'a> {
    pub(super) origin: &'a Origin,
    /// The server's address, if the crawler has looked it up.
    pub(super) address: Option<IpAddr>,
}

impl TunnelTarget<'_> {
    /// Host and port.
    pub(super) fn name(&self) -> String {
        format!("{}:{}", self.origin.host, self.origin.port)
    }
}

/// Agrees with a proxy on how to speak, before the first request.
pub(super) async fn greet<S: AsyncRead + AsyncWrite + Unpin>(
    proxy: &ProxyServer,
    stream: &mut S,
) -> Result<(), Outcome> {
    match proxy.kind {
        ProxyKind::Http | ProxyKind::Https => Ok(()),
        ProxyKind::Socks5 | ProxyKind::Socks5h => socks_greet(proxy, stream).await,
    }
}

/// Opens a connection through a proxy. The stream then leads to the target.
pub(super) async fn open<S: AsyncRead + AsyncWrite + Unpin>(
    proxy: &ProxyServer,
    stream: &mut S,
    target: &TunnelTarget<'_>,
) -> Result<(), Outcome> {
    match proxy.kind {
        ProxyKind::Http | ProxyKind::Https => http_connect(proxy, stream, target).await,
        ProxyKind::Socks5 | ProxyKind::Socks5h => socks_connect(proxy, stream, target).await,
    }
}

/// What a proxy says about the credentials, with status 407 or in SOCKS5.
pub(super) fn credentials_rejected(proxy: &ProxyServer) -> Outcome {
    match proxy.credentials {
        Some(_) => proxy_failure(proxy, "rejects the user name and password"),
        None => proxy_failure(proxy, "requires a user name and password"),
    }
}

async fn http_connect<S: AsyncRead + AsyncWrite + Unpin>(
    proxy: &ProxyServer,
    stream: &mut S,
    target: &TunnelTarget<'_>,
) -> Result<(), Outcome> {
    let name = target.name();
    let mut request = format!("CONNECT {name} HTTP/1.1\r\nHost: {name}\r\n").into_bytes();
    if let Some(value) = proxy.authorization() {
        request.extend_from_slice(b"Proxy-Authorization: ");
        request.extend_from_slice(value.as_bytes());
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"\r\n");
    let failed = |error: io::Error| io_failure(proxy, &error);
    stream.write_all(&request).await.map_err(failed)?;
    stream.flush().await.map_err(failed)?;
    let head = connect_head(proxy, stream).await?;
    let Some(status) = status_of(&head) else {
        return Err(proxy_failure(proxy, "does not reply to CONNECT with HTTP"));
    };
    match status {
        200..=299 => {
            proxy.set_accepted();
            Ok(())
        }
        407 => Err(credentials_rejected(proxy)),
        500.. => Err(unreachable_host(proxy, &name, format!("HTTP {status}"))),
        _ => Err(proxy_refusal(proxy, format!("refuses to connect to {}: HTTP {status}", excerpt(&name)))),
    }
}

/// Reads the head of the response to CONNECT, and nothing after it.
async fn connect_head<S: AsyncRead + Unpin>(proxy: &ProxyServer, stream: &mut S) -> Result<Vec<u8>, Outcome> {
    let (mut head, mut chunk) = (Vec::new(), [0; 1024]);
    loop {
        let read = stream.read(&mut chunk).await.map_err(|error| io_failure(proxy, &error))?;
        if read == 0 {
            return Err(io_failure(proxy, &io::ErrorKind::UnexpectedEof.into()));
        }
        head.extend_from_slice(&chunk[..read]);
        // The first line decides; with status 200, the connection to the server starts after the head.
        if let Some(end) = end_of_head(&head) {
            return match head.len() > end && matches!(status_of(&head), Some(200..=299)) {
                true => Err(proxy_failure(proxy, "sends data before the connection is used")),
                false => Ok(head),
            };
        }
        if !b"HTTP/1.".starts_with(&head[..head.len().min(7)]) {
            return Err(proxy_failure(proxy, "does not reply to CONNECT with HTTP"));
        }
        if head.len() > MAX_CONNECT_HEAD {
            return Err(proxy_failure(
                proxy,
                format!("replies to CONNECT with more than {MAX_CONNECT_HEAD} bytes of headers"),
            ));
        }
    }
}

/// The length of a head, with the empty line at its end.
fn end_of_head(bytes: &[u8]) -> Option<usize> {
    let end = |separator: &[u8]| {
        let start = bytes.windows(separator.len()).position(|window| window == separator)?;
        Some(start + separator.len())
    };
    end(b"\r\n\r\n").or_else(|| end(b"\n\n"))
}

/// The status in the first line of a response.
fn status_of(head: &[u8]) -> Option<u16> {
    let rest = head.strip_prefix(b"HTTP/1.")?;
    let [_, b' ', digits @ ..] = rest else { return None };
    let is_last = digits.get(3).is_none_or(|next| !next.is_ascii_digit());
    let digits = std::str::from_utf8(digits.get(..3)?).ok()?;
    digits.parse().ok().filter(|status| is_last && *status >= 100)
}

async fn socks_greet<S: AsyncRead + AsyncWrite + Unpin>(
    proxy: &ProxyServer,
    stream: &mut S,
) -> Result<(), Outcome> {
    let failed = |error: io::Error| io_failure(proxy, &error);
    let greeting: &[u8] = match proxy.credentials {
        Some(_) => &[SOCKS5, 2, NO_AUTHENTICATION, USER_AND_PASSWORD],
        None => &[SOCKS5, 1, NO_AUTHENTICATION],
    };
    stream.write_all(greeting).await.map_err(failed)?;
    stream.flush().await.map_err(failed)?;
    let mut reply = [0; 2];
    stream.read_exact(&mut reply).await.map_err(failed)?;
    match (reply, &proxy.credentials) {
        ([SOCKS5, NO_AUTHENTICATION], _) => Ok(()),
        ([SOCKS5, USER_AND_PASSWORD], Some(credentials)) => {
            socks_authenticate(proxy, stream, credentials).await
        }
        ([SOCKS5, NO_ACCEPTABLE_METHOD], _) => Err(credentials_rejected(proxy)),
        _ => Err(proxy_failure(proxy, "does not speak SOCKS5")),
    }
}

async fn socks_authenticate<S: AsyncRead + AsyncWrite + Unpin>(
    proxy: &ProxyServer,
    stream: &mut S,
    Credentials { user, password }: &Credentials,
) -> Result<(), Outcome> {
    let failed = |error: io::Error| io_failure(proxy, &error);
    let mut request = vec![SOCKS5_PASSWORD];
    for part in [user, password] {
        // The length was checked when the URL was parsed.
        request.push(u8::try_from(part.len()).unwrap_or(u8::MAX));
        request.extend_from_slice(part);
    }
    stream.write_all(&request).await.map_err(failed)?;
    stream.flush().await.map_err(failed)?;
    let mut reply = [0; 2];
    stream.read_exact(&mut reply).await.map_err(failed)?;
    // Some servers send the version of SOCKS here.
    match reply {
        [SOCKS5_PASSWORD | SOCKS5, 0] => Ok(()),
        _ => Err(credentials_rejected(proxy)),
    }
}

async fn socks_connect<S: AsyncRead + AsyncWrite + Unpin>(
    proxy: &ProxyServer,
    stream: &mut S,
    target: &TunnelTarget<'_>,
) -> Result<(), Outcome> {
    let (failed, name) = (|error: io::Error| io_failure(proxy, &error), target.name());
    let request = socks_request(target)
        .ok_or_else(|| Outcome::DnsFailed { cause: "the name is too long".into(), is_temporary: false })?;
    stream.write_all(&request).await.map_err(failed)?;
    stream.flush().await.map_err(failed)?;
    let mut reply = [0; 4];
    stream.read_exact(&mut reply).await.map_err(failed)?;
    let [SOCKS5, code, _, address_type] = reply else {
        return Err(proxy_failure(proxy, "does not speak SOCKS5"));
    };
    match code {
        0 => {}
        1 => return Err(unreachable_host(proxy, &name, "the server is unreachable")),
        3 => return Err(unreachable_host(proxy, &name, "its network is unreachable")),
        4 => return Err(unreachable_host(proxy, &name, "the host is unreachable")),
        5 => return Err(unreachable_host(proxy, &name, "connection refused")),
        6 => return Err(unreachable_host(proxy, &name, "it took too long")),
        2 => return Err(proxy_refusal(proxy, format!("refuses to connect to {}", excerpt(&name)))),
        code => {
            let cause = format!("refuses to connect to {}: SOCKS5 reply {code}", excerpt(&name));
            return Err(proxy_refusal(proxy, cause));
        }
    }
    // The address that the proxy connects from follows; it is not used.
    let length = match address_type {
        1 => 4,
        4 => 16,
        3 => usize::from(stream.read_u8().await.map_err(failed)?),
        _ => return Err(proxy_failure(proxy, "does not speak SOCKS5")),
    };
    let mut bound = [0; 2 + u8::MAX as usize];
    stream.read_exact(&mut bound[..length + 2]).await.map_err(failed)?;
    Ok(())
}

/// The request for a connection; `None` if the name is too long.
fn socks_request(target: &TunnelTarget<'_>) -> Option<Vec<u8>> {
    const CONNECT: u8 = 1;
    let mut request = vec![SOCKS5, CONNECT, 0];
    let literal = crate::proxy::parse_address(&target.origin.host);
    match target.address.or(literal).map(|address| SocketAddr::new(address, target.origin.port)) {
        Some(SocketAddr::V4(address)) => {
            request.push(1);
            request.extend_from_slice(&address.ip().octets());
        }
        Some(SocketAddr::V6(address)) => {
            request.push(4);
            request.extend_from_slice(&address.ip().octets());
        }
        None => {
            let name = target.origin.host.as_bytes();
            request.extend([3, u8::try_from(name.len()).ok()?]);
            request.extend_from_slice(name);
        }
    }
    request.extend_from_slice(&target.origin.port.to_be_bytes());
    Some(request)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn status_is_that_of_the_first_line() {
        for (head, status) in [
            (&b"HTTP/1.1 200 Connection established\r\n\r\n"[..], Some(200)),
            (b"HTTP/1.0 502\r\n\r\n", Some(502)),
            (b"HTTP/1.1 200", Some(200)),
            (b"HTTP/1.1 2000 x", None),
            (b"HTTP/1.1 20x", None),
            (b"HTTP/1.1 099 x", None),
            (b"HTTP/2 200", None),
            (b"ICY 200 OK", None),
            (b"", None),
        ] {
            assert_eq!(status_of(head), status, "{}", String::from_utf8_lossy(head));
        }
    }

    fn proxy(url: &str) -> std::sync::Arc<ProxyServer> {
        let proxies = crate::proxy::Proxies::new(url).unwrap();
        let origin = Origin { https: true, host: "h.test".into(), port: 443 };
        std::sync::Arc::clone(proxies.server_for(&origin).unwrap())
    }

    proptest! {
        /// Whatever a proxy sends: an outcome that names it, no panic, no endless read.
        #[test]
        fn any_reply_of_a_proxy_is_handled(
            kind in 0..3usize, start in 0..4usize, bytes in proptest::collection::vec(any::<u8>(), 0..64),
        ) {
            let url = ["http://me:hush@p.test", "socks5h://p.test", "socks5h://me:hush@p.test"][kind];
            let start = [&b""[..], b"HTTP/1.1 200", &[5, 0, 5, 0, 0, 1], &[5, 2, 1, 0, 5, 0, 0, 3]][start];
            let reply = [start, &bytes].concat();
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let origin = Origin { https: true, host: "h.test".into(), port: 443 };
            let result = runtime.block_on(async {
                let (mut ours, mut theirs) = tokio::io::duplex(1 << 16);
                theirs.write_all(&reply).await.unwrap();
                theirs.shutdown().await.unwrap();
                let (proxy, target) = (proxy(url), TunnelTarget { origin: &origin, address: None });
                greet(&proxy, &mut ours).await?;
                open(&proxy, &mut ours, &target).await
            });
            if let Err(outcome) = result {
                let text = outcome.to_string();
                prop_assert!(text.contains("p.test:") && !text.contains("hush"), "{text}");
            }
        }
    }

    #[test]
    fn names_that_socks_cannot_carry_are_refused() {
        let origin = |length: usize| Origin { https: false, host: "a".repeat(length), port: 80 };
        let request = |length| socks_request(&TunnelTarget { origin: &origin(length), address: None });
        assert_eq!(request(255).unwrap().len(), 3 + 2 + 255 + 2);
        assert_eq!(request(256), None);
    }
}
