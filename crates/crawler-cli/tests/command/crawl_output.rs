//! What the user sees of a crawl of many hosts, and what programs read of it.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::Duration;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::Value;
use testweb::{Answer, Site, Web};

use crate::common::{counts, linking_to, names, serve};
use crate::pipeline::{Pipeline, adds_up, objects};

/// A site with something of everything.
fn site() -> Site {
    Site::new()
        .robots("User-agent: *\nDisallow: /private")
        .page(
            "/",
            linking_to(&[
                "/a",
                "/gone",
                "/private",
                "/twin",
                "http://me@elsewhere.invalid/",
                "mailto:me@a.test",
            ]),
        )
        .page("/a", linking_to(&["/", "/moved", "/picture", "/deep"]))
        .page("/twin", linking_to(&["/", "/moved", "/picture", "/deep"]))
        .redirect("/moved", "/notes")
        .text("/notes", "no links")
        .answer("/picture", Answer::page("x").content_type("image/png"))
        .page("/deep", "deep")
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

#[test]
fn the_summary_tells_what_became_of_every_url_and_link() {
    let web = serve(site());
    let ended = Pipeline::bare(web.url("/")).with("--module words=2 --workers 1").run().expect(0);
    // The target of a redirect counts as a link: so all that was admitted was a seed or new.
    let expected = "\
URLs admitted                             9
  kept                                    4
  HTTP error status                       1
  disallowed by robots.txt                1
  duplicate                               1
  neither HTML nor text                   1
  redirected                              1
links found                              11
  new                                     8
  known already                           1
  neither http nor https                  1
  with credentials                        1
";
    let told = settled(&ended.stdout, &web);
    assert!(told.starts_with(expected), "{told}");
    assert!(told.ends_with(" in T s, R pages/s\n"), "{told}");
    assert!(told.contains("\nended because nothing was left to do\n"), "{told}");
    assert_eq!(ended.stderr, "", "single failures are not told by themselves");
}

#[test]
fn verbose_tells_how_each_url_ended() {
    let web = serve(site());
    let ended = Pipeline::bare(web.url("/")).with("--workers 1 -v").run().expect(0);
    let told = settled(&ended.stdout, &web);
    for line in [
        "      Kept: http://site.test/a",
        "Redirected: http://site.test/moved to http://site.test/notes",
        "    Failed: http://site.test/gone (HTTP status 404)",
        "    Failed: http://site.test/picture (neither HTML nor text: image/png)",
        "   Dropped: http://site.test/twin (duplicate of http://site.test/a)",
    ] {
        assert!(told.lines().any(|told| told == line), "{line}\n{told}");
    }
    let ends = told.lines().take_while(|line| !line.starts_with("URLs admitted")).count();
    assert_eq!((ends, ended.stderr.as_str()), (9, ""));
}

#[test]
fn quiet_tells_nothing() {
    let web = serve(site());
    let ended = Pipeline::bare(web.url("/")).with("--quiet").run().expect(0);
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("", ""));
}

#[test]
fn progress_for_programs_is_an_object_a_second_and_adds_up() {
    let web = Web::builder().seeded_hosts(2, 6, 12).start();
    let ended = Pipeline::of(web.url_of("h0.test", "/"))
        .with("--progress json --delay 150ms --workers 2 --max-time 2500ms")
        .run()
        .expect(0);
    let seen = objects(&ended.stderr);
    assert!((2..=4).contains(&seen.len()), "{}", ended.stderr);
    for object in &seen {
        adds_up(object);
        assert_eq!(object["workers"].as_array().unwrap().len(), 2);
        let on_loan: u64 =
            object["workers"].as_array().unwrap().iter().map(|load| load["on_loan"].as_u64().unwrap()).sum();
        assert!(on_loan <= object["outstanding"].as_u64().unwrap());
    }
    let times: Vec<f64> = seen.iter().map(|object| object["elapsed"].as_f64().unwrap()).collect();
    assert!(times.is_sorted() && times[0] > 0.9, "{times:?}");
    let (last, others) = seen.split_last().unwrap();
    assert!(others.iter().all(|object| object["end"] == Value::Null));
    assert!(others[0]["active_hosts"].as_u64().unwrap() > 0);
    assert_eq!(last["end"], "max-time");
    let names: Vec<&str> = last.as_object().unwrap().keys().map(String::as_str).collect();
    let mut expected = vec![
        "elapsed",
        "pages_per_second",
        "pages",
        "bytes",
        "admitted",
        "outstanding",
        "failed",
        "outcomes",
        "revisits",
        "links",
        "url_queue",
        "overflow",
        "priority_queues",
        "waiting",
        "workers",
        "active_hosts",
        "owned_domains",
        "known_urls",
        "stored_pages",
        "stored_bytes",
        "end",
    ];
    expected.sort();
    assert_eq!(names, expected);
    assert!(ended.stdout.contains("URLs admitted"), "{}", ended.stdout);
}

