//! What the user sees.

use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use testweb::{Answer, Site, Web};

use crate::common::{Crawl, Ended, binary, linking_to, names, serve};

/// A site with something of everything.
fn site() -> Site {
    Site::new()
        .robots("User-agent: *\nDisallow: /private")
        .page(
            "/",
            linking_to(&["/a", "#top", "/gone", "/private", "http://elsewhere.invalid/", "mailto:me@a.test"]),
        )
        .page("/a", linking_to(&["/", "/moved", "/picture", "/deep"]))
        .redirect("/moved", "/notes")
        .text("/notes", "no links")
        .answer("/picture", Answer::page("x").content_type("image/png"))
        .page("/deep", linking_to(&["/deeper"]))
}

/// The text with what differs from run to run made equal.
fn settled(text: &str, web: &Web) -> String {
    let text = text.replace(&web.url(""), "http://site.test");
    text.lines()
        .map(|line| match line.split_once(" in ") {
            Some((bytes, rest)) if rest.ends_with("pages/s") => format!("{bytes} in T s, R pages/s\n"),
            _ => format!("{line}\n"),
        })
        .collect()
}

fn crawl(option: &str) -> (Web, Ended) {
    let web = serve(site());
    let ended = Crawl::of(web.url("/")).depth(2).with(option).run().expect(0);
    (web, ended)
}

#[test]
fn the_summary_tells_what_became_of_every_url_and_link() {
    let (web, ended) = crawl("");
    insta::assert_snapshot!("summary", settled(&ended.stdout, &web));
}

#[test]
fn failures_are_told_as_they_happen() {
    let (web, ended) = crawl("");
    insta::assert_snapshot!("failures", settled(&ended.stderr, &web));
}

#[test]
fn verbose_tells_every_event_in_order() {
    let (web, ended) = crawl("-v");
    insta::assert_snapshot!("events", settled(&ended.stdout, &web));
    assert_eq!(ended.stderr, "");
}

#[test]
fn quiet_tells_errors_only() {
    let (_, ended) = crawl("-q");
    assert_eq!(ended.stdout, "");
    let told: Vec<&str> = ended.stderr.lines().collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(ended.complaint("/gone").ends_with("HTTP status 404"));
    assert!(ended.complaint("/picture").ends_with("neither HTML nor text: image/png"));

    let clean = serve(Site::new().page("/", linking_to(&["/a"])).page("/a", "x"));
    let ended = Crawl::of(clean.url("/")).with("--quiet").run().expect(0);
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("", ""));
}

#[test]
fn what_a_server_says_is_shown_and_not_sent_to_the_terminal() {
    // The control characters that a header may hold: a tab, and those beyond ASCII.
    let odd = Answer::page("x").content_type("image/png;\t\u{9b}2J \u{202e}gnp");
    let coded = Answer::page("x").header("Content-Encoding", "\u{9b}2J");
    let site =
        Site::new().page("/", linking_to(&["/odd", "/coded"])).answer("/odd", odd).answer("/coded", coded);
    let web = serve(site);
    for option in ["", "-v", "-q"] {
        let ended = Crawl::of(web.url("/")).with(option).run().expect(0);
        let told = format!("{}{}", ended.stdout, ended.stderr);
        assert!(told.contains(r"image/png;\u{9}\u{9b}2J \u{202e}gnp"), "{told}");
        assert!(told.contains(r"\u{9b}2j"), "{told}");
    }
}

#[test]
fn a_seed_without_a_page_is_an_error_that_says_why() {
    for option in ["", "-v", "-q"] {
        let web = serve(Site::new());
        let ended = Crawl::of(web.url("/missing")).with(option).run().expect(1);
        assert!(
            ended.stderr.contains("crawler: the seed yielded no page: HTTP status 404"),
            "{}",
            ended.stderr
        );
    }
}

#[test]
fn what_takes_long_tells_how_far_it_is_also_without_a_terminal() {
    let slow = Answer::page("x").after(Duration::from_secs(6));
    let web = serve(Site::new().page("/", linking_to(&["/a"])).answer("/a", slow));
    let ended = Crawl::of(web.url("/")).with("--timeout 1m").run().expect(0);
    // Said while the answer was waited for.
    assert_eq!(ended.stderr, format!("1 saved, 1 queued, 0 failed, 0.2 pages/s, {}\n", web.url("/a")));
}

#[test]
fn a_terminal_shows_a_live_line() {
    let web = serve(
        Site::new()
            .page("/", linking_to(&["/a", "/missing", "/b"]))
            .status("/robots.txt", 404)
            .answer("/a", Answer::page("x").after(Duration::from_millis(400)))
            .answer("/b", Answer::page("x").after(Duration::from_millis(400))),
    );
    let shown = shown_on_a_terminal(&web);
    // While /a takes its time, the line says so, and the rate goes down.
    let url = web.url("/a");
    let while_it_waits: HashSet<&str> = shown
        .split('\r')
        .filter(|line| line.contains("1 saved, 3 queued, 0 failed, ") && line.contains(&url))
        .collect();
    let rates: HashSet<&str> =
        while_it_waits.iter().filter_map(|line| line.split(", ").nth(3)?.split(" ·").next()).collect();
    assert!(rates.len() > 1, "{rates:?} {shown:?}");
    assert!(shown.contains(&format!("{}: HTTP status 404", web.url("/missing"))), "{shown}");
    // At the end of the line the echo would wrap, and the line could not be cleared.
    assert!(shown.contains("\r^C"), "{shown:?}");
}

/// Crawls on a terminal, on which somebody types Ctrl-C that signals nobody, and returns all that was shown.
fn shown_on_a_terminal(web: &Web) -> String {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    tcsetwinsize(&terminal, Winsize { ws_row: 24, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
    let screen = File::options().read(true).write(true).open(name).unwrap();

    let directory = tempfile::tempdir().unwrap();
    let mut command = Crawl::of(web.url("/")).into_directory(directory.path()).command();
    let mut child = command.env("TERM", "xterm").stdout(Stdio::null()).stderr(screen).spawn().unwrap();
    // The command holds the terminal open too; without it, reading ends with the child.
    drop(command);
    let (mut shown, mut terminal) = (Vec::new(), File::from(terminal));
    let (mut buffer, mut typed) = ([0; 4096], false);
    while let Ok(read @ 1..) = terminal.read(&mut buffer) {
        shown.extend(&buffer[..read]);
        if !typed && String::from_utf8_lossy(&shown).contains("1 saved") {
            // After the line, and long before the next one.
            std::thread::sleep(Duration::from_millis(10));
            terminal.write_all(b"\x03").unwrap();
            typed = true;
        }
    }
    assert_eq!(child.wait().unwrap().code(), Some(0));
    String::from_utf8_lossy(&shown).into_owned()
}

#[test]
fn the_demonstration_shows_a_crawl_within_ten_seconds() {
    let directory = tempfile::tempdir().unwrap();
    let begun = Instant::now();
    let output = binary()
        .arg("demo")
        .env("TMPDIR", directory.path())
        .env("CRAWLER_INTERNAL", "http://elsewhere.invalid/")
        .output()
        .unwrap();
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let told = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.contains("A small site is being served at http://127.0.0.1:"), "{told}");
    assert!(told.contains("The Lighthouse Almanac"), "{told}");
    let made = names(directory.path());
    assert_eq!(made.len(), 1);
    assert!(names(&directory.path().join(&made[0])).len() > 10);
}
