//! Crawls killed at any moment and resumed: nothing is lost, nothing is there twice, and no host is asked too soon, by the
//! state, the output files and the server's own log.
//!
//! `make soak` has many more kills: CRAWLER_KILLS says how many, CRAWLER_SEED which.

mod checks;
mod depths;
mod faults;
mod process;
mod world;

use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use self::process::Orders;
use self::world::World;

/// The life of one process.
#[derive(Debug, Clone, Copy)]
pub struct Life {
    /// When it was started.
    pub started: Instant,
    /// `None` for one that came to its own end.
    pub killed: Option<Instant>,
}

/// When a process is killed.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// So long after its start.
    After(Duration),
    /// So long after the page of this number has been written.
    Written(usize, Duration),
}

/// The same for the same seed.
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

/// How many kills, and the random numbers for them.
fn kills_and_random() -> (usize, Random) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = variable("CRAWLER_SEED").unwrap_or(now % 1_000_000);
    println!("CRAWLER_SEED={seed}");
    (variable("CRAWLER_KILLS").unwrap_or(8) as usize, Random(seed))
}

/// Kills a crawl of so many pages so often, from its very first moments to its very last, then lets it come to its end.
fn crawl_and_kill(orders: &Orders, pages: usize, kills: usize, random: &mut Random) -> Vec<Life> {
    let mut lives: Vec<Life> = Vec::new();
    for kill in 0..kills {
        // The crawl as a whole is gone through, whatever single processes get done.
        let reached = (pages * kill / kills).max(1);
        let moment = match random.below(10) {
            _ if kill == 0 => Moment::After(random.milliseconds(40)),
            0..3 => Moment::After(random.milliseconds(80)),
            _ if kill + 1 == kills => Moment::Written(pages, random.milliseconds(60)),
            3..6 => Moment::Written(reached, Duration::ZERO),
            _ => Moment::Written(reached, random.milliseconds(50)),
        };
        let started = Instant::now();
        let mut process = orders.start();
        let over = wait_for(moment, &mut process, orders);
        if over {
            let (status, said) = process::ended(process);
            assert!(status.success(), "{moment:?}: {said}");
            lives.push(Life { started, killed: None });
            continue;
        }
        process.kill().unwrap();
        let (_, said) = process::ended(process);
        lives.push(Life { started, killed: Some(Instant::now()) });
        assert_eq!(said, "", "kill {kill}, {moment:?}");
    }
    let started = Instant::now();
    let (status, said) = orders.run();
    assert!(status.success(), "{said}");
    lives.push(Life { started, killed: None });
    lives
}

/// Waits for a moment; tells whether the process ended before.
fn wait_for(moment: Moment, process: &mut Child, orders: &Orders) -> bool {
    let begun = Instant::now();
    let after = match moment {
        Moment::After(time) => time,
        Moment::Written(page, time) => {
            let directory = Path::new(orders.0["state"].as_str().unwrap()).with_file_name("pages");
            while !directory.join(page.to_string()).exists() {
                if process.try_wait().unwrap().is_some() {
                    return true;
                }
                assert!(begun.elapsed() < Duration::from_secs(60), "page {page} is not written");
                std::thread::sleep(Duration::from_millis(1));
            }
            time
        }
    };
    std::thread::sleep(after);
    process.try_wait().unwrap().is_some()
}

/// The long form has more hosts, and more pages on each.
fn world_for(kills: usize, print_views: bool) -> World {
    if kills > 20 {
        World { hosts: 80, pages: 40, print_views }
    } else {
        World { hosts: 14, pages: 16, print_views }
    }
}

fn kill_and_check(print_views: bool) {
    let (kills, mut random) = kills_and_random();
    let world = world_for(kills, print_views);
    let web = world.serve();
    let directory = tempfile::tempdir().unwrap();
    let similarity = if print_views { 0.9 } else { 0.0 };
    let orders = Orders::new(&web.url_of("h0.test", "/"), directory.path()).set("similarity", similarity);
    let lives = crawl_and_kill(&orders, world.hosts * world.pages, kills, &mut random);
    let killed = lives.iter().filter(|life| life.killed.is_some()).count();
    assert!(2 * killed >= kills, "{killed} of {kills} kills came in time");
    checks::counts(directory.path(), world);
    checks::state(directory.path(), world, &web);
    checks::outputs(directory.path(), world, &web);
    checks::log(&web.log(), &lives, &orders);
    let (asked, report) = (web.hits(), std::fs::read(directory.path().join("report")).unwrap());
    let (status, said) = orders.run();
    assert!(status.success(), "{said}");
    assert_eq!(web.hits(), asked, "a finished crawl does nothing");
    let is_revisit = std::fs::read(directory.path().join("report")).unwrap();
    let text = String::from_utf8(is_revisit).unwrap();
    assert!(text.contains("Finished") && report.len().abs_diff(text.len()) < 20, "{text}");
}

#[test]
fn a_crawl_killed_at_any_moment_ends_as_if_it_had_not_been() {
    kill_and_check(false);
}

#[test]
fn a_crawl_that_drops_near_duplicates_can_be_killed_as_well() {
    kill_and_check(true);
}

#[test]
fn a_crawl_killed_in_its_first_moments_begins_again() {
    let (kills, mut random) = kills_and_random();
    let world = World { hosts: 1, pages: 3, print_views: false };
    let web = world.serve();
    for kill in 0..4 * kills {
        let directory = tempfile::tempdir().unwrap();
        let orders = Orders::new(&web.url_of("h0.test", "/"), directory.path()).set("delay", 1);
        let moment = Moment::After(random.milliseconds(40));
        let mut process = orders.start();
        wait_for(moment, &mut process, &orders);
        process.kill().unwrap();
        assert_eq!(process::ended(process).1, "", "kill {kill}, {moment:?}");
        let (status, said) = orders.run();
        assert!(status.success(), "kill {kill}, {moment:?}: {said}");
        checks::counts(directory.path(), world);
        checks::state(directory.path(), world, &web);
        checks::outputs(directory.path(), world, &web);
    }
}

#[test]
fn a_budget_is_not_exceeded_however_often_the_crawl_is_killed() {
    let (kills, mut random) = kills_and_random();
    let world = world_for(kills, false);
    let web = world.serve();
    let directory = tempfile::tempdir().unwrap();
    let pages = world.hosts * world.pages / 2;
    let orders = Orders::new(&web.url_of("h0.test", "/"), directory.path()).set("max-pages", pages);
    let lives = crawl_and_kill(&orders, pages, kills / 2, &mut random);
    let report = checks::report(directory.path());
    assert_eq!(report["pages"], pages, "{report}");
    assert_eq!(report["end"], "the budget of pages is spent");
    let lines = std::fs::read_to_string(directory.path().join("jsonl")).unwrap();
    assert_eq!(lines.lines().count(), pages);
    checks::log(&web.log(), &lives, &orders);
    // Raised, it goes on to the end.
    let (status, said) = orders.set("max-pages", 1_000_000).run();
    assert!(status.success(), "{said}");
    checks::counts(directory.path(), world);
    checks::state(directory.path(), world, &web);
    checks::outputs(directory.path(), world, &web);
}
