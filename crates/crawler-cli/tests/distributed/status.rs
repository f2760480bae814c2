//! What a terminal shows of a distributed crawl: the display of the controller, and `crawler status --watch`.

use std::time::Duration;

use rustix::process::Signal;

use serde_json::json;

use super::dashboard::{INTERVAL, server_of};
use super::fixture::{Fixture, is_over};
use super::process::{Process, poll};
use super::terminal::{Screen, Terminal};

/// Whether the screen shows the lines of a running crawl, once.
fn shows_crawl(screen: &Screen) -> bool {
    screen.count(" pages · ") == 1 && screen.count(" pending") == 1 && screen.has("pages/s")
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn distributed_crawl_is_shown_like_a_local_one() {
    let fixture = Fixture::slow(6, 40);
    let mut terminal = Terminal::run(&fixture.crawl(2, &["--max-pages", "100000"]), 80, 30);
    terminal.until("the lines", |screen| shows_crawl(screen) && screen.has(" of 100,000 pages · "));
    let text = fixture.run(&["status"]);
    assert!(text.starts_with("Crawl 'crawl': running\n") && text.contains(" of 100,000 pages · "), "{text}");

    let mut watch = Terminal::run(&fixture.crawler(&["status", "--watch"]), 60, 30);
    let mut interrupted = Terminal::run(&fixture.crawler(&["status", "--watch", "500ms"]), 40, 30);
    let lines = Process::start(fixture.crawler(&["status", "--watch", "1s"]));
    for (watch, columns) in [(&mut watch, 60), (&mut interrupted, 40)] {
        watch.until("the lines", |screen| screen.count(" pending") == 1 && screen.has("Worker 1: "));
        let screen = watch.screen();
        assert_eq!(screen.count("Crawl 'crawl': running"), 1, "{}", screen.text());
        assert!(screen.live_lines().iter().all(|line| line.chars().count() <= columns), "{}", screen.text());
    }
    interrupted.press(b"\x03");
    let (status, screen) = interrupted.wait();
    assert_eq!((status, screen.text().replace("^C", "").trim()), (Some(130), ""));

    terminal.press(b"\x03");
    terminal.until("the message", |screen| screen.has(" to stop now"));
    let (status, screen) = terminal.wait();
    assert_eq!(status, Some(130), "{}", screen.text());
    assert_eq!(screen.count(" to stop now"), 1, "its processes do not say it, too: {}", screen.text());
    assert_eq!(
        screen.count(" pending") + screen.count("Fetched: ") + screen.count("Waiting: "),
        0,
        "{}",
        screen.text()
    );
    assert!(screen.has("Stopped: on request"), "{}", screen.text());

    let (status, screen) = watch.wait();
    assert_eq!(status, Some(0), "{}", screen.text());
    assert_eq!(
        (screen.count("': running"), screen.count("': stopped, on request")),
        (0, 1),
        "{}",
        screen.text()
    );
    let (status, output) = lines.wait();
    assert_eq!(status, Some(0), "{output}");
    assert!(
        output.contains(" of 100,000 pages · ") && output.contains("Crawl 'crawl': stopped, on request"),
        "{output}"
    );
    assert!(is_over(&fixture.status()));
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn lines_of_a_distributed_crawl_follow_the_terminal() {
    // It does not end before the test does.
    let fixture = Fixture { delay: Duration::from_secs(5), ..Fixture::slow(6, 40) };
    let mut crawl = Terminal::run(&fixture.crawl(2, &["--max-pages", "100000"]), 100, 30);
    crawl.until("the lines", |screen| screen.count(" pending") == 1);
    let watch = Terminal::run(&fixture.crawler(&["status", "--watch", "500ms"]), 100, 30);
    for mut terminal in [watch, crawl] {
        terminal.until("the lines", |screen| screen.count(" pending") == 1);
        for (columns, rows) in [(50, 24), (120, 30), (40, 10), (80, 24)] {
            let before = terminal.screen().bytes.len();
            terminal.resize(columns, rows, true);
            terminal.until("the next lines", |screen| {
                let painted = String::from_utf8_lossy(&screen.bytes[before..]).matches(" pending").count();
                painted >= 2 && screen.count(" pending") == 1
            });
            let screen = terminal.screen();
            assert!(
                screen.live_lines().iter().all(|line| line.chars().count() <= columns),
                "{}",
                screen.text()
            );
        }
        terminal.signal(Signal::TSTP);
        terminal.until("no lines", |screen| !screen.has(" pending"));
        terminal.signal(Signal::CONT);
        terminal.until("the lines", |screen| screen.count(" pending") == 1);
        terminal.press(b"\x03");
        let (status, screen) = terminal.wait();
        assert_eq!(status, Some(130), "{}", screen.text());
        assert_eq!(screen.count(" pending"), 0, "{}", screen.text());
    }
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn watched_status_survives_a_restart_of_redis() {
    let fixture = Fixture::slow(4, 30);
    let crawl = fixture.start_crawl(1, &[]);
    let mut watch = Process::start(fixture.crawler(&["status", "--watch", "200ms"]));
    watch.wait_for_output("a line", |output| output.contains(" pages · "));
    fixture.redis.restart();
    crawl.wait_for_success();
    let (status, output) = watch.wait();
    assert_eq!(status, Some(0), "{output}");
    assert!(output.contains("Crawl 'crawl': finished\n"), "{output}");
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn standby_of_the_frontier_is_listed_and_takes_over_when_the_frontier_is_killed() {
    let fixture = Fixture::slow(4, 6);
    fixture.submit(&fixture.seed(), &[]);
    let leader = Process::start(fixture.crawler(&["frontier"]));
    fixture.wait_for_status("the frontier", |status| status["members"][0]["role"] == "frontier");
    assert_eq!(fixture.status()["standbys"], json!([]));
    let standby = Process::start(fixture.crawler(&["frontier"]));
    let mut dashboard = Process::start(fixture.crawler(&["dashboard", "--redis"]));
    let server = server_of(&mut dashboard);
    let pid = |process: &Process| json!(process.pid().as_raw_nonzero().get());
    fixture.wait_for_status("the standby", |status| {
        let standbys = status["standbys"].as_array().unwrap();
        standbys.len() == 1 && standbys[0]["role"] == "frontier" && standbys[0]["pid"] == pid(&standby)
    });
    let name = format!("pid {} on host ", pid(&standby));
    let text = fixture.run(&["status"]);
    assert!(text.contains(&format!("\nFrontier, standby: {name}")), "{text}");
    poll("the standby on the dashboard", INTERVAL, || {
        let (frontier, metrics) = (&server.status()["frontier"], server.get("/metrics").body);
        frontier["standby"][0]["location"].as_str().is_some_and(|location| location.starts_with(&name))
            && frontier["leader"]["location"].as_str().is_some_and(|location| !location.starts_with(&name))
            && metrics.contains("\ncrawler_members{state=\"standby\"} 1\n")
    });

    leader.signal(Signal::KILL);
    fixture.wait_for_status("the standby to lead", |status| {
        status["members"][0]["pid"] == pid(&standby) && status["standbys"] == json!([])
    });
    poll("the new leader on the dashboard", INTERVAL, || {
        let frontier = &server.status()["frontier"];
        frontier["leader"]["location"].as_str().is_some_and(|location| location.starts_with(&name))
            && frontier["standby"] == json!([])
    });
    Process::start(fixture.crawler(&["worker"])).wait_for_success();
    standby.wait_for_success();
    fixture.check();
}
