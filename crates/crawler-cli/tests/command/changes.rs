//! `pause`, `unpause`, `change` and `stop` of a crawl with `--state` that another process runs.

use std::fs;
use std::thread;
use std::time::Duration;

use testweb::Web;

use crate::common::{Running, run};
use crate::dashboard::{endless_site, until};
use crate::state::StateDir;

/// Many delays of the crawl: in this time, a crawl that is not paused sends requests.
const MANY_DELAYS: Duration = Duration::from_millis(500);

/// A crawl with a state and a log, after its first requests.
fn started(web: &Web, place: &StateDir) -> Running {
    let crawl =
        place.crawl(web.url("/0")).with("--delay 10ms --similarity 0 --max-pages 100000 --scope host");
    let mut running = crawl.with("--log").with_one(place.path("log").display().to_string()).start();
    running.until("some requests", |_| web.hits() >= 5);
    until("a state that answers", || run(&["status", &place.state()]).stdout.contains("running (process "));
    running
}

/// Changes the crawl, and returns what was printed.
#[track_caller]
fn change(place: &StateDir, command: &str, options: &[&str]) -> String {
    run(&[&[command, &place.state()], options].concat()).expect(0).stdout
}

#[test]
fn paused_crawl_sends_nothing_until_it_is_unpaused() {
    let (web, place) = (endless_site(), StateDir::new());
    let running = started(&web, &place);
    assert!(change(&place, "pause", &[]).starts_with("The crawl is paused; requests in flight finish."));
    assert!(change(&place, "pause", &[]).starts_with("The crawl is paused already."));
    let mut hits = 0;
    until("the end of requests in flight", || {
        let before = std::mem::replace(&mut hits, web.hits());
        thread::sleep(MANY_DELAYS);
        before == hits && web.hits() == hits
    });
    let status = run(&["status", &place.state()]).expect(0).stdout;
    assert!(status.starts_with(&format!("Crawl in '{}': paused (process ", place.state())), "{status}");
    assert!(!status.lines().nth(1).unwrap().contains("pages/s"), "{status}");
    assert_eq!(change(&place, "unpause", &["-q"]), "");
    until("requests", || web.hits() > hits + 5);

    let stopping = change(&place, "stop", &[]);
    assert!(
        stopping.starts_with("stopping the crawl in ") && stopping.contains("crawler resume "),
        "{stopping}"
    );
    running.wait().expect(0);
    let log = fs::read_to_string(place.path("log")).unwrap();
    for line in
        ["crawl changed change=\"The crawl is paused;", "crawl changed change=\"The crawl continues.\""]
    {
        assert!(log.contains(line), "{line}: {log}");
    }
    assert_eq!(change(&place, "stop", &[]), format!("no process runs the crawl in '{}'\n", place.state()));
    let paused = run(&["pause", &place.state()]).expect(1);
    assert!(
        paused.stderr.contains("cannot pause the crawl: no process runs it; to resume it: crawler resume")
    );
}

#[test]
fn crawl_is_changed_by_the_command_or_not_at_all() {
    let (web, other, place) = (endless_site(), endless_site(), StateDir::new());
    let running = started(&web, &place);
    let state = place.state();
    for (options, words) in [
        (&[][..], "nothing to change; give at least one of the options"),
        (&["--set-delay", "5m", "--block-pattern", ".*"], "cannot block the pattern: it matches every URL"),
        (&["--set-max-pages", "0"], "--set-max-pages"),
        (&["--add-seed", "http://me:sesame@a.test/"], "cannot add the seed: it has a user name"),
    ] {
        let refused = run(&[&["change", &*state], options].concat()).expect(2);
        assert!(refused.stderr.contains(words) && !refused.stderr.contains("sesame"), "{}", refused.stderr);
    }
    let hits = web.hits();
    until("requests: nothing was changed", || web.hits() > hits + 5);

    let seed = other.url("/0");
    let block = format!("127.0.0.1:{}", web.port());
    let done =
        change(&place, "change", &["--set-max-pages", "50000", "--block-host", &block, "--add-seed", &seed]);
    let lines: Vec<&str> = done.lines().collect();
    assert_eq!(lines.len(), 3, "{done}");
    // The blocked host is the only one with pending URLs, so the crawl would end if the seed were added after it.
    assert!(lines[0].contains(&seed), "{done}");
    assert!(lines[1].starts_with("The maximum number of pages is 50,000."), "{done}");
    assert!(lines[2].starts_with("No further request is sent to"), "{done}");
    until("requests to the new seed", || other.hits() > 5);
    let status = run(&["status", &state]).expect(0).stdout;
    assert!(status.contains(" of 50,000 pages"), "{status}");
    assert!(status.contains("blocked "), "{status}");
    change(&place, "change", &["--set-max-pages", "1"]);
    let ended = running.wait().expect(0);
    assert!(ended.stdout.contains("Stopped: "), "{}", ended.stdout);
}

#[test]
fn variables_of_crawls_change_no_running_crawl() {
    let place = StateDir::new();
    let mut command = crate::common::binary();
    command.args(["change", &place.state()]).env("CRAWLER_DELAY", "1h").env("CRAWLER_MAX_PAGES", "1");
    let output = command.output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("nothing to change"), "{output:?}");
}
