//! Every trouble the proxy makes, seen from a client that talks to an echo, without a Redis.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use testredis::{Mode, Proxy};

/// Longer than anything on loopback takes, and shorter than anybody's patience.
const SHORT: Duration = Duration::from_millis(150);

/// Sends back whatever it gets, and tells what it got.
fn echo() -> (SocketAddr, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (got, gets) = channel();
    thread::spawn(move || {
        for connection in listener.incoming() {
            let (mut connection, got, mut buffer) = (connection.unwrap(), got.clone(), [0; 4096]);
            thread::spawn(move || {
                while let Ok(read @ 1..) = connection.read(&mut buffer) {
                    let _ = (got.send(buffer[..read].to_vec()), connection.write_all(&buffer[..read]));
                }
            });
        }
    });
    (address, gets)
}

fn client(proxy: &Proxy) -> TcpStream {
    let client = TcpStream::connect(proxy.address()).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    client
}

/// What is heard after this was said.
fn hear(client: &mut TcpStream, said: &str) -> String {
    client.write_all(said.as_bytes()).unwrap();
    let mut heard = vec![0; said.len()];
    client.read_exact(&mut heard).unwrap();
    String::from_utf8(heard).unwrap()
}

fn assert_quiet(client: &mut TcpStream) {
    client.set_read_timeout(Some(SHORT)).unwrap();
    let heard = client.read(&mut [0; 64]).expect_err("nothing is heard");
    assert!(matches!(heard.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{heard}");
    client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
}

/// All that is heard until the connection is cut.
fn hear_the_rest(client: &mut TcpStream) -> String {
    let (mut rest, mut buffer) = (Vec::new(), [0; 64]);
    while let Ok(read @ 1..) = client.read(&mut buffer) {
        rest.extend(&buffer[..read]);
    }
    String::from_utf8(rest).unwrap()
}

#[test]
fn what_passes_passes_unchanged_and_is_counted() {
    let (server, _gets) = echo();
    let proxy = Proxy::to(server);
    let (mut one, mut other) = (client(&proxy), client(&proxy));
    assert_eq!(hear(&mut one, "hello"), "hello");
    assert_eq!(hear(&mut other, "there"), "there");
    assert_eq!((proxy.connections(), proxy.bytes()), (2, (10, 10)));
}

#[test]
fn a_delay_is_felt_in_both_directions() {
    let (server, _gets) = echo();
    let proxy = Proxy::to(server);
    let mut client = client(&proxy);
    // So long that a request without it is faster on a busy machine too.
    let delay = Duration::from_millis(500);
    proxy.set(Mode::Delay(delay));
    let begun = Instant::now();
    assert_eq!(hear(&mut client, "slow"), "slow");
    assert!(begun.elapsed() >= 2 * delay);
    proxy.set(Mode::Pass);
    let begun = Instant::now();
    assert_eq!(hear(&mut client, "fast"), "fast");
    assert!(begun.elapsed() < 2 * delay);
}

#[test]
fn a_cut_ends_all_connections_and_lets_new_ones_in() {
    let (server, _gets) = echo();
    let proxy = Proxy::to(server);
    let mut before = client(&proxy);
    assert_eq!(hear(&mut before, "once"), "once");
    proxy.cut();
    assert_eq!(hear_the_rest(&mut before), "");
    assert_eq!(hear(&mut client(&proxy), "again"), "again");
}

#[test]
fn an_answer_is_cut_in_the_middle_once() {
    let (server, gets) = echo();
    let proxy = Proxy::to(server);
    let mut before = client(&proxy);
    assert_eq!(hear(&mut before, "whole"), "whole");
    proxy.cut_next_answer_after(3);
    assert!(proxy.is_armed());
    before.write_all(b"broken").unwrap();
    assert_eq!(hear_the_rest(&mut before), "bro");
    assert!(!proxy.is_armed());
    assert_eq!(gets.iter().take(2).last().unwrap(), b"broken", "what was asked arrived");
    assert_eq!(hear(&mut client(&proxy), "whole"), "whole");
}

#[test]
fn a_swallowed_answer_was_given_and_is_not_heard() {
    let (server, gets) = echo();
    let proxy = Proxy::to(server);
    let mut before = client(&proxy);
    proxy.swallow_next_answer();
    before.write_all(b"done").unwrap();
    assert_eq!(hear_the_rest(&mut before), "");
    assert_eq!(gets.recv().unwrap(), b"done");
    assert_eq!(hear(&mut client(&proxy), "again"), "again");
}

#[test]
fn a_black_hole_lets_everybody_in_and_answers_nobody() {
    let (server, gets) = echo();
    let proxy = Proxy::to(server);
    let mut before = client(&proxy);
    assert_eq!(hear(&mut before, "once"), "once");
    proxy.set(Mode::BlackHole);
    let mut later = client(&proxy);
    for client in [&mut before, &mut later] {
        client.write_all(b"anybody?").unwrap();
        assert_quiet(client);
    }
    proxy.set(Mode::Pass);
    assert_eq!(hear_the_rest(&mut before) + &hear_the_rest(&mut later), "", "both are cut");
    assert_eq!(hear(&mut client(&proxy), "again"), "again");
    assert_eq!(gets.try_iter().collect::<Vec<_>>(), [&b"once"[..], b"again"], "the rest was lost");
}

#[test]
fn what_is_held_arrives_late() {
    let (server, gets) = echo();
    let proxy = Proxy::to(server);
    let mut client = client(&proxy);
    proxy.set(Mode::Hold);
    client.write_all(b"late").unwrap();
    assert_quiet(&mut client);
    assert!(gets.try_recv().is_err());
    proxy.set(Mode::Pass);
    let mut heard = [0; 4];
    client.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"late");
}

#[test]
fn who_is_refused_is_refused_until_the_proxy_is_back_on_the_same_port() {
    let (server, _gets) = echo();
    let proxy = Proxy::to(server);
    let mut before = client(&proxy);
    assert_eq!(hear(&mut before, "once"), "once");
    proxy.set(Mode::Refuse);
    assert_eq!(hear_the_rest(&mut before), "");
    let refused = TcpStream::connect(proxy.address()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    proxy.set(Mode::Pass);
    assert_eq!(hear(&mut client(&proxy), "again"), "again");
}

#[test]
fn a_dropped_proxy_is_gone_with_its_connections() {
    let (server, _gets) = echo();
    let proxy = Proxy::to(server);
    let (mut before, address) = (client(&proxy), proxy.address());
    assert_eq!(hear(&mut before, "once"), "once");
    drop(proxy);
    assert_eq!(hear_the_rest(&mut before), "");
    assert!(TcpStream::connect(address).is_err());
}
