//! The output of a classic crawl.

use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use testweb::{Response, Site, Web};

use crate::common::{Crawl, Ended, binary, linking_to, names, serve};

/// A site with every kind of outcome and link.
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
        .response("/picture", Response::page("x").content_type("image/png"))
        .page("/deep", linking_to(&["/deeper"]))
}

/// The text without ports and times, which differ from run to run.
fn without_times(text: &str, web: &Web) -> String {
    let text = text.replace(&web.url(""), "http://site.test");
    text.lines()
        .map(|line| match line.starts_with("Requests ") {
            true => format!("{}   R pages/s · T s\n", &line[..20]),
            false => format!("{line}\n"),
        })
        .collect()
}

fn crawl(option: &str) -> (Web, Ended) {
    let web = serve(site());
    let ended = Crawl::of(web.url("/")).depth(2).with(option).run().expect(0);
    (web, ended)
}

#[test]
fn summary_accounts_for_every_url_and_link() {
    let (web, ended) = crawl("");
    insta::assert_snapshot!("summary", without_times(&ended.stdout, &web));
}

#[test]
fn failures_are_printed_as_they_happen() {
    let (web, ended) = crawl("");
    insta::assert_snapshot!("failures", without_times(&ended.messages(), &web));
}

#[test]
fn verbose_prints_every_event_in_order() {
    let (web, ended) = crawl("-v");
    insta::assert_snapshot!("events", without_times(&ended.stdout, &web));
    assert_eq!(ended.messages(), "");
}

#[test]
fn quiet_prints_only_errors() {
    let (_, ended) = crawl("-q");
    assert_eq!(ended.stdout, "");
    let printed: Vec<&str> = ended.stderr.lines().collect();
    assert_eq!(printed.len(), 1, "{printed:?}");
    assert!(ended.complaint("/gone").ends_with("HTTP 404"));

    let clean = serve(Site::new().page("/", linking_to(&["/a"])).page("/a", "x"));
    let ended = Crawl::of(clean.url("/")).with("--quiet").run().expect(0);
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("", ""));
}

#[test]
fn control_characters_from_servers_are_escaped() {
    // The control characters that a header can contain: a tab, and those beyond ASCII.
    let odd = Response::page("x").content_type("image/png;\t\u{9b}2J \u{202e}gnp");
    let coded = Response::page("x").header("Content-Encoding", "\u{9b}2J");
    let site = Site::new()
        .page("/", linking_to(&["/odd", "/coded"]))
        .response("/odd", odd)
        .response("/coded", coded);
    let web = serve(site);
    for option in ["", "-v", "-q"] {
        let ended = Crawl::of(web.url("/")).with(option).run().expect(0);
        let printed = format!("{}{}", ended.stdout, ended.stderr);
        let is_skipped_printed = printed.contains(r"image/png;\u{9}\u{9b}2J \u{202e}gnp");
        assert_eq!(is_skipped_printed, option != "-q", "{printed}");
        assert!(printed.contains(r"\u{9b}2j"), "{printed}");
    }
}

#[test]
fn seed_without_a_page_fails_and_names_the_reason() {
    for option in ["", "-v", "-q"] {
        let web = serve(Site::new());
        let ended = Crawl::of(web.url("/missing")).with(option).run().expect(1);
        assert!(ended.stderr.contains("crawler: cannot crawl the seed: HTTP 404"), "{}", ended.stderr);
        assert_eq!(ended.stderr.matches("HTTP 404").count(), 1, "{}", ended.stderr);
    }
}

#[test]
fn slow_crawl_prints_progress_without_a_terminal() {
    let slow = Response::page("x").delay(Duration::from_secs(6));
    let web = serve(Site::new().page("/", linking_to(&["/a"])).response("/a", slow));
    let ended = Crawl::of(web.url("/")).with("--timeout 1m").run().expect(0);
    // Printed while the crawl waited for the response.
    assert_eq!(
        ended.messages(),
        format!("Pages 1 · Pending 1 · Requests 3 · 0.2 pages/s · 20 bytes · {}\n", web.url("/a"))
    );
}

#[test]
fn terminal_shows_a_live_line() {
    let web = serve(
        Site::new()
            .page("/", linking_to(&["/a", "/missing", "/b"]))
            .status("/robots.txt", 404)
            .response("/a", Response::page("x").delay(Duration::from_millis(400)))
            .response("/b", Response::page("x").delay(Duration::from_millis(400))),
    );
    let shown = terminal_output(&web);
    // While /a is slow, the line shows its URL, and the rate decreases.
    let url = web.url("/a");
    let lines_while_waiting: HashSet<&str> = shown
        .split('\r')
        .filter(|line| line.contains("Pages 1 · Pending 3 · ") && line.contains(&url))
        .collect();
    let rates: HashSet<&str> = lines_while_waiting
        .iter()
        .filter_map(|line| line.split(" · ").find(|part| part.ends_with(" pages/s")))
        .collect();
    assert!(rates.len() > 1, "{rates:?} {shown:?}");
    assert!(shown.contains(&format!("{}: HTTP 404", web.url("/missing"))), "{shown}");
    // At the end of the line the echo would wrap, and the line could not be cleared.
    assert!(shown.contains("\r^C"), "{shown:?}");
}

/// Crawls on a terminal, types a Ctrl-C that sends no signal, and returns everything that was shown.
fn terminal_output(web: &Web) -> String {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    tcsetwinsize(&terminal, Winsize { ws_row: 24, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
    let screen = File::options().read(true).write(true).open(name).unwrap();

    let directory = tempfile::tempdir().unwrap();
    let mut command = Crawl::of(web.url("/")).into_directory(directory.path()).command();
    let mut child = command.env("TERM", "xterm").stdout(Stdio::null()).stderr(screen).spawn().unwrap();
    // The command keeps the terminal open; without it, reading ends when the child exits.
    drop(command);
    let (mut shown, mut terminal) = (Vec::new(), File::from(terminal));
    let (mut buffer, mut typed) = ([0; 4096], false);
    while let Ok(read @ 1..) = terminal.read(&mut buffer) {
        shown.extend(&buffer[..read]);
        if !typed && String::from_utf8_lossy(&shown).contains("Pages 1") {
            // After this line and long before the next one.
            std::thread::sleep(Duration::from_millis(10));
            terminal.write_all(b"\x03").unwrap();
            typed = true;
        }
    }
    assert_eq!(child.wait().unwrap().code(), Some(0));
    String::from_utf8_lossy(&shown).into_owned()
}

#[test]
fn demo_crawls_within_ten_seconds() {
    let directory = tempfile::tempdir().unwrap();
    let started = Instant::now();
    let output = binary()
        .arg("demo")
        .env("TMPDIR", directory.path())
        .env("CRAWLER_INTERNAL", "http://elsewhere.invalid/")
        .output()
        .unwrap();
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{printed}");
    assert!(printed.contains("Serving a small site at http://127.0.0.1:"), "{printed}");
    assert!(printed.contains("The Lighthouse Almanac"), "{printed}");
    let made = names(directory.path());
    assert_eq!(made.len(), 1);
    assert!(names(&directory.path().join(&made[0])).len() > 10);
}