#[test]
fn the_summary_file_says_the_same_as_the_summary_and_replaces_an_older_one() {
    let web = serve(site());
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("summary.json");
    fs::write(&file, "older").unwrap();
    let ended = Pipeline::bare(web.url("/"))
        .with("--module words --summary")
        .with_one(file.display().to_string())
        .run()
        .expect(0);
    let summary: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(adds_up(&summary)["kept"], 4);
    assert_eq!((&summary["end"], &summary["failed"]), (&"done".into(), &2.into()));
    assert_eq!(summary["module_failures"], serde_json::json!({}));
    assert!(summary["module_summaries"][0].as_str().unwrap().contains(" words, "));
    assert_eq!(names(directory.path()), ["summary.json"], "nothing else is left there");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o666 & !umask());
    assert_eq!(ended.summary().admitted, summary["admitted"].as_u64().unwrap());
}

/// What a new file is not permitted.
fn umask() -> u32 {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    File::create(&file).unwrap();
    0o666 & !fs::metadata(&file).unwrap().permissions().mode()
}

#[test]
fn a_link_to_a_summary_file_stays_a_link() {
    let web = serve(site());
    let directory = tempfile::tempdir().unwrap();
    let [file, link] = ["file", "link"].map(|name| directory.path().join(name));
    fs::write(&file, "").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    Pipeline::bare(web.url("/")).with("--summary").with_one(link.display().to_string()).run().expect(0);
    assert!(fs::read_link(&link).is_ok());
    adds_up(&serde_json::from_slice(&fs::read(&file).unwrap()).unwrap());
}

#[test]
fn what_a_server_says_is_shown_and_not_sent_to_the_terminal() {
    let odd = Answer::page("x").content_type("image/png;\t\u{9b}2J \u{202e}gnp");
    let title = "<title>\u{1b}]0;mine\u{7}</title>\u{1b}[2Jw\u{202e}ord \u{9b}1m";
    let site = Site::new().page("/", linking_to(&["/odd"]) + title).answer("/odd", odd);
    let web = serve(site);
    // `common` looks for control characters in all that was printed.
    for options in
        ["", "-v", "-q", "--progress json", "--module words", "--module jsonl=-", "-v --module edges=-"]
    {
        let ended = Pipeline::of(web.url("/")).with(options).run().expect(0);
        let told = format!("{}{}", ended.stdout, ended.stderr);
        assert_eq!(options.contains("-v"), told.contains(r"image/png;\u{9}\u{9b}2J \u{202e}gnp"), "{told}");
    }
    let ended = Pipeline::of(web.url("/odd")).run().expect(1);
    assert!(ended.stderr.contains(r"image/png;\u{9}\u{9b}2J"), "{}", ended.stderr);
}

#[test]
fn what_takes_long_tells_how_far_it_is_also_without_a_terminal() {
    let slow = Answer::page("x").after(Duration::from_secs(6));
    let web = serve(Site::new().page("/", linking_to(&["/a", "/gone"])).answer("/a", slow));
    let ended = Pipeline::of(web.url("/")).with("--timeout 1m --workers 1").run().expect(0);
    let told = &ended.stderr;
    assert_eq!(told.lines().count(), 1, "{told}");
    assert!(told.starts_with("1 kept, 0.2 pages/s, "), "{told}");
    assert!(
        told.contains(" outstanding; URL queue 0+0, priority queues 0, waiting per domain 0; "),
        "{told}"
    );
    assert!(told.contains("active hosts 1, workers 0+"), "{told}");
    assert_eq!(ended.outcomes(), counts(&[("kept", 2), ("HTTP error status", 1)]));
}

#[test]
fn a_terminal_shows_live_lines() {
    let slow = Answer::page("x").after(Duration::from_millis(2300));
    let web = serve(Site::new().page("/", linking_to(&["/gone", "/a"])).answer("/a", slow));
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    tcsetwinsize(&terminal, Winsize { ws_row: 24, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
    let screen = File::options().read(true).write(true).open(name).unwrap();
    let mut command = Pipeline::of(web.url("/")).with("--workers 1").command();
    let mut child = command.env("TERM", "xterm").stdout(Stdio::null()).stderr(screen).spawn().unwrap();
    // The command holds the terminal open too; without it, reading ends with the child.
    drop(command);
    let (mut shown, mut terminal) = (Vec::new(), File::from(terminal));
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = terminal.read(&mut buffer) {
        shown.extend(&buffer[..read]);
    }
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let shown = String::from_utf8_lossy(&shown);
    for part in
        ["1 kept, ", "URL queue 0+0, ", "active hosts 1, workers 0+1", "failed 1: 1 HTTP error status"]
    {
        assert!(shown.contains(part), "{part}: {shown:?}");
    }
    assert!(shown.ends_with("\r\u{1b}[2K"), "the lines are removed at the end: {shown:?}");
}
