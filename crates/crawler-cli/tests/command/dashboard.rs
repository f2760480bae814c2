//! The server of the dashboard: what it serves, whom it answers, and that no client can hold a crawl up.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use testweb::{Request, Response, Site, Web};

use crate::common::{Crawl, Running, binary, counts, linking_to, run, serve};
use crate::http::Server;
use crate::live_state::suspend;
use crate::pipeline::{Pipeline, objects_in};
use crate::resume::directories;
use crate::state::StateDir;

/// No condition takes longer, not even on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A site with more pages than a test waits for.
pub fn endless_site() -> Web {
    serve(Site::new().fallback(|request: &Request| {
        let number: u64 = request.path.trim_start_matches('/').parse().unwrap_or(0);
        let links: Vec<String> = (1..=9).map(|step| format!("/{}", number * 9 + step)).collect();
        let links: Vec<&str> = links.iter().map(String::as_str).collect();
        Response::page(format!("<title>page {number}</title>{}", linking_to(&links)))
    }))
}

/// A crawl of such a site, a hundred requests per second at most.
pub fn endless_crawl(web: &Web) -> Pipeline {
    Pipeline::of(web.url("/0")).with("--delay 10ms --similarity 0 --max-pages 100000 --dashboard")
}

pub fn server_of(running: &mut Running) -> Server {
    running.until_message("dashboard: http://127.0.0.1:");
    until("the end of the line", || {
        running.stderr_so_far().contains("/\n") || running.stderr_so_far().contains("token=")
    });
    Server::announced(&running.stderr_so_far())
}

/// A crawl with a dashboard, after its first requests.
pub fn started(web: &Web, crawl: Pipeline) -> (Running, Server) {
    let mut running = crawl.start();
    let server = server_of(&mut running);
    running.until("some requests", |_| web.hits() >= 5);
    (running, server)
}

