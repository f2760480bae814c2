//! Reserves TCP ports on loopback, so that a server that was stopped finds its port free when it starts again.

use std::net::{Ipv4Addr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// The ports that are handed out. They are below Linux's ephemeral ports (32768 and up): the system never gives one to an
/// outgoing connection, or to a server that asks for any free port.
const FIRST: u16 = 10_000;
const COUNT: u16 = 20_000;

/// A port that no other reservation on this machine has, in this process or another, until this is dropped.
#[derive(Debug)]
pub struct ReservedPort {
    number: u16,
    /// A name in Linux's abstract namespace, which the kernel frees when the process exits.
    _reservation: UnixListener,
}

impl ReservedPort {
    /// Reserves a port that no process listens on.
    pub fn new() -> ReservedPort {
        static NEXT: AtomicU16 = AtomicU16::new(0);
        // Processes start at different ports, so that they seldom try the same ones.
        let start = (std::process::id() as u16).wrapping_mul(97);
        let mut candidates = (0..COUNT).map(|_| {
            let next = NEXT.fetch_add(1, Ordering::Relaxed).wrapping_add(start);
            FIRST + next % COUNT
        });
        candidates.find_map(ReservedPort::reserve).expect("a free port on loopback")
    }

    fn reserve(number: u16) -> Option<ReservedPort> {
        let name = SocketAddr::from_abstract_name(format!("testredis-port-{number}")).ok()?;
        let reservation = UnixListener::bind_addr(&name).ok()?;
        TcpListener::bind((Ipv4Addr::LOCALHOST, number)).ok()?;
        Some(ReservedPort { number, _reservation: reservation })
    }

    /// The number of the port.
    pub fn number(&self) -> u16 {
        self.number
    }
}

impl Default for ReservedPort {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_port_is_not_reserved_again_until_it_is_dropped() {
        let port = ReservedPort::new();
        let number = port.number();
        assert!((FIRST..FIRST + COUNT).contains(&number));
        assert!(ReservedPort::reserve(number).is_none());
        drop(port);
        assert!(ReservedPort::reserve(number).is_some());
    }

    #[test]
    fn port_in_use_is_not_reserved() {
        let port = ReservedPort::new();
        let number = port.number();
        let _listener = TcpListener::bind((Ipv4Addr::LOCALHOST, number)).unwrap();
        drop(port);
        assert!(ReservedPort::reserve(number).is_none());
    }
}
