//! The numbers and texts of the dashboard: that they agree with other commands, and that a stranger understands them.

use rustix::process::Signal;
use serde_json::Value;

use crate::common::{Crawl, run};
use crate::dashboard::{dashboard_of, endless_crawl, endless_site, kill, server_of, started, until};
use crate::http::Server;
use crate::pipeline::{Pipeline, objects};
use crate::state::StateDir;

#[test]
fn pending_urls_of_a_killed_crawl_are_the_same_everywhere() {
    let (web, place) = (endless_site(), StateDir::new());
    let mut crawl = place.crawl(web.url("/0")).with("--delay 10ms --similarity 0 --max-pages 100000").start();
    crawl.until("some requests", |_| web.hits() >= 50);
    until("a commit", || status_of(&place)["pages"].as_u64() > Some(10));
    kill(crawl);
    let pending = status_of(&place)["pending"].as_u64().unwrap();
    assert!(pending > 0);
    let (dashboard, server) = dashboard_of(&place.state());
    let status = server.status();
    assert_eq!((&status["phase"], &status["totals"]["pending"]), (&"ended".into(), &pending.into()));
    let groups = status["outcomes"].as_array().unwrap();
    let not_reached = groups.iter().find(|group| group["group"] == "Not reached").unwrap();
    assert_eq!(not_reached["count"], pending, "{groups:?}");
    let sum: u64 = groups.iter().map(|group| group["count"].as_u64().unwrap()).sum();
    assert_eq!(status["totals"]["admitted"], sum, "{groups:?}");
    let metrics = server.get("/metrics").body;
    assert!(metrics.contains(&format!("\ncrawler_urls_pending {pending}\n")), "{metrics}");
    dashboard.signal(Signal::INT);
    dashboard.status();
}

fn status_of(place: &StateDir) -> Value {
    let printed = run(&["status", "--json", &place.state()]);
    serde_json::from_str(&printed.stdout).unwrap_or_default()
}

#[test]
fn single_request_gets_the_rates() {
    let web = endless_site();
    let (mut running, server) = started(&web, endless_crawl(&web));
    running.until("requests of some seconds", |_| web.hits() >= 150);
    let status = server.status();
    for rate in ["pages", "requests", "bytes"] {
        assert!(status["rates"][rate].as_f64() > Some(0.0), "{}", status["rates"]);
    }
    kill(running);
}

#[test]
fn hosts_wait_for_a_delay_that_people_can_read() {
    let web = endless_site();
    let (running, server) = started(&web, endless_crawl(&web));
    until("a host that waits for its delay", || {
        let status = server.status();
        let host = status["hosts"].as_array().unwrap().iter().find(|host| host["waiting"].is_u64());
        host.is_some_and(|host| {
            let why = host["why"].as_str().unwrap();
            // On a busy machine the site is slow, so its delay may have grown.
            let delay = host["delay"].as_f64().unwrap();
            assert!(delay >= 0.01, "{host}");
            assert!(!why.starts_with("delay") || why == format!("delay {:.0} ms", delay * 1000.0), "{host}");
            why.starts_with("delay")
        })
    });
    kill(running);
}

#[test]
fn why_of_a_crawl_in_memory_says_what_it_knows_and_what_to_use() {
    let web = endless_site();
    let (mut running, server) = started(&web, endless_crawl(&web).with("--scope host"));
    // Most of its URLs are not among the latest any more.
    running.until("pages", |_| web.hits() >= 150);
    let why = |server: Server, url: &str| server.get(&format!("/api/why?url={url}")).body;
    until("an old URL", || {
        let answer = why(server, &web.url("/0"));
        answer.contains("not known") && answer.contains("start it with --state DIR or --redis URL")
    });
    until("a recent URL", || {
        let latest = server.status()["latest"][0]["url"].as_str().unwrap().to_owned();
        // Another form of the same URL.
        let answer = why(server, &latest.replace("http://", "HTTP%3A%2F%2F"));
        answer.contains("outcome: page") && answer.contains("--state DIR")
    });
    assert!(why(server, "http://elsewhere.test/").contains("never admitted"));
    let show = server.get(&format!("/api/show?url={}", web.url("/0")));
    assert!(show.status == 404 && show.body.contains("start it with --state DIR"), "{show:?}");
    kill(running);
    let mut classic = Crawl::of(web.url("/0")).delay("10ms").with("--dashboard").start();
    let server = server_of(&mut classic);
    let answer = why(server, "http://elsewhere.test/");
    assert!(
        answer.contains("not known") && answer.contains("use crawler crawl with --state DIR"),
        "{answer}"
    );
    until("a recent URL", || {
        let latest = server.status()["latest"][0]["url"].as_str().unwrap_or_default().to_owned();
        let answer = why(server, &latest);
        answer.contains("outcome: ") && !answer.contains("--redis")
    });
    let show = server.get(&format!("/api/show?url={}", web.url("/0")));
    assert!(show.status == 404 && show.body.contains("are files in its page directory"), "{show:?}");
    kill(classic);
}

#[test]
fn quiet_crawl_prints_the_address_only_if_it_cannot_be_known_before() {
    let web = endless_site();
    let crawl = || {
        Pipeline::of(web.url("/0"))
            .with("-q --delay 10ms --similarity 0 --max-pages 5 --max-time 1m --dashboard")
    };
    let free = crawl().run();
    let (printed, rest) = free.stderr.split_once('\n').unwrap();
    assert!(printed.starts_with("dashboard: http://127.0.0.1:") && rest.is_empty(), "{}", free.stderr);
    let with_token = crawl().with_one("0.0.0.0:0").run();
    assert!(with_token.stderr.contains("/?token="), "{}", with_token.stderr);
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    assert_eq!(crawl().with_one(port.to_string()).run().stderr, "");
}

#[test]
fn json_progress_starts_with_the_address() {
    let web = endless_site();
    let crawl = Pipeline::of(web.url("/0")).with(
        "--progress json --delay 10ms --similarity 0 --max-pages 5 --dashboard 0.0.0.0:0 --metrics 0.0.0.0:0",
    );
    let ended = crawl.run();
    let objects = objects(&ended.stderr);
    let url = objects[0]["dashboard"].as_str().unwrap();
    let token = url.split_once("/?token=").unwrap().1;
    assert_eq!(objects[0]["state"], "starting");
    assert!(url.starts_with("http://127.0.0.1:"), "{url}");
    assert!(objects[1]["metrics"].as_str().unwrap().ends_with("/metrics"), "{}", objects[1]);
    assert_eq!(ended.stderr.matches(token).count(), 1);
    assert_eq!(objects.last().unwrap()["state"], "stopped");
}