#[track_caller]
pub fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_true() {
        assert!(start.elapsed() < TIMEOUT, "timeout: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

pub fn kill(running: Running) {
    running.signal(Signal::KILL);
    running.status();
}

#[test]
fn page_and_status_are_served_with_strict_headers() {
    let web = endless_site();
    let (running, server) = started(&web, endless_crawl(&web));
    for (path, content_type) in [
        ("/", "text/html; charset=utf-8"),
        ("/style.css", "text/css; charset=utf-8"),
        ("/script.js", "text/javascript; charset=utf-8"),
        ("/api/status", "application/json"),
        ("/metrics", "text/plain; version=0.0.4; charset=utf-8"),
        ("/healthz", "text/plain; charset=utf-8"),
        ("/nothing", "text/plain; charset=utf-8"),
    ] {
        let answer = server.get(path);
        assert_eq!(answer.status, if path == "/nothing" { 404 } else { 200 }, "{path}: {answer:?}");
        for header in [
            &*format!("\r\ncontent-type: {content_type}\r\n"),
            "\r\nx-content-type-options: nosniff\r\n",
            "\r\nreferrer-policy: no-referrer\r\n",
            "\r\ncache-control: no-store\r\n",
            "\r\ncontent-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
             img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n",
        ] {
            assert!(answer.head.contains(header), "{path}: {answer:?}");
        }
        assert!(!answer.head.contains("access-control"), "{path}");
    }
    assert_eq!(server.request("HEAD", "/", &[], "").body, "");
    assert_eq!(server.request("PUT", "/", &[], "").status, 405);
    assert_eq!(server.request("GET", "/api/action", &[], "").status, 403);
    let status = server.status();
    assert_eq!(
        (&status["version"], &status["mode"], &status["phase"]),
        (&1.into(), &"pipeline".into(), &"running".into())
    );
    assert_eq!(status["limits"]["max_pages"], 100_000);
    assert!(status["totals"]["requests"].as_u64().is_some() && status["history"].is_array(), "{status}");
    kill(running);
}

#[test]
fn viewers_get_a_status_each_second_and_the_end() {
    let web = serve(Site::seeded(3, 400));
    let crawl =
        Pipeline::of(web.url("/")).with("--delay 10ms --similarity 0 --scope host --workers 1 --dashboard");
    let mut running = crawl.start();
    let server = server_of(&mut running);
    let viewers: Vec<_> = (0..3)
        .map(|_| {
            thread::spawn(move || {
                let events = server.events();
                assert!(
                    events.head.contains("200 OK") && events.head.contains("content-type: text/event-stream")
                );
                events.map(|event| (Instant::now(), event)).collect::<Vec<_>>()
            })
        })
        .collect();
    let ended = running.wait().expect(0);
    for viewer in viewers {
        let events = viewer.join().unwrap();
        let (_, (last_name, _)) = events.last().unwrap();
        assert_eq!(last_name, "end");
        let statuses: Vec<&Value> =
            events.iter().filter(|(_, (name, _))| name == "status").map(|(_, (_, data))| data).collect();
        let (first, last) = (statuses[0], statuses[statuses.len() - 1]);
        assert!(
            first["history"].is_array() && statuses[1..].iter().all(|status| status.get("history").is_none())
        );
        assert_eq!((&last["phase"], &last["totals"]["pending"]), (&"ended".into(), &0.into()), "{last}");
        assert_eq!(last["totals"]["pages"], ended.outcomes()["page"], "the final counts");
        let pages: Vec<u64> =
            statuses.iter().map(|status| status["totals"]["pages"].as_u64().unwrap()).collect();
        assert!(pages.is_sorted(), "{pages:?}");
        // At least one a second, but for a pause of a busy machine.
        let time = events.last().unwrap().0 - events[0].0;
        assert!(statuses.len() as f64 >= time.as_secs_f64() * 0.7, "{} in {time:?}", statuses.len());
    }
}

#[test]
fn requests_of_other_names_and_sites_are_refused() {
    let web = endless_site();
    let (running, server) = started(&web, endless_crawl(&web));
    let port = server.port;
    let status = |headers: &[&str]| server.request("GET", "/api/status", headers, "").status;
    assert_eq!(status(&[&format!("Host: localhost:{port}")]), 200);
    for host in ["evil.test", &format!("evil.test:{port}"), "127.0.0.1.evil.test", "192.168.1.1", ""] {
        assert_eq!(status(&[&format!("Host: {host}")]), 421, "{host}");
        assert_eq!(server.request("GET", "/", &[&format!("Host: {host}")], "").status, 421, "{host}");
    }
    assert_eq!(server.send(b"GET /api/status HTTP/1.0\r\n\r\n").status, 421, "no name");
    let absolute = format!("GET http://evil.test/ HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n");
    assert_eq!(server.send(absolute.as_bytes()).status, 421);
    assert_eq!(status(&["Origin: http://evil.test"]), 403);
    assert_eq!(status(&["Origin: null"]), 403);
    assert_eq!(status(&["Sec-Fetch-Site: cross-site"]), 403);
    assert_eq!(status(&["Sec-Fetch-Site: same-origin", &format!("Origin: http://127.0.0.1:{port}")]), 200);
    assert_eq!(
        server.request("GET", "/", &["Sec-Fetch-Site: cross-site"], "").status,
        200,
        "a link to the page"
    );

    let session: Value = serde_json::from_str(&server.get("/api/session").body).unwrap();
    let csrf = format!("X-CSRF-Token: {}", session["csrf"].as_str().unwrap());
    let (json, stop) = ("Content-Type: application/json", r#"{"action":"stop"}"#);
    let post = |headers: &[&str]| server.request("POST", "/api/action", headers, stop).status;
    assert_eq!(post(&[json]), 403, "no token");
    assert_eq!(post(&[json, "X-CSRF-Token: 00000000000000000000000000000000"]), 403);
    assert_eq!(post(&[json, &csrf, "Origin: http://evil.test"]), 403);
    assert_eq!(post(&[json, &csrf, "Sec-Fetch-Site: same-site"]), 403);
    assert_eq!(post(&[&csrf, "Content-Type: text/plain"]), 415, "what a form can send");
    assert_eq!(server.request("GET", "/api/action", &[json, &csrf], "").status, 405);
    let bad = server.act(&json!({"action": "explode"}));
    assert_eq!((bad.status, bad.body.contains("not known")), (400, true), "{bad:?}");
    let before = web.hits();
    until("the crawl continues", || web.hits() > before + 5);
    kill(running);
}

#[test]
fn huge_and_endless_requests_are_refused() {
    let web = endless_site();
    let (running, server) = started(&web, endless_crawl(&web));
    let long = "x".repeat(100_000);
    let head = server.request("GET", "/", &[&format!("X-Long: {long}")], "");
    assert_eq!(head.status, 431, "{head:?}");
    let uri = server.get(&format!("/api/why?url={long}"));
    assert!([414, 431].contains(&uri.status), "{uri:?}");
    let headers: Vec<String> = (0..1_000).map(|number| format!("X-{number}: 1")).collect();
    let many = server.request("GET", "/", &headers.iter().map(String::as_str).collect::<Vec<_>>(), "");
    assert_eq!(many.status, 431, "{many:?}");
    let body = server.act(&json!({"action": "add-seed", "value": long}));
    assert_eq!(body.status, 413, "{body:?}");
    assert_ne!(server.send(&[0xFF; 50_000]).status, 200);
    assert_ne!(server.send(b"GET / HTTP/9.9\r\n\r\n").status, 200);
    assert_eq!(server.get("/api/why").status, 400);
    assert_eq!(server.get("/api/why?url=nonsense").status, 400);
    assert_eq!(server.get("/healthz").status, 200, "it is still there");
    kill(running);
}

#[test]
fn address_beyond_loopback_needs_a_token_which_is_printed_once() {
    let web = endless_site();
    let crawl = endless_crawl(&web).with_one("0.0.0.0:0");
    let (running, server) = started(&web, crawl);
    let printed = running.stderr_so_far();
    let token = printed.split("?token=").nth(1).unwrap().lines().next().unwrap().to_owned();
    assert!(token.len() == 32 && token.bytes().all(|byte| byte.is_ascii_hexdigit()), "{printed}");
    for path in ["/", "/api/status", "/events", "/metrics", "/api/session", "/script.js", "/nothing"] {
        assert_eq!(server.get(path).status, 401, "{path}");
        assert_eq!(server.request("GET", path, &["Authorization: Bearer 123"], "").status, 401, "{path}");
    }
    assert_eq!(server.get("/healthz").status, 200);
    assert_eq!(server.get(&format!("/?token={}", token.replace(|_| true, "0"))).status, 401);
    assert_eq!(
        server.get(&format!("/api/status?token={token}")).status,
        401,
        "only the page sets the cookie"
    );
    let redirect = server.get(&format!("/?token={token}"));
    assert_eq!((redirect.status, redirect.head.contains("\r\nlocation: /\r\n")), (303, true), "{redirect:?}");
    let cookie = redirect.head.split("set-cookie: ").nth(1).unwrap();
    assert!(cookie.contains("; path=/; httponly; samesite=strict"), "{redirect:?}");
    let cookie = format!("Cookie: other=1; {}", cookie.split(';').next().unwrap());
    assert_eq!(server.request("GET", "/api/status", &[&cookie], "").status, 200);
    let bearer = format!("Authorization: Bearer {token}");
    assert_eq!(server.request("GET", "/metrics", &[&bearer, "Host: crawler:9090"], "").status, 200);
    assert_eq!(server.request("GET", "/api/status", &[&cookie, "Host: evil.test"], "").status, 421);
    running.signal(Signal::INT);
    let ended = running.wait().expect(130);
    assert_eq!((ended.stdout + &ended.stderr).matches(&token).count(), 1);
}

#[test]
fn chosen_token_is_needed_everywhere_and_never_printed() {
    let web = endless_site();
    let token = "a-token-that-a-user-chose";
    let (running, server) = started(&web, endless_crawl(&web).environment("CRAWLER_DASHBOARD_TOKEN", token));
    assert_eq!(server.get("/api/status").status, 401);
    let bearer = format!("authorization: bearer {token}");
    assert_eq!(server.request("GET", "/api/status", &[&bearer], "").status, 200);
    running.signal(Signal::INT);
    let ended = running.wait().expect(130);
    assert!(!ended.stderr.contains(token) && !ended.stdout.contains(token));
    let short = endless_crawl(&web).environment("CRAWLER_DASHBOARD_TOKEN", "short").run().expect(2);
    assert!(
        short.stderr.contains("CRAWLER_DASHBOARD_TOKEN must have 16 to 512 characters"),
        "{}",
        short.stderr
    );
}

#[test]
fn address_that_cannot_be_used_is_an_error_before_the_first_request() {
    let web = endless_site();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for option in ["--dashboard", "--metrics"] {
        let crawl = Pipeline::of(web.url("/0")).with(option).with_one(&address).run().expect(2);
        assert!(
            crawl.stderr.contains(&format!("at {address}: ")) && crawl.stderr.contains(option),
            "{}",
            crawl.stderr
        );
        let classic = Crawl::of(web.url("/0")).with(option).with_one(&address).run().expect(2);
        assert!(classic.stderr.contains(&format!("at {address}: ")), "{}", classic.stderr);
    }
    for wrong in ["http://example.org/", "example.org:80", ":80", "127.0.0.1:99999"] {
        let crawl = Pipeline::of(web.url("/0")).with("--dashboard").with_one(wrong).run().expect(2);
        assert!(crawl.stderr.contains("must be IP:PORT or PORT"), "{}", crawl.stderr);
    }
    assert_eq!(web.hits(), 0);
}

#[test]
fn stalled_and_slow_clients_do_not_hold_the_crawl_up() {
    let web = endless_site();
    let (running, server) = started(&web, endless_crawl(&web));
    let mut viewer = server.events();
    assert!(viewer.next().is_some());
    // Far more than the server accepts: they send nothing, or half a request, or ask for streams and do not read.
    let stalled: Vec<TcpStream> = (0..100)
        .map(|number| {
            let mut stream = server.connect();
            let request = match number % 4 {
                0 => "",
                1 => "GET / HTTP/1.1\r\nHost: loc",
                2 => "POST /api/action HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{",
                _ => "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n",
            };
            let _ = stream.write_all(request.as_bytes());
            stream
        })
        .collect();
    // The first statuses may be of the moment before the first request.
    let mut requests = || viewer.next().unwrap().1["totals"]["requests"].as_u64().unwrap();
    let mut last = 0;
    until("two statuses with more requests each", || {
        let before = std::mem::replace(&mut last, requests());
        before > 0 && last > before
    });
    // Those that send no request are disconnected after seconds, and give their places to others.
    assert_eq!(server.get("/healthz").status, 200);
    drop(stalled);
    let log = web.log();
    let starts: Vec<Instant> = log.iter().map(|hit| hit.started).collect();
    let longest = starts.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
    assert!(longest < Duration::from_secs(3), "the crawl stood still for {longest:?}");
    kill(running);
}

#[test]
fn viewers_are_limited_and_those_that_are_left_get_their_messages() {
    let web = endless_site();
    let (running, server) = started(&web, endless_crawl(&web));
    let mut viewers: Vec<_> = (0..16).map(|_| server.events()).collect();
    assert!(viewers.iter().all(|events| events.head.contains("200 OK")));
    assert!(server.events().head.contains(" 503 "));
    viewers.truncate(1);
    until("a free place", || server.events().head.contains("200 OK"));
    assert_eq!(viewers[0].next().map(|(name, _)| name).as_deref(), Some("status"));
    kill(running);
}

#[test]
fn hostile_titles_and_urls_are_plain_texts_in_one_line() {
    let title = "</script><img src=x onerror=alert(1)>\u{2028}\u{202e}\"'\\";
    let site = Site::new()
        .page(
            "/",
            format!(
                "<title>{title}\r\n\r\nevent: end\r\ndata: x</title><a href='/a?\"<b>%0d%0adata:%20y'>a</a>"
            ),
        )
        .fallback(|_: &Request| Response::page("<title>a</title>").delay(Duration::from_millis(200)));
    let web = serve(site);
    let crawl = Pipeline::of(web.url("/")).with("--similarity 0 --dashboard");
    let mut running = crawl.start();
    let server = server_of(&mut running);
    // Each line of the stream is checked while it is read.
    let events: Vec<_> = server.events().collect();
    running.wait().expect(0);
    let (_, last) = events.iter().rev().find(|(name, _)| name == "status").unwrap();
    assert_eq!(events.iter().filter(|(name, _)| name == "end").count(), 1);
    let latest = last["latest"].as_array().unwrap();
    let titles: Vec<&str> = latest.iter().filter_map(|url| url["title"].as_str()).collect();
    assert!(
        titles.iter().any(|found| found.starts_with("</script><img src=x onerror=alert(1)>")),
        "{latest:?}"
    );
    let urls: Vec<&str> = latest.iter().filter_map(|url| url["url"].as_str()).collect();
    assert!(urls.iter().any(|url| url.contains("%0D%0Adata:%20y")), "{urls:?}");
}

#[test]
fn actions_pause_unpause_change_and_stop_the_crawl() {
    let web = endless_site();
    let (mut running, server) = started(&web, endless_crawl(&web));
    let act = |action: Value| {
        let answer = server.act(&action);
        assert_eq!(answer.status, 200, "{action}: {answer:?}");
        let answer: Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(answer["done"], true, "{answer}");
    };
    act(json!({"action": "pause"}));
    until("the pause is shown", || server.status()["phase"] == "paused");
    // Requests in flight finish. Then none is sent, for as long as a hundred would be.
    until("no requests", || {
        let before = web.hits();
        thread::sleep(Duration::from_secs(1));
        web.hits() == before
    });
    assert_eq!(server.get("/readyz").status, 503);
    assert_eq!(server.get("/healthz").status, 200);
    let paused = web.hits();
    act(json!({"action": "unpause"}));
    running.until("requests after the pause", |_| web.hits() > paused + 10);
    act(json!({"action": "set-max-pages", "value": "50000"}));
    act(json!({"action": "set-delay", "value": "20ms"}));
    act(json!({"action": "block-pattern", "value": "/[0-9]*7$"}));
    until("the changes are shown", || {
        let status = server.status();
        let blocked = status["blocked"].as_array().is_some_and(|blocked| !blocked.is_empty());
        status["limits"]["max_pages"] == 50_000 && status["limits"]["delay"] == 0.02 && blocked
    });
    let refused = server.act(&json!({"action": "set-delay", "value": "never"}));
    assert_eq!(refused.status, 400, "{refused:?}");
    act(json!({"action": "stop"}));
    let ended = running.wait();
    assert!(ended.stdout.contains("Stopped"), "{}", ended.stdout);
    assert!(
        ended.stderr.matches("dashboard: ").count() >= 6,
        "what actions did is printed: {}",
        ended.stderr
    );
}

#[test]
fn values_that_cannot_be_used_are_refused_with_the_reason() {
    let web = endless_site();
    let (running, server) = started(&web, endless_crawl(&web));
    for (action, value, reason) in [
        ("block-host", "*", "not a host name or address"),
        ("block-host", &*"x".repeat(5_000), "not a host name or address"),
        ("block-host", "http://a.test/", "not a host name or address"),
        ("block-pattern", ".*", "matches every URL"),
        ("block-pattern", "(a{1000}){1000}", "too large"),
        ("set-delay", "-1s", "negative"),
        ("set-delay", "99999h", "at most 24h"),
        ("set-max-pages", "0", "0"),
        ("set-max-time", "99999999h", "at most 8760h"),
        ("add-seed", "ftp://a.test/", "http"),
        ("add-seed", "http://me:secret@a.test/", "password"),
    ] {
        let answer = server.act(&json!({"action": action, "value": value}));
        let body: Value = serde_json::from_str(&answer.body).unwrap();
        let message = body["message"].as_str().unwrap();
        assert_eq!((answer.status, &body["done"]), (400, &false.into()), "{action} {value}: {answer:?}");
        assert!(message.starts_with("cannot ") && message.contains(reason), "{action} {value}: {message}");
        assert!(!message.contains("secret"), "{message}");
    }
    assert_eq!(server.status()["blocked"], json!([]));
    kill(running);
}

#[test]
fn urls_of_a_blocked_host_are_listed_with_what_happened() {
    let (web, place) = (endless_site(), StateDir::new());
    let path = place.path("urls.jsonl");
    let crawl = place.crawl(web.url("/0")).with("--delay 1h --similarity 0 --max-pages 100000 --dashboard");
    let mut running = crawl.module("urls", &path).start();
    let server = server_of(&mut running);
    running.until("the first page", |_| web.hits() >= 1);
    until("its links", || server.status()["totals"]["pages"] == 1);
    let host = web.url("").replace("http://", "");
    assert_eq!(server.act(&json!({"action": "block-host", "value": host})).status, 200);
    let ended = running.wait().expect(0);
    assert_eq!(ended.outcomes(), counts(&[("page", 1), ("blocked", 9)]), "{}", ended.stdout);
    let rows = objects_in(&path);
    assert_eq!(rows.len(), 10, "{rows:?}");
    for row in rows.iter().filter(|row| row["outcome"] != "page") {
        assert_eq!((&row["outcome"], &row["group"]), (&"blocked".into(), &"skipped".into()), "{row}");
        assert!(row["requested"].is_null() && row["found_on"] == web.url("/0"), "{row}");
    }
    let why = run(&["why", "--state", &place.state(), &web.url("/9")]).expect(0);
    assert!(why.stdout.contains("outcome: blocked while the crawl ran"), "{}", why.stdout);
}

#[test]
fn paused_crawl_that_is_killed_continues_when_it_is_resumed() {
    let web = serve(directories(&["a"], 40));
    let place = StateDir::new();
    let crawl = place.crawl(web.url("/")).with("--delay 20ms --similarity 0 --dashboard");
    let (running, server) = started(&web, crawl);
    assert_eq!(server.act(&json!({"action": "pause"})).status, 200);
    until("the pause", || server.status()["phase"] == "paused");
    until("no requests", || {
        let before = web.hits();
        thread::sleep(Duration::from_millis(500));
        web.hits() == before
    });
    kill(running);
    let hits = web.hits();
    assert!(hits < 41, "{hits}");
    let ended = place.resume("").wait().expect(0);
    assert_eq!(ended.outcomes(), counts(&[("page", 41)]), "{}", ended.stdout);
    assert!(web.hits() <= 41 + 2, "{}: pages in flight are fetched again", web.hits());
}

#[test]
fn metrics_are_served_without_the_page() {
    let web = endless_site();
    let mut running = Pipeline::of(web.url("/0"))
        .with("--delay 10ms --similarity 0 --metrics-hosts 1 --metrics 127.0.0.1:0")
        .start();
    running.until_message("/metrics\n");
    let server = Server::announced(&running.stderr_so_far());
    running.until("some requests", |_| web.hits() >= 20);
    for path in ["/", "/events", "/api/status", "/api/session", "/api/action"] {
        assert_eq!(server.get(path).status, 404, "{path}");
    }
    until("metrics of requests", || {
        let text = server.get("/metrics").body;
        let value = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name))?;
            line.rsplit(' ').next()?.parse::<f64>().ok()
        };
        value("crawler_requests_total").is_some_and(|requests| requests >= 10.0)
            && value("crawler_responses_total{class=\"2xx\"}").is_some_and(|responses| responses >= 10.0)
            && value("crawler_stage_duration_seconds_count{stage=\"first_byte\"}")
                .is_some_and(|count| count >= 10.0)
            && value("crawler_host_requests_total{host=\"127.0.0.1:").is_some_and(|requests| requests >= 10.0)
    });
    assert_eq!((server.get("/healthz").body, server.get("/readyz").body), ("ok\n".into(), "ok\n".into()));
    kill(running);
}

