//! Tests with real servers: each setting, and the cleanup.

use std::net::TcpStream;
use std::thread::sleep;
use std::time::{Duration, Instant};

use testredis::{Cluster, Fsync, Proxy, Reply, Sentinels, Server, Tls};

#[test]
#[ignore = "needs redis-server: run by make test"]
fn append_only_data_survives_a_kill_and_a_stop() {
    for fsync in [Fsync::Always, Fsync::EverySecond] {
        let server = Server::builder().append_only(fsync).start();
        let url = server.url();
        server.query::<()>("SET a 1");
        server.kill();
        assert!(server.try_query(&["PING"]).is_err());
        server.restart();
        assert_eq!((server.query::<u32>("INCR a"), server.url()), (2, url));
        server.stop();
        server.restart();
        assert_eq!(server.query::<Option<u32>>("GET a"), Some(2));
    }
    let volatile = Server::start();
    volatile.query::<()>("SET a 1");
    volatile.restart();
    assert_eq!(volatile.query::<Option<u32>>("GET a"), None);
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn paused_server_replies_after_it_is_resumed() {
    let server = Server::start();
    server.pause();
    std::thread::scope(|scope| {
        let query = scope.spawn(|| (server.query::<String>("PING"), Instant::now()));
        sleep(Duration::from_millis(200));
        let resumed = Instant::now();
        server.resume();
        let (reply, replied) = query.join().unwrap();
        assert!(reply == "PONG" && replied >= resumed);
    });
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn settings_take_effect() {
    let locked = Server::builder().password("open-sesame").max_memory("2mb").start();
    assert_eq!(locked.query::<Vec<String>>("CONFIG GET maxmemory-policy")[1], "noeviction");
    let full = locked.try_query(&["SET", "a", &"x".repeat(4_000_000)]).unwrap();
    assert!(matches!(full, Reply::Error(error) if error.starts_with("OOM")));
    assert_eq!(locked.url(), format!("redis://:open-sesame@127.0.0.1:{}/", locked.port()));

    let primary = Server::start();
    let replica = Server::builder().replica_of(&primary).start();
    let refused = replica.try_query(&["SET", "a", "1"]).unwrap();
    assert!(matches!(refused, Reply::Error(error) if error.starts_with("READONLY")));
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn server_with_tls_uses_its_certificate_on_the_port_of_its_url() {
    let directory = tempfile::tempdir().unwrap();
    let tls = Tls::generate(directory.path());
    let server = Server::builder().tls(&tls).start();
    assert!(server.url().starts_with("rediss://127.0.0.1:"));
    let port = server.url().trim_end_matches('/').rsplit(':').next().unwrap().to_owned();
    let mut ping = std::process::Command::new("redis-cli");
    ping.args(["-p", &port, "--tls", "--cacert"]).arg(&tls.root).arg("PING");
    assert_eq!(ping.output().unwrap().stdout, b"PONG\n");
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn cluster_has_all_slots_and_recovers_after_a_restart() {
    let cluster = Cluster::start_with(Server::builder().append_only(Fsync::EverySecond));
    cluster.nodes[0].restart();
    cluster.wait_until_ok();
    let moved = cluster.nodes.iter().filter(|node| {
        matches!(node.try_query(&["SET", "a", "1"]).unwrap(), Reply::Error(error) if error.starts_with("MOVED"))
    });
    assert_eq!(moved.count(), 2, "each key has one node");
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn sentinels_promote_the_replica() {
    for count in [1, 3] {
        let sentinels = Sentinels::start(count);
        assert_eq!(sentinels.primary().port(), sentinels.servers[0].port());
        sentinels.fail_over();
        assert_eq!(sentinels.primary().port(), sentinels.servers[1].port());
        let start = Instant::now();
        while sentinels.primary().try_query(&["SET", "a", "1"]).unwrap() != Reply::Bytes(b"OK".to_vec()) {
            assert!(start.elapsed() < Duration::from_secs(20), "the new primary can be written to");
            sleep(Duration::from_millis(20));
        }
    }
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn drop_removes_the_server_and_its_directory() {
    let server = Server::start();
    let proxy = Proxy::for_server(&server);
    assert!(proxy.url().ends_with(&format!("{}/", proxy.address().port())));
    let directory = server.query::<Vec<String>>("CONFIG GET dir")[1].clone();
    assert!(std::fs::exists(&directory).unwrap());
    let address = server.address();
    drop(server);
    assert!(!std::fs::exists(&directory).unwrap());
    assert!(TcpStream::connect(address).is_err());
}
