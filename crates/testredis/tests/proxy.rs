//! Tests of each fault of the proxy, with an echo server instead of Redis.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use testredis::{Mode, Proxy};

/// Longer than a round trip on loopback.
const SHORT: Duration = Duration::from_millis(150);

/// Starts an echo server. The receiver gets everything that the server reads.
fn echo() -> (SocketAddr, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for connection in listener.incoming() {
            let (mut connection, sender, mut buffer) = (connection.unwrap(), sender.clone(), [0; 4096]);
            thread::spawn(move || {
                while let Ok(read @ 1..) = connection.read(&mut buffer) {
                    let _ = (sender.send(buffer[..read].to_vec()), connection.write_all(&buffer[..read]));
                }
            });
        }
    });
    (address, receiver)
}

fn client(proxy: &Proxy) -> TcpStream {
    let client = TcpStream::connect(proxy.address()).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    client
}

/// Sends a request and reads an echo of the same length.
fn exchange(client: &mut TcpStream, request: &str) -> String {
    client.write_all(request.as_bytes()).unwrap();
    let mut reply = vec![0; request.len()];
    client.read_exact(&mut reply).unwrap();
    String::from_utf8(reply).unwrap()
}

fn assert_no_reply(client: &mut TcpStream) {
    client.set_read_timeout(Some(SHORT)).unwrap();
    let error = client.read(&mut [0; 64]).expect_err("there is no reply");
    assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
    client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
}

/// Reads until the connection is closed.
fn read_to_close(client: &mut TcpStream) -> String {
    let (mut rest, mut buffer) = (Vec::new(), [0; 64]);
    while let Ok(read @ 1..) = client.read(&mut buffer) {
        rest.extend(&buffer[..read]);
    }
    String::from_utf8(rest).unwrap()
}

#[test]
fn traffic_is_forwarded_unchanged_and_counted() {
    let (server, _received) = echo();
    let proxy = Proxy::to(server);
    let (mut one, mut other) = (client(&proxy), client(&proxy));
    assert_eq!(exchange(&mut one, "hello"), "hello");
    assert_eq!(exchange(&mut other, "there"), "there");
    assert_eq!((proxy.connections(), proxy.bytes()), (2, (10, 10)));
}

#[test]
fn delay_applies_to_both_directions() {
    let (server, _received) = echo();
    let proxy = Proxy::to(server);
    let mut client = client(&proxy);
    // Long enough that a request without it is faster even on a busy machine.
    let delay = Duration::from_millis(500);
    proxy.set_mode(Mode::Delay(delay));
    let start = Instant::now();
    assert_eq!(exchange(&mut client, "slow"), "slow");
    assert!(start.elapsed() >= 2 * delay);
    proxy.set_mode(Mode::Pass);
    let start = Instant::now();
    assert_eq!(exchange(&mut client, "fast"), "fast");
    assert!(start.elapsed() < 2 * delay);
}

#[test]
fn closed_connections_can_be_opened_again() {
    let (server, _received) = echo();
    let proxy = Proxy::to(server);
    let mut before = client(&proxy);
    assert_eq!(exchange(&mut before, "once"), "once");
    proxy.close_connections();
    assert_eq!(read_to_close(&mut before), "");
    assert_eq!(exchange(&mut client(&proxy), "again"), "again");
}

#[test]
fn one_reply_is_truncated() {
    let (server, received) = echo();
    let proxy = Proxy::to(server);
    let mut before = client(&proxy);
    assert_eq!(exchange(&mut before, "whole"), "whole");
    proxy.truncate_next_reply(3);
    assert!(proxy.is_armed());
    before.write_all(b"broken").unwrap();
    assert_eq!(read_to_close(&mut before), "bro");
    assert!(!proxy.is_armed());
    assert_eq!(received.iter().take(2).last().unwrap(), b"broken", "the request arrived");
    assert_eq!(exchange(&mut client(&proxy), "whole"), "whole");
}

#[test]
fn dropped_reply_leaves_the_request_executed() {
    let (server, received) = echo();
    let proxy = Proxy::to(server);
    let mut before = client(&proxy);
    proxy.drop_next_reply();
    before.write_all(b"done").unwrap();
    assert_eq!(read_to_close(&mut before), "");
    assert_eq!(received.recv().unwrap(), b"done");
    assert_eq!(exchange(&mut client(&proxy), "again"), "again");
}

#[test]
fn black_hole_accepts_connections_and_never_replies() {
    let (server, received) = echo();
    let proxy = Proxy::to(server);
    let mut before = client(&proxy);
    assert_eq!(exchange(&mut before, "once"), "once");
    proxy.set_mode(Mode::BlackHole);
    let mut later = client(&proxy);
    for client in [&mut before, &mut later] {
        client.write_all(b"hello?").unwrap();
        assert_no_reply(client);
    }
    proxy.set_mode(Mode::Pass);
    assert_eq!(read_to_close(&mut before) + &read_to_close(&mut later), "", "both connections are closed");
    assert_eq!(exchange(&mut client(&proxy), "again"), "again");
    assert_eq!(
        received.try_iter().collect::<Vec<_>>(),
        [&b"once"[..], b"again"],
        "the other requests were dropped"
    );
}

#[test]
fn held_traffic_arrives_late() {
    let (server, received) = echo();
    let proxy = Proxy::to(server);
    let mut client = client(&proxy);
    proxy.set_mode(Mode::Hold);
    client.write_all(b"late").unwrap();
    assert_no_reply(&mut client);
    assert!(received.try_recv().is_err());
    proxy.set_mode(Mode::Pass);
    let mut reply = [0; 4];
    client.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"late");
}

#[test]
fn refuse_mode_refuses_connections_until_the_port_is_bound_again() {
    let (server, _received) = echo();
    let proxy = Proxy::to(server);
    let mut before = client(&proxy);
    assert_eq!(exchange(&mut before, "once"), "once");
    proxy.set_mode(Mode::Refuse);
    assert_eq!(read_to_close(&mut before), "");
    let refused = TcpStream::connect(proxy.address()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    proxy.set_mode(Mode::Pass);
    assert_eq!(exchange(&mut client(&proxy), "again"), "again");
}

#[test]
fn drop_closes_the_port_and_the_connections() {
    let (server, _received) = echo();
    let proxy = Proxy::to(server);
    let (mut before, address) = (client(&proxy), proxy.address());
    assert_eq!(exchange(&mut before, "once"), "once");
    drop(proxy);
    assert_eq!(read_to_close(&mut before), "");
    assert!(TcpStream::connect(address).is_err());
}