#[test]
#[ignore = "needs promtool: run by make test"]
fn metrics_pass_promtool() {
    let (web, place) = (endless_site(), StateDir::new());
    let crawl = place
        .crawl(web.url("/0"))
        .with("--delay 10ms --similarity 0 --max-time 10m --metrics-hosts 5 --dashboard");
    let (running, server) = started(&web, crawl);
    until("pages", || server.status()["totals"]["pages"].as_u64() > Some(20));
    let metrics = server.get("/metrics").body;
    let mut promtool = std::process::Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(std::process::Stdio::piped());
    let mut child =
        promtool.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(metrics.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let printed =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && printed.is_empty(), "{printed}");
    kill(running);
}

/// Starts `crawler dashboard` for a state.
pub fn dashboard_of(state: &str) -> (Running, Server) {
    let mut command = binary();
    command.args(["dashboard", state]);
    let mut running = Running::start(command, PathBuf::from("/nowhere"), None);
    let server = server_of(&mut running);
    (running, server)
}

#[test]
fn state_is_shown_while_its_crawl_runs_and_after_the_end() {
    let (web, place) = (endless_site(), StateDir::new());
    let mut crawl = place.crawl(web.url("/0")).with("--delay 10ms --similarity 0 --max-pages 100000").start();
    crawl.until("some requests", |_| web.hits() >= 5);
    let (dashboard, server) = dashboard_of(&place.state());
    until("growing counts", || server.status()["totals"]["pages"].as_u64() > Some(10));
    assert_eq!(server.status()["can_act"], true);
    let seed = web.url("/0");
    until("the commit of the first page", || {
        server.get(&format!("/api/why?url={seed}")).body.contains("outcome: page 1")
    });
    let shown = server.get(&format!("/api/show?url={seed}"));
    assert!(
        shown.body.contains("<title>page 0</title>") && shown.head.contains("text/plain; charset=utf-8"),
        "{shown:?}"
    );
    assert!(server.get("/api/why?url=http://a.test/").body.contains("never admitted"));
    assert_eq!(server.act(&json!({"action": "block-host", "value": "blocked.test"})).status, 200);
    until("the blocked host", || server.status()["blocked"] == json!(["blocked.test"]));
    let paused = server.act(&json!({"action": "pause"}));
    assert!(paused.body.contains("resumed later is not paused"), "{paused:?}");
    until("the pause", || server.status()["phase"] == "paused");
    assert_eq!(server.act(&json!({"action": "unpause"})).status, 200);
    crawl.signal(Signal::INT);
    let pages = crawl.wait().expect(130).outcomes()["page"];
    let mut events = server.events();
    until("the end", || {
        let (_, status) = events.next().unwrap();
        status["phase"] == "ended" && status["totals"]["pages"] == pages && status["can_act"] == false
    });
    assert!(
        server.status()["history"].as_array().is_some_and(|history| !history.is_empty()),
        "the stored history"
    );
    let refused = server.act(&json!({"action": "unpause"}));
    let command = format!("no process runs it; to resume it: crawler resume {}", place.state());
    assert!(refused.status == 409 && refused.body.contains(&command), "{refused:?}");
    assert_eq!((server.get("/healthz").status, server.get("/readyz").status), (200, 503));
    assert_eq!(server.get("/readyz").body, "ended\n", "not why: an error may have paths and addresses");
    // Readers do not keep the crawl from being resumed.
    let mut again = place.resume("--max-pages 100000");
    let before = web.hits();
    again.until("more requests", |_| web.hits() > before + 5);
    until("the resumed crawl", || server.status()["phase"] == "running");
    kill(again);
    dashboard.signal(Signal::INT);
    assert_eq!(dashboard.status(), Some(130));
    let missing = run(&["dashboard", "/nowhere/at/all"]).expect(2);
    assert!(missing.stderr.contains("cannot open the state"), "{}", missing.stderr);
    assert!(run(&["dashboard"]).expect(2).stderr.contains("missing <DIR> or --redis"));
}

