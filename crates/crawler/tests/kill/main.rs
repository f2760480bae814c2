//! Crawls killed at any moment and resumed: the state, the output files and the server's log show that no page is lost
//! or written twice, and that no host gets a request too early.
//!
//! `make soak` runs many more kills. CRAWLER_KILLS sets their number, CRAWLER_SEED the random numbers.

mod archive;
mod checks;
mod depths;
mod faults;
mod known_web;
mod process;

use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use self::known_web::KnownWeb;
use self::process::CrawlCommand;

/// One process of a crawl.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    /// When it was started.
    pub started: Instant,
    /// `None` if it exited by itself.
    pub killed: Option<Instant>,
}

/// When a process is killed.
#[derive(Debug, Clone, Copy)]
enum KillTime {
    /// This long after its start.
    After(Duration),
    /// This long after the page of this number was written.
    Written(usize, Duration),
}

/// A deterministic random number generator.
pub struct Random(u64);

impl Random {
    /// A number below a bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        ((mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB) >> 33) % bound
    }

    fn milliseconds(&mut self, bound: u64) -> Duration {
        Duration::from_micros(self.below(bound * 1_000))
    }
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// The number of kills, and the random numbers for them.
fn kills_and_random() -> (usize, Random) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = variable("CRAWLER_SEED").unwrap_or(now % 1_000_000);
    println!("CRAWLER_SEED={seed}");
    (variable("CRAWLER_KILLS").unwrap_or(8) as usize, Random(seed))
}

/// Kills a crawl of `pages` pages `kills` times, from its first moments to its last, then lets it finish.
fn crawl_and_kill(command: &CrawlCommand, pages: usize, kills: usize, random: &mut Random) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for kill in 0..kills {
        // Spread the kills over the whole crawl, whatever each process completes.
        let page = (pages * kill / kills).max(1);
        let kill_time = match random.below(10) {
            _ if kill == 0 => KillTime::After(random.milliseconds(40)),
            0..3 => KillTime::After(random.milliseconds(80)),
            _ if kill + 1 == kills => KillTime::Written(pages, random.milliseconds(60)),
            3..6 => KillTime::Written(page, Duration::ZERO),
            _ => KillTime::Written(page, random.milliseconds(50)),
        };
        let started = Instant::now();
        let mut process = command.start();
        let has_exited = wait_for(kill_time, &mut process, command);
        if has_exited {
            let (status, stderr) = process::wait(process);
            assert!(status.success(), "{kill_time:?}: {stderr}");
            runs.push(Run { started, killed: None });
            continue;
        }
        process.kill().unwrap();
        let (_, stderr) = process::wait(process);
        runs.push(Run { started, killed: Some(Instant::now()) });
        assert_eq!(stderr, "", "kill {kill}, {kill_time:?}");
    }
    let started = Instant::now();
    let (status, stderr) = command.run();
    assert!(status.success(), "{stderr}");
    runs.push(Run { started, killed: None });
    runs
}

/// Waits for the time of a kill. Returns whether the process exited before.
fn wait_for(kill_time: KillTime, process: &mut Child, command: &CrawlCommand) -> bool {
    let started = Instant::now();
    let after = match kill_time {
        KillTime::After(time) => time,
        KillTime::Written(page, time) => {
            let directory = Path::new(command.0["state"].as_str().unwrap()).with_file_name("pages");
            while !directory.join(page.to_string()).exists() {
                if process.try_wait().unwrap().is_some() {
                    return true;
                }
                assert!(started.elapsed() < Duration::from_secs(60), "page {page} is not written");
                std::thread::sleep(Duration::from_millis(1));
            }
            time
        }
    };
    std::thread::sleep(after);
    process.try_wait().unwrap().is_some()
}

/// Many kills get more hosts, and more pages on each.
fn known_web_for(kills: usize, print_views: bool) -> KnownWeb {
    if kills > 20 {
        KnownWeb { hosts: 80, pages: 40, print_views }
    } else {
        KnownWeb { hosts: 14, pages: 16, print_views }
    }
}

