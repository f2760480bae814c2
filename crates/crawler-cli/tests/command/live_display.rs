//! What a terminal shows while a crawl runs, and what is left of it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use testweb::{Request, Response, Site, Web};

use crate::common::{Crawl, Running, binary, linking_to, run, serve};
use crate::dashboard::until;
use crate::dashboard_page::free_port;
use crate::http::Server;
use crate::pipeline::Pipeline;
use crate::state::StateDir;
use crate::terminal::{Screen, Terminal};

/// A first page with links to pages of four hosts that respond after this time, a quick one with a long URL, and one that is
/// missing.
fn slow_web(time: Duration) -> Web {
    let answer = move |request: &Request| {
        let (port, path) = (request.authority.rsplit(':').next().unwrap_or("80"), request.path.as_str());
        match path {
            "/" => {
                let slow = (0..40).map(|n| format!("http://h{}.test:{port}/{n}", n % 4));
                let mut links = vec!["/missing".to_owned(), format!("/quick-{}", "long-".repeat(30))];
                links.extend(slow);
                Response::page(linking_to(&links.iter().map(String::as_str).collect::<Vec<_>>()))
            }
            "/missing" => Response::status(404),
            path if path.starts_with("/quick") => Response::page(path.to_owned()),
            path => Response::page(path.to_owned()).delay(time),
        }
    };
    serve(Site::new().fallback(answer))
}

/// The same on one host.
fn slow_site(time: Duration) -> Web {
    let paths: Vec<String> = (0..40).map(|n| format!("/{n}")).collect();
    let mut links: Vec<&str> = paths.iter().map(String::as_str).collect();
    links.splice(0..0, ["/missing", "/quick"]);
    let page = move |request: &Request| Response::page(request.path.clone()).delay(time);
    let site = Site::new().page("/", linking_to(&links)).page("/quick", "x").status("/robots.txt", 404);
    serve(site.status("/missing", 404).fallback(page))
}

/// A crawl with four requests in flight.
fn stuck(web: &Web) -> Command {
    Pipeline::of(web.url("/")).with("--workers 2 --concurrency 2 --timeout 2m --similarity 0").command()
}

/// The lines of a crawl, each of which fits, and none of which is there twice.
#[track_caller]
fn check_lines(screen: &Screen, columns: usize) {
    let text = screen.text();
    assert_eq!(screen.count(" pending"), 1, "{text}");
    let live = screen.live_lines();
    assert_eq!(live[0], "", "the row of the cursor: {text}");
    assert!(live[1].starts_with(|c: char| c.is_ascii_digit()) && live[1].contains(" page"), "{text}");
    assert!(live[2].contains(" pending"), "{text}");
    assert!(live.iter().all(|line| line.chars().count() <= columns), "{text}");
    // A line that wrapped would be in the way of the next one.
    let starts = ["Waiting:", "Fetched:", "Queues: ", "Workers: ", "! ", "  "];
    assert!(live[3..].iter().all(|line| starts.iter().any(|start| line.starts_with(start))), "{text}");
}

#[test]
fn live_lines_fit_every_width() {
    let web = slow_web(Duration::from_secs(60));
    for (columns, headline, counts) in [
        (100, " of 10,000 pages · ", " pending · 4 in flight · 1 failed (HTTP 404 ×1) · "),
        (80, " of 10,000 pages · ", " pending · 4 in flight · 1 failed (HTTP 404 ×1)"),
        (60, " of 10,000 pages · ", " pending · 4 in flight · 1 failed (HTTP 404 ×1)"),
        (40, " of 10,000 pages", " pending · 1 failed"),
        (20, " of 10,000 pages", " pending"),
        (12, " page", " pending"),
    ] {
        let mut terminal = Terminal::run(&stuck(&web), columns, 24);
        terminal.until("the pages", |screen| screen.has(headline) && screen.has(counts));
        check_lines(&terminal.screen(), columns);
        terminal.signal(Signal::KILL);
        terminal.wait();
    }
}

