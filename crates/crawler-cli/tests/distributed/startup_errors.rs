//! Commands print what is wrong with Redis when they start: its address, the cause and the remedy. Commands that only query
//! Redis do not wait for one that is down.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use testredis::{Fsync, Mode, Proxy, Server, Tls};

use super::fixture::Fixture;
use super::process::{Process, texts};

/// A command that takes longer waits for Redis. It should give up after five seconds, and the machine may be busy.
const GIVE_UP_TIMEOUT: Duration = Duration::from_secs(60);

/// A port on which no process listens.
const CLOSED_PORT: u16 = 1;

/// Every command that uses Redis, with this address.
fn commands(fixture: &Fixture, address: &str) -> Vec<(String, Command)> {
    let seed = fixture.seed();
    let all: [&[&str]; 7] = [
        &["crawl", &seed, "--redis", "--allow-private"],
        &["frontier"],
        &["worker"],
        &["submit", &seed, "--allow-private"],
        &["status"],
        &["stop"],
        &["purge"],
    ];
    let command = |arguments: &&[&str]| {
        let mut command = fixture.crawler(arguments);
        command.env("CRAWLER_REDIS", address);
        (arguments[0].to_owned(), command)
    };
    all.iter().map(command).collect()
}

/// Runs commands at the same time until each exits, and asserts that none waits for Redis.
fn run_all(commands: Vec<(String, Command)>) -> Vec<(String, Option<i32>, String)> {
    let start = Instant::now();
    let spawn = |(name, mut command): (String, Command)| {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        thread::spawn(move || {
            let output: Output = child.wait_with_output().unwrap();
            let (out, err) = texts(&output);
            (name, output.status.code(), out + &err, Instant::now())
        })
    };
    let started: Vec<_> = commands.into_iter().map(spawn).collect();
    let join = |running: thread::JoinHandle<(String, Option<i32>, String, Instant)>| {
        let (name, status, output, ended) = running.join().unwrap();
        assert!(ended - start < GIVE_UP_TIMEOUT, "{name} took {:?}: {output}", ended - start);
        assert!(!output.contains("panicked"), "{output}");
        (name, status, output)
    };
    started.into_iter().map(join).collect()
}

/// Asserts that all commands reject each of these addresses in these words, and that no request is sent to the web.
fn assert_rejected(fixture: &Fixture, addresses: &[(&str, &[&str])]) {
    let all = addresses.iter().flat_map(|(address, _)| commands(fixture, address)).collect();
    let words =
        addresses.iter().flat_map(|(address, words)| commands(fixture, address).into_iter().map(|_| *words));
    for ((name, status, output), words) in run_all(all).into_iter().zip(words) {
        assert_eq!(status, Some(1), "{name}: {output}");
        let last = output.lines().last().unwrap();
        for word in words {
            assert!(last.contains(word), "{name} does not print {word:?}: {output}");
        }
        assert!(!output.contains(".;") && !output.contains("?;"), "{output}");
        assert!(
            !output.contains("sesame") && !output.contains("secret"),
            "{name} prints the password: {output}"
        );
    }
    assert_eq!(fixture.web.hits(), 0);
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn unreachable_server_is_named_with_cause_and_remedy() {
    let (fixture, port) = (Fixture::new(1, 1), CLOSED_PORT);
    let address = format!("redis://me:secret@127.0.0.1:{port}/");
    let at = format!("cannot reach Redis at redis://127.0.0.1:{port}: connection refused");
    let unknown = ["cannot reach Redis at redis://nobody.invalid:6379", "is it running"];
    assert_rejected(
        &fixture,
        &[
            (&address, &[&at, "is it running, and can it be reached from here?"]),
            ("redis://:secret@nobody.invalid", &unknown),
        ],
    );
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn denied_access_is_reported_without_the_password() {
    let fixture = Fixture::with_redis(Server::builder().password("sesame").start(), 1, 1);
    let remedy = "; give a user name and password that may use scripts, transactions and the keys of the crawl: \
                  redis://user:password@host:port/ (or the variable CRAWLER_REDIS_PASSWORD)";
    let at = format!("Redis at redis://127.0.0.1:{} refuses", fixture.redis.port());
    for credentials in ["", ":secret@", "nobody:secret@"] {
        assert_rejected(&fixture, &[(&fixture.redis_url.replace(":sesame@", credentials), &[&at, remedy])]);
    }
    // The right password, from the environment.
    let mut status = fixture.crawler(&["status", "--ready"]);
    status.env("CRAWLER_REDIS", fixture.redis_url.replace(":sesame@", ""));
    status.env("CRAWLER_REDIS_PASSWORD", "sesame");
    assert_eq!(run_all(vec![("status".into(), status)])[0].1, Some(0));
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn invalid_address_is_a_usage_error() {
    let fixture = Fixture::new(1, 1);
    let invalid = [
        ("http://127.0.0.1/", "its scheme is 'http', and not redis, rediss"),
        ("127.0.0.1:6379", "it has no scheme"),
        ("redis://:secret@127.0.0.1:port/", "port"),
        ("redis://127.0.0.1/words", "words"),
    ];
    for (address, words) in invalid {
        for (name, status, output) in run_all(commands(&fixture, address)) {
            assert_eq!(status, Some(2), "{name}: {output}");
            assert!(
                output.contains("cannot use the address of Redis") && output.contains(words),
                "{name}: {output}"
            );
            assert!(
                output.contains("give one like redis://host:6379/0") && !output.contains("secret"),
                "{output}"
            );
        }
    }
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn tls_needs_a_trusted_certificate_on_a_tls_port() {
    let directory = tempfile::tempdir().unwrap();
    let tls = Tls::generate(directory.path());
    let server = Server::builder().tls(&tls).append_only(Fsync::EverySecond).password("sesame").start();
    let plain_as_secure = format!("rediss://:sesame@127.0.0.1:{}/", server.port());
    let fixture = Fixture::with_redis(server, 3, 4);
    let secure_as_plain = fixture.redis_url.replace("rediss://", "redis://");
    assert_rejected(
        &fixture,
        &[
            (&fixture.redis_url, &["cannot talk to Redis at rediss://127.0.0.1:", "certificate"]),
            (&plain_as_secure, &["at rediss://127.0.0.1:", "does it want TLS (rediss://) or not (redis://)"]),
            (&secure_as_plain, &["at redis://127.0.0.1:", "does it want TLS (rediss://) or not (redis://)"]),
        ],
    );

    let root = tls.root.to_str().unwrap();
    let (status, output) = Process::start(fixture.crawl(2, &["--ca-file", root])).wait();
    assert_eq!(status, Some(0), "{output}");
    let mut query = fixture.crawler(&["status", "--json", "--ca-file", root]);
    let status: serde_json::Value = serde_json::from_slice(&query.output().unwrap().stdout).unwrap();
    let truth = fixture.web.truth_from(&fixture.seed(), 1_000);
    assert_eq!((status["pages"].as_u64(), fixture.pages().len()), (Some(truth.len() as u64), truth.len()));
    assert!(!output.contains("sesame"));
}

/// A server that replies as Redis 6.2 does.
fn old_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}/", listener.local_addr().unwrap());
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || reply_as_old_server(client));
        }
    });
    url
}

