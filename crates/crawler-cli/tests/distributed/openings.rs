//! What is wrong with a Redis is said at the beginning: where, what, and what helps; and those who only have a question do
//! not wait for one that is away.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use testredis::{Fsync, Mode, Proxy, Server, Tls};

use super::stage::{Running, Stage, texts};

/// Nobody who only has a question waits longer.
const SECONDS: Duration = Duration::from_secs(12);

/// All kinds of commands that have to do with Redis, each with this address.
fn commands(stage: &Stage, address: &str) -> Vec<(String, Command)> {
    let seed = stage.seed();
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
        let mut command = stage.crawler(arguments);
        command.env("CRAWLER_REDIS", address);
        (arguments[0].to_owned(), command)
    };
    all.iter().map(command).collect()
}

/// Runs commands at the same time, each to its end, which is to come within seconds.
fn ends(commands: Vec<(String, Command)>) -> Vec<(String, Option<i32>, String)> {
    let begun = Instant::now();
    let start = |(name, mut command): (String, Command)| {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        thread::spawn(move || {
            let output: Output = child.wait_with_output().unwrap();
            let (out, err) = texts(&output);
            (name, output.status.code(), out + &err, Instant::now())
        })
    };
    let started: Vec<_> = commands.into_iter().map(start).collect();
    let end = |running: thread::JoinHandle<(String, Option<i32>, String, Instant)>| {
        let (name, status, said, ended) = running.join().unwrap();
        assert!(ended - begun < SECONDS, "{name} took {:?}: {said}", ended - begun);
        assert!(!said.contains("panicked"), "{said}");
        (name, status, said)
    };
    started.into_iter().map(end).collect()
}

/// All commands refuse each of these addresses in these words, and nothing is asked of the web.
fn refused(stage: &Stage, addresses: &[(&str, &[&str])]) {
    let all = addresses.iter().flat_map(|(address, _)| commands(stage, address)).collect();
    let words =
        addresses.iter().flat_map(|(address, words)| commands(stage, address).into_iter().map(|_| *words));
    for ((name, status, said), words) in ends(all).into_iter().zip(words) {
        assert_eq!(status, Some(1), "{name}: {said}");
        let last = said.lines().last().unwrap();
        for word in words {
            assert!(last.contains(word), "{name} does not say {word:?}: {said}");
        }
        assert!(!said.contains("sesame") && !said.contains("secret"), "{name} tells the password: {said}");
    }
    assert_eq!(stage.web.hits(), 0);
}

fn nowhere() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
#[ignore = "needs redis-server"]
fn a_server_that_is_not_there_is_named_with_what_is_wrong_and_what_helps() {
    let (stage, port) = (Stage::new(1, 1), nowhere());
    let address = format!("redis://me:secret@127.0.0.1:{port}/");
    let at = format!("cannot reach Redis at redis://127.0.0.1:{port}: connection refused");
    let unknown = ["cannot reach Redis at redis://nobody.invalid:6379", "is it running"];
    refused(
        &stage,
        &[
            (&address, &[&at, "is it running, and can it be reached from here?"]),
            ("redis://:secret@nobody.invalid", &unknown),
        ],
    );
}

#[test]
#[ignore = "needs redis-server"]
fn who_has_no_access_is_told_so_without_the_password() {
    let stage = Stage::on(Server::builder().password("sesame").start(), 1, 1);
    let remedy = "give a user name and password that may use scripts";
    let at = format!("Redis at redis://127.0.0.1:{} refuses", stage.redis.port());
    for who in ["", ":secret@", "nobody:secret@"] {
        refused(&stage, &[(&stage.address.replace(":sesame@", who), &[&at, remedy])]);
    }
    // The right one, from the environment.
    let mut status = stage.crawler(&["status", "--ready"]);
    status.env("CRAWLER_REDIS", stage.address.replace(":sesame@", ""));
    status.env("CRAWLER_REDIS_PASSWORD", "sesame");
    assert_eq!(ends(vec![("status".into(), status)])[0].1, Some(0));
}

#[test]
#[ignore = "needs redis-server"]
fn an_address_that_is_none_is_an_argument_that_is_wrong() {
    let stage = Stage::new(1, 1);
    let wrong = [
        ("http://127.0.0.1/", "its scheme is \"http\", and not redis, rediss"),
        ("127.0.0.1:6379", "it has no scheme"),
        ("redis://:secret@127.0.0.1:port/", "port"),
        ("redis://127.0.0.1/words", "words"),
    ];
    for (address, words) in wrong {
        for (name, status, said) in ends(commands(&stage, address)) {
            assert_eq!(status, Some(2), "{name}: {said}");
            assert!(
                said.contains("cannot use the address of Redis") && said.contains(words),
                "{name}: {said}"
            );
            assert!(said.contains("give one like redis://host:6379/0") && !said.contains("secret"), "{said}");
        }
    }
}