#[test]
fn resized_terminal_has_no_old_lines() {
    let web = slow_web(Duration::from_secs(60));
    for wraps_again in [true, false] {
        let mut terminal = Terminal::run(&stuck(&web), 100, 24);
        terminal.until("the pages", |screen| screen.has(" of 10,000 pages") && screen.has(" pending"));
        for (columns, rows) in [(50, 24), (40, 10), (120, 30), (30, 8), (80, 24)] {
            let before = terminal.screen().bytes.len();
            terminal.resize(columns, rows, wraps_again);
            // Painted at once, and again a second later.
            terminal.until("the next lines", |screen| {
                let painted = String::from_utf8_lossy(&screen.bytes[before..]).matches(" pending").count();
                painted >= 3 && screen.count(" pending") == 1
            });
            let screen = terminal.screen();
            check_lines(&screen, columns);
            assert!(screen.has("crawling http"), "what was printed before stays: {}", screen.text());
        }
        terminal.signal(Signal::KILL);
        terminal.wait();
    }
}

/// The lines that are left when the crawl has ended.
fn lines_left(screen: &Screen) -> Vec<String> {
    let starts = [
        "crawling ",
        "pages are only",
        "finishing ",
        "stopping",
        "Pages ",
        "Failed ",
        "Not reached ",
        "Links ",
        "Requests ",
        "Stopped: ",
        "to list the failed",
        "to resume",
        "^C",
    ];
    let is_expected = |line: &String| starts.iter().any(|start| line.starts_with(start)) || line.is_empty();
    screen.lines().into_iter().filter(|line| !is_expected(line)).collect()
}

#[test]
fn interrupted_crawl_says_how_many_requests_it_finishes_and_leaves_only_messages() {
    let web = slow_web(Duration::from_secs(8));
    let crawls = [
        (None, 130, "finishing 4 requests in flight; press Ctrl-C again to stop now"),
        (Some(Signal::TERM), 143, "finishing 4 requests in flight; send the signal again to stop now"),
    ];
    let mut crawls = crawls.map(|expected| (Terminal::run(&stuck(&web), 120, 24), expected));
    // All before the first response.
    for (terminal, (signal, _, message)) in &mut crawls {
        // The requests to the first host have ended: no further one starts.
        terminal.until("the slow requests", |screen| {
            screen.has("2 of 10,000 pages") && screen.has("4 in flight · 1 failed")
        });
        match *signal {
            None => terminal.press(b"\x03"),
            Some(signal) => terminal.signal(signal),
        }
        terminal.until("the message", |screen| screen.count(message) == 1);
        terminal.until("no host", |screen| screen.has("stopping · ") && !screen.has("Waiting:"));
    }
    for (terminal, (_, code, _)) in crawls {
        let (status, screen) = terminal.wait();
        assert_eq!(status, Some(code), "{}", screen.text());
        assert_eq!(lines_left(&screen), Vec::<String>::new(), "{}", screen.text());
        assert!(screen.has("Not reached ") && screen.has("Stopped: on request"), "{}", screen.text());
        assert_eq!(screen.lines().last().unwrap(), "to list the failed URLs, use -v");
    }
}

#[test]
fn second_interrupt_leaves_a_clean_screen() {
    let web = slow_web(Duration::from_secs(60));
    let mut terminal = Terminal::run(&stuck(&web), 120, 24);
    terminal.until("the pages", |screen| screen.has(" of 10,000 pages"));
    terminal.press(b"\x03");
    terminal.until("the message", |screen| screen.has("press Ctrl-C again to stop now"));
    terminal.until("the lines", |screen| screen.has("stopping · "));
    terminal.press(b"\x03");
    let (status, screen) = terminal.wait();
    assert_eq!(status, Some(130));
    assert_eq!(lines_left(&screen), Vec::<String>::new(), "{}", screen.text());
}

#[test]
fn suspended_crawl_leaves_the_screen_to_the_shell() {
    let web = slow_web(Duration::from_secs(60));
    let mut terminal = Terminal::run(&stuck(&web), 120, 24);
    terminal.until("the pages", |screen| screen.has(" of 10,000 pages"));
    // A session whose leader has no parent in it ignores the key.
    terminal.signal(Signal::TSTP);
    terminal.until("no lines", |screen| !screen.has(" pending"));
    terminal.signal(Signal::CONT);
    terminal.until("the lines", |screen| screen.has(" of 10,000 pages"));
    terminal.signal(Signal::KILL);
    terminal.wait();
}

