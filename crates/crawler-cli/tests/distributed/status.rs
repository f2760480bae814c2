//! What a terminal shows of a distributed crawl: the display of the controller, and `crawler status --watch`.

use super::fixture::{Fixture, is_over};
use super::process::Process;
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