#[test]
#[ignore = "needs redis-server"]
fn a_certificate_has_to_be_trusted_and_tls_to_be_spoken_by_both() {
    let directory = tempfile::tempdir().unwrap();
    let tls = Tls::make(directory.path());
    let server = Server::builder().tls(&tls).append_only(Fsync::EverySecond).password("sesame").start();
    let plain_as_secure = format!("rediss://:sesame@127.0.0.1:{}/", server.port());
    let stage = Stage::on(server, 3, 4);
    let secure_as_plain = stage.address.replace("rediss://", "redis://");
    refused(
        &stage,
        &[
            (&stage.address, &["cannot talk to Redis at rediss://127.0.0.1:", "certificate"]),
            (&plain_as_secure, &["at rediss://127.0.0.1:", "does it want TLS (rediss://) or not (redis://)"]),
            (&secure_as_plain, &["at redis://127.0.0.1:", "does it want TLS (rediss://) or not (redis://)"]),
        ],
    );

    let root = tls.root.to_str().unwrap();
    let (status, said) = Running::start(stage.crawl(2, &["--ca-file", root])).end();
    assert_eq!(status, Some(0), "{said}");
    let mut told = stage.crawler(&["status", "--json", "--ca-file", root]);
    let status: serde_json::Value = serde_json::from_slice(&told.output().unwrap().stdout).unwrap();
    let truth = stage.web.truth_from(&stage.seed(), 1_000);
    assert_eq!((status["pages"].as_u64(), stage.pages().len()), (Some(truth.len() as u64), truth.len()));
    assert!(!said.contains("sesame"));
}

/// Answers as an old server does.
fn old() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}/", listener.local_addr().unwrap());
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || answer_as_old(client));
        }
    });
    url
}

fn answer_as_old(mut client: TcpStream) {
    let information = "redis_version:6.2.14\r\ncluster_enabled:0\r\n";
    for line in BufReader::new(client.try_clone().unwrap()).lines().map_while(Result::ok) {
        let answer = match line.as_str() {
            "INFO" => format!("${}\r\n{information}\r\n", information.len()),
            "CLIENT" => "+OK\r\n".to_owned(),
            _ => continue,
        };
        if client.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

#[test]
#[ignore = "needs redis-server"]
fn a_server_on_which_a_crawl_is_not_safe_is_refused() {
    let stage = Stage::new(1, 1);
    let evicting = Server::builder().setting("maxmemory", "100mb").setting("maxmemory-policy", "allkeys-lru");
    let (evicting, replica) = (evicting.start(), Server::builder().replica_of(&stage.redis).start());
    let at = format!("Redis at redis://127.0.0.1:{} is a replica", replica.port());
    refused(
        &stage,
        &[
            (&old(), &["is version 6.2.14; the crawl needs 7.0 or later, or Valkey"]),
            (&evicting.url(), &["allkeys-lru", "set maxmemory-policy to noeviction"]),
            (&replica.url(), &[&at, "give the address of its primary, or of the Sentinels"]),
        ],
    );
}

#[test]
#[ignore = "needs redis-server"]
fn a_server_that_forgets_is_warned_of_and_one_that_does_not_is_not() {
    let warning = "set appendonly to yes";
    for (redis, warns) in [
        (Server::start(), Some("writes nothing to its disk: should it end, the crawl is gone")),
        (Server::builder().append_only(Fsync::EverySecond).start(), None),
    ] {
        let stage = Stage::on(redis, 2, 2);
        let (status, said) = Running::start(stage.crawl(1, &[])).end();
        assert_eq!(status, Some(0), "{said}");
        assert_eq!(said.contains(warning), warns.is_some(), "{said}");
        assert!(said.contains(warns.unwrap_or_default()), "{said}");
        assert_eq!(said.matches(warning).count(), usize::from(warns.is_some()), "once: {said}");
    }
}

/// Those who only have a question.
fn questions(stage: &Stage, address: &str) -> Vec<(String, Command)> {
    let is_question =
        |(name, _): &(String, Command)| ["submit", "status", "stop", "purge"].contains(&name.as_str());
    commands(stage, address).into_iter().filter(is_question).collect()
}

#[test]
#[ignore = "needs redis-server"]
fn a_question_to_a_redis_that_is_away_ends_with_a_message_within_seconds() {
    let stage = Stage::new(2, 3);
    assert_eq!(Running::start(stage.crawl(1, &[])).end().0, Some(0));
    let proxy = Proxy::before(&stage.redis);
    proxy.set(Mode::BlackHole);
    let mut all = questions(&stage, &proxy.url());
    all.extend(questions(&stage, &format!("redis://127.0.0.1:{}/", nowhere())));
    for (name, status, said) in ends(all) {
        assert_eq!(status, Some(1), "{name}: {said}");
        assert!(
            said.lines().last().unwrap().contains("cannot reach Redis at redis://127.0.0.1:"),
            "{name}: {said}"
        );
        assert!(!said.contains("answers again"), "{name}: {said}");
    }
    // It is there, and takes nothing: who only looks is answered, and who makes room.
    stage.redis.ask::<String>("CONFIG SET maxmemory 1");
    let (last, others) =
        (questions(&stage, &stage.address).pop().unwrap(), questions(&stage, &stage.address));
    let others = others.into_iter().filter(|(name, _)| *name != last.0).collect();
    for (name, status, said) in [ends(others), ends(vec![last])].concat() {
        assert_eq!(status, Some(i32::from(name == "submit")), "{name}: {said}");
        let is_told = said.contains("is full") && said.contains("give it more (maxmemory)");
        assert_eq!(is_told, name == "submit", "{name}: {said}");
    }
}