#[test]
fn ctrl_z_suspends_a_process_also_after_its_crawl() {
    let web = slow_web(Duration::from_millis(1500));
    let directory = tempfile::tempdir().unwrap();
    let id = directory.path().join("id");
    // Standard output is a pipe that is full, and whose reader reads nothing: the summary cannot be printed.
    let script =
        "{ head -c 65536 /dev/zero; exec sh -c 'echo $$ > \"$ID\"; exec \"$@\"' sh \"$@\"; } | sleep 600";
    let crawl = stuck(&web);
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(crawl.get_program()).args(crawl.get_args());
    command.args(["--max-pages", "4"]).env("ID", &id);
    let mut terminal = Terminal::run(&command, 80, 24);
    terminal.until("the pages", |screen| screen.has(" of 4 pages · "));
    terminal.until("the end of the crawl", |screen| !screen.has(" of 4 pages · "));
    let id: i32 = std::fs::read_to_string(id).unwrap().trim().parse().unwrap();
    let crawler = rustix::process::Pid::from_raw(id).unwrap();
    rustix::process::kill_process(crawler, Signal::TSTP).unwrap();
    until("the stop", || std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap().contains(") T "));
    terminal.press(b"\x03");
    rustix::process::kill_process(crawler, Signal::KILL).unwrap();
    terminal.wait();
}

#[test]
fn colours_can_be_turned_off() {
    let web = slow_web(Duration::from_millis(2500));
    for (variable, value, has_colours) in
        [("LANG", "C", true), ("NO_COLOR", "1", false), ("NO_COLOR", "", true), ("CLICOLOR", "0", false)]
    {
        let mut command = stuck(&web);
        command.args(["--max-pages", "4"]).env(variable, value);
        let mut terminal = Terminal::run(&command, 80, 24);
        terminal.until("the pages", |screen| screen.has(" of 4 pages · "));
        let (_, screen) = terminal.wait();
        assert_eq!(!screen.styles.is_empty(), has_colours, "{variable}={value}: {:?}", screen.styles);
    }
}

#[test]
fn terminal_without_cursor_movement_gets_plain_lines() {
    let web = slow_web(Duration::from_secs(60));
    let mut command = stuck(&web);
    command.env("TERM", "dumb");
    let mut terminal = Terminal::run(&command, 300, 24);
    terminal.until("a line", |screen| screen.has(" of 10,000 pages · "));
    let screen = terminal.screen();
    assert!(!screen.bytes.contains(&b'\x1b'), "{}", screen.text());
    let line = screen.lines().into_iter().find(|line| line.contains(" of 10,000 pages · ")).unwrap();
    assert!(line.contains(" pending · 4 in flight · 1 failed (HTTP 404 ×1)"), "{line}");
    assert!(line.contains("; waiting: h") && !line.contains("Queues"), "{line}");
    drop(screen);
    terminal.signal(Signal::KILL);
    terminal.wait();
}

#[test]
fn queues_are_shown_with_verbose_only() {
    let web = slow_web(Duration::from_secs(60));
    for is_verbose in [true, false] {
        let mut command = stuck(&web);
        command.args(is_verbose.then_some("-v"));
        let mut terminal = Terminal::run(&command, 100, 50);
        terminal.until("the pages", |screen| screen.has(" of 10,000 pages") && screen.has(" pending"));
        let screen = terminal.screen();
        assert_eq!(
            screen.live_lines().iter().any(|line| line.starts_with("Queues: ")),
            is_verbose,
            "{}",
            screen.text()
        );
        assert_eq!(screen.count("Failed: http"), usize::from(is_verbose), "{}", screen.text());
        drop(screen);
        terminal.signal(Signal::KILL);
        terminal.wait();
    }
}