fn kill_and_check(print_views: bool) {
    let (kills, mut random) = kills_and_random();
    let known_web = known_web_for(kills, print_views);
    let web = known_web.serve();
    let directory = tempfile::tempdir().unwrap();
    let similarity = if print_views { 0.9 } else { 0.0 };
    let command =
        CrawlCommand::new(&web.url_of("h0.test", "/"), directory.path()).set("similarity", similarity);
    let runs = crawl_and_kill(&command, known_web.hosts * known_web.pages, kills, &mut random);
    let killed = runs.iter().filter(|run| run.killed.is_some()).count();
    assert!(2 * killed >= kills, "{killed} of {kills} kills hit a running process");
    checks::counts(directory.path(), known_web);
    checks::state(directory.path(), known_web, &web);
    checks::outputs(directory.path(), known_web, &web);
    checks::log(&web.log(), &runs, &command);
    let (hits, report) = (web.hits(), std::fs::read(directory.path().join("report")).unwrap());
    let (status, stderr) = command.run();
    assert!(status.success(), "{stderr}");
    assert_eq!(web.hits(), hits, "a finished crawl sends no requests");
    let second_report = std::fs::read(directory.path().join("report")).unwrap();
    let text = String::from_utf8(second_report).unwrap();
    assert!(text.contains("Finished") && report.len().abs_diff(text.len()) < 20, "{text}");
}

#[test]
fn crawl_killed_at_any_moment_has_the_same_result() {
    kill_and_check(false);
}

#[test]
fn killed_crawl_still_drops_near_duplicates() {
    kill_and_check(true);
}

#[test]
fn crawl_killed_while_it_starts_can_be_started_again() {
    let (kills, mut random) = kills_and_random();
    let known_web = KnownWeb { hosts: 1, pages: 3, print_views: false };
    let web = known_web.serve();
    for kill in 0..4 * kills {
        let directory = tempfile::tempdir().unwrap();
        let command = CrawlCommand::new(&web.url_of("h0.test", "/"), directory.path()).set("delay", 1);
        let kill_time = KillTime::After(random.milliseconds(40));
        let mut process = command.start();
        wait_for(kill_time, &mut process, &command);
        process.kill().unwrap();
        assert_eq!(process::wait(process).1, "", "kill {kill}, {kill_time:?}");
        let (status, stderr) = command.run();
        assert!(status.success(), "kill {kill}, {kill_time:?}: {stderr}");
        checks::counts(directory.path(), known_web);
        checks::state(directory.path(), known_web, &web);
        checks::outputs(directory.path(), known_web, &web);
    }
}

#[test]
fn killed_crawl_does_not_exceed_its_page_budget() {
    let (kills, mut random) = kills_and_random();
    let known_web = known_web_for(kills, false);
    let web = known_web.serve();
    let directory = tempfile::tempdir().unwrap();
    let pages = known_web.hosts * known_web.pages / 2;
    let command = CrawlCommand::new(&web.url_of("h0.test", "/"), directory.path()).set("max-pages", pages);
    let runs = crawl_and_kill(&command, pages, kills / 2, &mut random);
    let report = checks::report(directory.path());
    assert_eq!(report["pages"], pages, "{report}");
    assert_eq!(report["end"], "the limit of pages is reached");
    let lines = std::fs::read_to_string(directory.path().join("jsonl")).unwrap();
    assert_eq!(lines.lines().count(), pages);
    checks::log(&web.log(), &runs, &command);
    // With a larger budget the crawl continues to its end.
    let (status, stderr) = command.set("max-pages", 1_000_000).run();
    assert!(status.success(), "{stderr}");
    checks::counts(directory.path(), known_web);
    checks::state(directory.path(), known_web, &web);
    checks::outputs(directory.path(), known_web, &web);
}