#[test]
fn dashboard_of_a_suspended_crawl_says_so_and_ends_at_once() {
    let (web, place) = (endless_site(), StateDir::new());
    let mut crawl = place.crawl(web.url("/0")).with("--delay 10ms --similarity 0 --max-pages 100000").start();
    crawl.until("some requests", |_| web.hits() >= 5);
    let (dashboard, server) = dashboard_of(&place.state());
    until("growing counts", || server.status()["totals"]["pages"].as_u64() > Some(5));
    suspend(&crawl);
    let words = format!("(pid {}) is suspended", crawl.id());
    until("the warning", || {
        let status = server.status();
        assert!(status["totals"]["pages"].as_u64() > Some(5), "the last status: {status}");
        status["warnings"][0].as_str().is_some_and(|warning| warning.contains(&words))
    });
    assert_eq!(server.get("/readyz").body, "the state or Redis cannot be reached\n");
    assert_eq!(server.get("/metrics").status, 200);
    let mut events = server.events();
    assert_eq!(events.next().unwrap().0, "status");
    dashboard.signal(Signal::INT);
    assert_eq!(dashboard.status(), Some(130));
    assert_eq!(events.last().unwrap().0, "end");
    kill(crawl);
}

#[test]
fn classic_crawl_has_a_dashboard() {
    let web = endless_site();
    let mut running = Crawl::of(web.url("/0")).delay("10ms").with("--dashboard").start();
    let server = server_of(&mut running);
    until("pages", || server.status()["totals"]["pages"].as_u64() > Some(5));
    let status = server.status();
    assert_eq!(
        (&status["mode"], &status["phase"], &status["can_act"]),
        (&"classic".into(), &"running".into(), &false.into())
    );
    assert_eq!(format!("http://{}", status["name"].as_str().unwrap()), web.url("/0"));
    until("the reason for which its URLs wait", || {
        let host = &server.status()["hosts"][0];
        host["why"].as_str().is_some_and(|why| why.starts_with("delay "))
            && host["waiting"].as_u64() > Some(0)
    });
    let mut events = server.events();
    running.signal(Signal::INT);
    running.wait().expect(130);
    let last = events.by_ref().filter(|(name, _)| name == "status").last().unwrap().1;
    assert_eq!(last["phase"], "ended", "{last}");
}

#[test]
fn idle_connections_are_closed() {
    let web = endless_site();
    let (running, server) = started(&web, endless_crawl(&web));
    let mut idle = server.connect();
    let start = Instant::now();
    let mut bytes = Vec::new();
    let _ = idle.read_to_end(&mut bytes);
    assert!(start.elapsed() < Duration::from_secs(25), "{:?}", start.elapsed());
    kill(running);
}