#[test]
fn quiet_crawl_and_one_that_prints_pages_show_no_live_lines() {
    let web = slow_web(Duration::from_millis(2500));
    for options in [&["-q"][..], &["--module", "jsonl=-"], &["--progress", "json"]] {
        let mut command = stuck(&web);
        command.args(["--max-pages", "4"]).args(options);
        let (_, screen) = Terminal::run(&command, 1000, 50).wait();
        assert!(!screen.bytes.contains(&b'\x1b'), "{options:?} {}", screen.text());
        assert_eq!(screen.count(" of 4 pages"), 0, "{options:?} {}", screen.text());
    }
}

#[test]
fn hostile_texts_do_not_break_the_lines() {
    let title = "<title>\u{1b}[2J\u{1b}[9999A\u{9b}1m 漢字漢字 e\u{301}\u{202e} 👩‍👩‍👧</title>";
    let hostile =
        ["/%1b[2J", "/漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字", "/a\u{202e}b", "/👩‍👩‍👧"];
    let slow = |request: &Request| Response::page(request.path.clone()).delay(Duration::from_secs(60));
    let mut site = Site::new().page("/", linking_to(&hostile) + &linking_to(&["/slow"]) + title);
    for path in ["/%1b[2J", "/%1B[2J"] {
        site = site.response(path, Response::status(500).header("Retry-After", "1"));
    }
    let answer = move |request: &Request| match request.path.as_str() {
        "/slow" => slow(request),
        path => Response::page(format!("{title}{path}")).content_type("text/html;\t\u{9b}2J"),
    };
    let web = serve(site.fallback(answer));
    let mut terminal = Terminal::run(&stuck(&web), 60, 24);
    terminal.until("the pages", |screen| screen.has(" of 10,000 pages · ") && screen.has("1 pending"));
    let screen = terminal.screen();
    assert_eq!(screen.count(" pending"), 1, "{}", screen.text());
    drop(screen);
    terminal.signal(Signal::KILL);
    terminal.wait();
}

#[test]
fn hosts_that_hold_the_crawl_up_and_warnings_are_shown() {
    let answer = |request: &Request| {
        let port = request.authority.rsplit(':').next().unwrap_or("80");
        match (&*request.host(), request.path.as_str()) {
            ("127.0.0.1", "/") => {
                // The host that fails soon has enough URLs to be seen on a busy machine.
                let hosts = [("slow", 30), ("failing", 300), ("norobots", 30), ("asking", 30)];
                let links = hosts.iter().flat_map(|(host, urls)| {
                    (0..*urls).map(move |n| format!("http://{host}.test:{port}/{n}"))
                });
                Response::page(linking_to(
                    &links.collect::<Vec<_>>().iter().map(String::as_str).collect::<Vec<_>>(),
                ))
            }
            ("norobots.test", "/robots.txt") => Response::status(503),
            // The mean time of its responses includes this one.
            ("slow.test", "/robots.txt") => Response::status(404).delay(Duration::from_millis(1500)),
            (_, "/robots.txt") => Response::status(404),
            ("failing.test", _) => Response::status(500).delay(Duration::from_millis(100)),
            ("asking.test", _) => Response::status(429).header("Retry-After", "60"),
            ("slow.test", path) => Response::page(path.to_owned()).delay(Duration::from_millis(1500)),
            (_, path) => Response::page(path.to_owned()),
        }
    };
    let web = serve(Site::new().fallback(answer));
    let options = "--resolve *=127.0.0.1 --allow-private --similarity 0 --workers 2 --timeout 2m";
    let mut terminal = Terminal::run(&Pipeline::bare(web.url("/")).with(options).command(), 120, 40);
    for (host, why) in [
        ("failing.test", "failing: HTTP 500"),
        ("slow.test", " s per response"),
        ("norobots.test", "robots.txt fails (HTTP 503)"),
        ("asking.test", "as the server requested"),
        ("! failing.test", "keeps failing: "),
    ] {
        let is_shown = |line: &String| line.contains(host) && line.contains(why);
        terminal.until(why, |screen| screen.live_lines().iter().any(is_shown));
    }
    // All its responses take 1.5 s, and on a busy machine a little more.
    let seconds = |line: &String| line.split_once("slow: ")?.1.split_once(" s per response")?.0.parse().ok();
    let is_mean = |line: &String| seconds(line).is_some_and(|seconds: f64| (1.5..3.0).contains(&seconds));
    terminal.until("the mean", |screen| screen.live_lines().iter().any(is_mean));
    terminal.signal(Signal::KILL);
    terminal.wait();
}

