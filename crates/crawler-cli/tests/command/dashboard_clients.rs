//! What clients of the dashboard can occupy, and for how long: connections, the places of viewers, the token in the address bar.

use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketType, connect, socket, sockopt};

use crate::dashboard::{endless_crawl, endless_site, kill, started, until};
use crate::http::Server;

/// How long connections that send nothing would keep others out if they were served in the order in which they came.
const LONG: Duration = Duration::from_secs(10);

#[test]
fn connections_without_a_request_keep_no_client_out() {
    let web = endless_site();
    let (running, server) = started(&web, endless_crawl(&web));
    let start = Instant::now();
    // If each had a place until it is disconnected, which takes five seconds, the last one would wait for long.
    let idle: Vec<TcpStream> = (0..300)
        .map(|number| {
            let mut stream = server.connect();
            if number % 2 == 0 {
                let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: loc");
            }
            stream
        })
        .collect();
    for path in ["/healthz", "/readyz", "/metrics", "/", "/api/status"] {
        assert_eq!(server.get(path).status, 200, "{path}");
    }
    assert!(start.elapsed() < LONG, "{:?}", start.elapsed());
    drop(idle);
    kill(running);
}

#[test]
fn requests_that_do_not_end_leave_places_for_monitoring() {
    let web = endless_site();
    let (running, server) = started(&web, endless_crawl(&web));
    let session: serde_json::Value = serde_json::from_str(&server.get("/api/session").body).unwrap();
    let action = format!(
        "POST /api/action HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nX-CSRF-Token: {}\r\n\
         Content-Length: 1000\r\n\r\n{{",
        session["csrf"].as_str().unwrap()
    );
    let start = Instant::now();
    let unfinished: Vec<TcpStream> = (0..200)
        .map(|_| {
            let mut stream = server.connect();
            let _ = stream.write_all(action.as_bytes());
            stream
        })
        .collect();
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(server.get(path).status, 200, "{path}");
    }
    assert!(start.elapsed() < LONG, "{:?}", start.elapsed());
    until("an end of the requests", || server.get("/api/status").status == 200);
    drop(unfinished);
    kill(running);
}

/// A connection whose client receives next to nothing until it reads.
fn unread(server: Server) -> TcpStream {
    let client = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    sockopt::set_socket_recv_buffer_size(&client, 4 << 10).unwrap();
    connect(&client, &SocketAddr::from(([127, 0, 0, 1], server.port))).unwrap();
    let mut client = TcpStream::from(client);
    client.write_all(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    client
}

#[test]
fn viewers_that_do_not_read_lose_their_places() {
    let web = endless_site();
    let (mut running, server) = started(&web, endless_crawl(&web));
    // The status has its full size.
    running.until("pages", |_| web.hits() >= 100);
    let stalled: Vec<TcpStream> = (0..16).map(|_| unread(server)).collect();
    until("the places are taken", || server.events().head.contains(" 503 "));
    let start = Instant::now();
    until("a free place", || server.events().head.contains("200 OK"));
    println!("a place was free after {:?}", start.elapsed());
    drop(stalled);
    kill(running);
}

/// The CPU time of the thread that serves the dashboard.
fn cpu_time(process: u32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let thread = threads.map(|thread| thread.unwrap().path()).find(|thread| {
        fs::read_to_string(thread.join("comm")).is_ok_and(|name| name.trim_end() == "dashboard")
    });
    let status = fs::read_to_string(thread.expect("a thread of its own").join("stat")).unwrap();
    // utime and stime, the 14th and 15th fields. The second one, the name, is in parentheses.
    let fields = status.rsplit(") ").next().unwrap().split(' ').skip(11).take(2);
    // Linux counts in hundredths of a second here.
    Duration::from_millis(fields.map(|ticks| 10 * ticks.parse::<u64>().unwrap()).sum())
}

#[test]
fn three_viewers_take_less_than_a_hundredth_of_a_core() {
    let web = endless_site();
    let (running, server) = started(&web, endless_crawl(&web));
    let (before, start) = (cpu_time(running.id()), Instant::now());
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| assert_eq!(server.events().take(10).count(), 10));
        }
    });
    let (used, took) = (cpu_time(running.id()) - before, start.elapsed());
    assert!(took > Duration::from_secs(7), "a status each second: {took:?}");
    assert!(used < took / 100, "{used:?} of {took:?}");
    kill(running);
}

#[test]
fn token_leaves_the_address_bar_also_if_the_browser_knows_it() {
    let web = endless_site();
    let token = "a-token-that-a-user-chose";
    let (running, server) = started(&web, endless_crawl(&web).environment("CRAWLER_DASHBOARD_TOKEN", token));
    let cookie = format!("Cookie: crawler-token-{}={token}", server.port);
    assert_eq!(server.request("GET", "/", &[&cookie], "").status, 200);
    let again = server.request("GET", &format!("/?token={token}"), &[&cookie], "");
    assert_eq!((again.status, again.head.contains("\r\nlocation: /\r\n")), (303, true), "{again:?}");
    assert_eq!(server.request("GET", "/?token=another", &[&cookie], "").status, 200);
    kill(running);
}