fn reply_as_old_server(mut client: TcpStream) {
    let information = "redis_version:6.2.14\r\ncluster_enabled:0\r\n";
    for line in BufReader::new(client.try_clone().unwrap()).lines().map_while(Result::ok) {
        let reply = match line.as_str() {
            "INFO" => format!("${}\r\n{information}\r\n", information.len()),
            "CLIENT" => "+OK\r\n".to_owned(),
            _ => continue,
        };
        if client.write_all(reply.as_bytes()).is_err() {
            return;
        }
    }
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn server_that_could_lose_the_crawl_is_rejected() {
    let fixture = Fixture::new(1, 1);
    let evicting = Server::builder().setting("maxmemory", "100mb").setting("maxmemory-policy", "allkeys-lru");
    let (evicting, replica) = (evicting.start(), Server::builder().replica_of(&fixture.redis).start());
    let at = format!("Redis at redis://127.0.0.1:{} is a replica", replica.port());
    assert_rejected(
        &fixture,
        &[
            (&old_server(), &["is version 6.2.14; the crawl needs 7.0 or later, or Valkey"]),
            (&evicting.url(), &["allkeys-lru", "set maxmemory-policy to noeviction"]),
            (&replica.url(), &[&at, "give the address of its primary, or of the Sentinels"]),
        ],
    );
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn server_without_persistence_causes_a_warning() {
    let warning = "set appendonly to yes";
    for (redis, warns) in [
        (
            Server::start(),
            Some("has neither an append-only file nor snapshots: if Redis stops, the crawl is lost"),
        ),
        (Server::builder().append_only(Fsync::EverySecond).start(), None),
    ] {
        let fixture = Fixture::with_redis(redis, 2, 2);
        let (status, output) = Process::start(fixture.crawl(1, &[])).wait();
        assert_eq!(status, Some(0), "{output}");
        assert_eq!(output.contains(warning), warns.is_some(), "{output}");
        assert!(output.contains(warns.unwrap_or_default()), "{output}");
        assert_eq!(output.matches(warning).count(), usize::from(warns.is_some()), "more than once: {output}");
    }
}

/// The commands that only query Redis.
fn queries(fixture: &Fixture, address: &str) -> Vec<(String, Command)> {
    let is_query =
        |(name, _): &(String, Command)| ["submit", "status", "stop", "purge"].contains(&name.as_str());
    commands(fixture, address).into_iter().filter(is_query).collect()
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn query_to_a_redis_that_is_down_fails_with_a_message_within_seconds() {
    let fixture = Fixture::new(2, 3);
    assert_eq!(Process::start(fixture.crawl(1, &[])).wait().0, Some(0));
    let proxy = Proxy::for_server(&fixture.redis);
    proxy.set_mode(Mode::BlackHole);
    let mut all = queries(&fixture, &proxy.url());
    all.extend(queries(&fixture, &format!("redis://127.0.0.1:{CLOSED_PORT}/")));
    for (name, status, output) in run_all(all) {
        assert_eq!(status, Some(1), "{name}: {output}");
        assert!(
            output.lines().last().unwrap().contains("cannot reach Redis at redis://127.0.0.1:"),
            "{name}: {output}"
        );
        assert!(!output.contains("replies again"), "{name}: {output}");
    }
    // Its memory is full: only commands that read, or free memory, succeed.
    fixture.redis.query::<String>("CONFIG SET maxmemory 1");
    let (last, others) =
        (queries(&fixture, &fixture.redis_url).pop().unwrap(), queries(&fixture, &fixture.redis_url));
    let others = others.into_iter().filter(|(name, _)| *name != last.0).collect();
    for (name, status, output) in [run_all(others), run_all(vec![last])].concat() {
        assert_eq!(status, Some(i32::from(name == "submit")), "{name}: {output}");
        let is_reported = output.contains("is full") && output.contains("give it more (maxmemory)");
        assert_eq!(is_reported, name == "submit", "{name}: {output}");
    }
}
