//! Real servers: each setting does what it says, and nothing is left of them.

use std::net::TcpStream;
use std::thread::sleep;
use std::time::{Duration, Instant};

use testredis::{Cluster, Fsync, Proxy, Reply, Sentinels, Server, Tls};

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn what_was_written_down_is_there_after_a_kill_and_a_stop() {
    for fsync in [Fsync::Always, Fsync::EverySecond] {
        let server = Server::builder().append_only(fsync).start();
        let url = server.url();
        server.ask::<()>("SET a 1");
        server.kill();
        assert!(server.try_ask(&["PING"]).is_err());
        server.restart();
        assert_eq!((server.ask::<u32>("INCR a"), server.url()), (2, url));
        server.stop();
        server.restart();
        assert_eq!(server.ask::<Option<u32>>("GET a"), Some(2));
    }
    let forgetful = Server::start();
    forgetful.ask::<()>("SET a 1");
    forgetful.restart();
    assert_eq!(forgetful.ask::<Option<u32>>("GET a"), None);
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn a_paused_server_answers_when_it_goes_on() {
    let server = Server::start();
    server.pause();
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| (server.ask::<String>("PING"), Instant::now()));
        sleep(Duration::from_millis(200));
        let later = Instant::now();
        server.go_on();
        let (answer, answered) = asked.join().unwrap();
        assert!(answer == "PONG" && answered >= later);
    });
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn settings_are_what_the_server_has() {
    let locked = Server::builder().password("open-sesame").max_memory("2mb").start();
    assert_eq!(locked.ask::<Vec<String>>("CONFIG GET maxmemory-policy")[1], "noeviction");
    let full = locked.try_ask(&["SET", "a", &"x".repeat(4_000_000)]).unwrap();
    assert!(matches!(full, Reply::Wrong(why) if why.starts_with("OOM")));
    assert_eq!(locked.url(), format!("redis://:open-sesame@127.0.0.1:{}/", locked.port()));

    let primary = Server::start();
    let replica = Server::builder().replica_of(&primary).start();
    let refused = replica.try_ask(&["SET", "a", "1"]).unwrap();
    assert!(matches!(refused, Reply::Wrong(why) if why.starts_with("READONLY")));
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn a_server_with_tls_shows_its_certificate_to_who_comes_by_its_url() {
    let directory = tempfile::tempdir().unwrap();
    let tls = Tls::make(directory.path());
    let server = Server::builder().tls(&tls).start();
    assert!(server.url().starts_with("rediss://127.0.0.1:"));
    let port = server.url().trim_end_matches('/').rsplit(':').next().unwrap().to_owned();
    let mut ping = std::process::Command::new("redis-cli");
    ping.args(["-p", &port, "--tls", "--cacert"]).arg(&tls.root).arg("PING");
    assert_eq!(ping.output().unwrap().stdout, b"PONG\n");
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn the_nodes_of_a_cluster_have_all_slots_and_find_each_other_again() {
    let cluster = Cluster::of(Server::builder().append_only(Fsync::EverySecond));
    cluster.nodes[0].restart();
    cluster.wait_until_whole();
    let moved = cluster.nodes.iter().filter(|node| {
        matches!(node.try_ask(&["SET", "a", "1"]).unwrap(), Reply::Wrong(why) if why.starts_with("MOVED"))
    });
    assert_eq!(moved.count(), 2, "each key has one node");
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn sentinels_make_the_replica_the_primary() {
    for count in [1, 3] {
        let sentinels = Sentinels::start(count);
        assert_eq!(sentinels.primary().port(), sentinels.servers[0].port());
        sentinels.fail_over();
        assert_eq!(sentinels.primary().port(), sentinels.servers[1].port());
        let begun = Instant::now();
        while sentinels.primary().try_ask(&["SET", "a", "1"]).unwrap() != Reply::Bytes(b"OK".to_vec()) {
            assert!(begun.elapsed() < Duration::from_secs(20), "the new primary can be written to");
            sleep(Duration::from_millis(20));
        }
    }
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn nothing_is_left_of_a_dropped_server() {
    let server = Server::start();
    let proxy = Proxy::before(&server);
    assert!(proxy.url().ends_with(&format!("{}/", proxy.address().port())));
    let directory = server.ask::<Vec<String>>("CONFIG GET dir")[1].clone();
    assert!(std::fs::exists(&directory).unwrap());
    let address = server.address();
    drop(server);
    assert!(!std::fs::exists(&directory).unwrap());
    assert!(TcpStream::connect(address).is_err());
}