/// A command that runs another one, to be given as its arguments, with a file system of 8 MB in this directory; `None` if this
/// system does not let users mount file systems.
fn on_small_disk(directory: &Path) -> Option<Command> {
    let unshared = |script: &str| {
        let mount = "mount -t tmpfs -o size=8m none \"$DIRECTORY\"";
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c", &format!("{mount} && {script}"), "sh"]);
        command.env("DIRECTORY", directory);
        command
    };
    if !unshared("true").output().is_ok_and(|mounted| mounted.status.success()) {
        eprintln!("skipped: this system does not let users mount file systems");
        return None;
    }
    Some(unshared("exec \"$@\""))
}

#[test]
fn nearly_full_disk_is_a_warning() {
    let directory = tempfile::tempdir().unwrap();
    let Some(mut command) = on_small_disk(directory.path()) else { return };
    let web = slow_web(Duration::from_secs(60));
    let crawl = stuck(&web);
    command.arg(crawl.get_program()).args(crawl.get_args());
    command.args(["--module", &format!("jsonl={}", directory.path().join("pages.jsonl").display())]);
    let mut terminal = Terminal::run(&command, 120, 24);
    let warning = format!("MB left for {}/pages.jsonl", directory.path().display());
    terminal.until("a warning", |screen| screen.has("! disk nearly full: 8.") && screen.has(&warning));
    terminal.signal(Signal::KILL);
    terminal.wait();
}

#[test]
fn nearly_full_disk_is_logged_once_and_on_the_dashboard_and_in_the_metrics() {
    let web = slow_web(Duration::from_secs(60));
    let (url, directories) = (web.url("/"), tempfile::tempdir().unwrap());
    let (small, pages) = (directories.path().join("small"), directories.path().join("pages"));
    [&small, &pages].into_iter().for_each(|path| std::fs::create_dir(path).unwrap());
    let classic = Crawl::of(&*url).into_directory(&pages).with("--timeout 2m").command();
    for (number, crawl) in [stuck(&web), classic].into_iter().enumerate() {
        let Some(mut command) = on_small_disk(&small) else { return };
        let log = directories.path().join(format!("log-{number}"));
        let port = free_port();
        command.arg(crawl.get_program()).args(crawl.get_args()).args(["--quiet", "--dashboard"]);
        command.args([&port.to_string(), "--report", &small.join("report.html").display().to_string()]);
        command.args(["--log", &log.display().to_string()]);
        let mut crawl = Running::start(command, directories.path().to_owned(), None);
        let logged = || std::fs::read_to_string(&log).unwrap_or_default();
        crawl.until("a warning", |_| logged().contains("disk nearly full"));
        let server = Server { port };
        let warning = server.status()["warnings"][0].to_string();
        assert!(warning.contains("disk nearly full: 8.") && warning.contains("report.html"), "{warning}");
        let metrics = server.get("/metrics").body;
        let free = metrics.lines().find_map(|line| line.strip_prefix("crawler_disk_free_bytes "));
        let free: f64 = free.unwrap().parse().unwrap();
        assert!((8e6..8.4e6).contains(&free), "{free}");
        // It is checked every five seconds, and the warning has a number that may change.
        let elapsed = || server.status()["elapsed"].as_f64().unwrap();
        let first = elapsed();
        until("further checks", || elapsed() > first + 11.0);
        let text = logged();
        assert_eq!(text.matches(" WARN ").count(), 1, "{text}");
        assert!(text.contains("] notice: disk nearly full: 8."), "{text}");
        crawl.signal(Signal::KILL);
        crawl.status();
    }
}

#[test]
fn classic_crawl_has_the_same_lines() {
    let web = slow_site(Duration::from_secs(3));
    let directory = tempfile::tempdir().unwrap();
    let command = Crawl::of(web.url("/"))
        .with("--concurrency 4 --timeout 2m")
        .into_directory(directory.path())
        .command();
    let mut terminal = Terminal::run(&command, 80, 24);
    terminal.until("the pages", |screen| screen.has("2 pages · ") && screen.has("4 in flight"));
    check_lines(&terminal.screen(), 80);
    assert!(terminal.screen().has("/missing: HTTP 404"), "{}", terminal.screen().text());
    terminal.resize(40, 24, true);
    terminal.until("the next lines", |screen| screen.count("4 in flight") == 1);
    terminal.press(b"\x03");
    terminal.until("the message", |screen| {
        screen.text().replace('\n', "").contains("finishing 4 requests in flight; press Ctrl-C")
    });
    let (status, screen) = terminal.wait();
    assert_eq!(status, Some(130));
    assert_eq!(screen.count(" pending") + screen.count("Fetched"), 0, "{}", screen.text());
    assert!(screen.has("Not reached       36"), "{}", screen.text());
}

#[test]
fn status_is_watched_until_the_crawl_ends() {
    let (web, place) = (slow_web(Duration::from_secs(60)), StateDir::new());
    let options = "--workers 2 --concurrency 2 --timeout 2m --similarity 0";
    let mut crawl = place.crawl(web.url("/")).with(options).start();
    crawl.until("requests in flight", |_| web.hits() >= 6);
    let watch = |options: &[&str]| {
        let mut command = binary();
        command.args(["status", "--watch", &place.state()]).args(options);
        command
    };
    let mut terminal = Terminal::run(&watch(&[]), 80, 24);
    let mut interrupted = Terminal::run(&watch(&[]), 40, 24);
    let running = |options: &[&str]| Running::start(watch(options), PathBuf::from("/nowhere"), None);
    let (mut lines, mut objects) = (running(&[]), running(&["--json"]));
    for (terminal, columns) in [(&mut terminal, 80), (&mut interrupted, 40)] {
        terminal.until("the pages", |screen| screen.has(" of 10,000 pages") && screen.has(" pending"));
        assert!(columns == 40 || terminal.screen().count("': running") == 1, "{}", terminal.screen().text());
        assert!(terminal.screen().live_lines().iter().all(|line| line.chars().count() <= columns));
    }
    lines.until_output("in flight");
    objects.until_output("\"running\"");
    interrupted.press(b"\x03");
    let (status, screen) = interrupted.wait();
    assert_eq!((status, screen.text().replace("^C", "").trim()), (Some(130), ""));

    for _ in 0..2 {
        crawl.signal(Signal::INT);
        crawl.until_message("press Ctrl-C again to stop now");
    }
    crawl.wait().expect(130);
    let (status, screen) = terminal.wait();
    assert_eq!(status, Some(0), "{}", screen.text());
    assert_eq!((screen.count("': running"), screen.count("': stopped")), (0, 1), "{}", screen.text());
    assert!(
        screen.has("Failed             1") && screen.has("To resume: crawler resume"),
        "{}",
        screen.text()
    );
    let lines = lines.wait().expect(0).stdout;
    assert!(lines.lines().next().unwrap().contains(" of 10,000 pages · "), "{lines}");
    assert!(lines.contains("': stopped\nPages   "), "{lines}");
    let objects = crate::pipeline::objects(&objects.wait().expect(0).stdout);
    assert_eq!(
        (&objects[0]["state"], &objects.last().unwrap()["state"]),
        (&"running".into(), &"stopped".into())
    );

    // There is nothing to watch any more.
    let state = place.state();
    let again = run(&["status", &state, "--watch", "500ms"]).expect(0).stdout;
    assert_eq!(again, run(&["status", &state]).expect(0).stdout);
    let message = run(&["status", &state, "--watch", "soon"]).expect(2).stderr;
    assert!(message.contains("--watch 'soon' is invalid: must be a time"), "{message}");
    assert!(run(&["status", "--watch", "no-such-state"]).expect(2).stderr.contains("no-such-state"));
}
