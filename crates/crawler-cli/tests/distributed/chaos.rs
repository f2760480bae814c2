//! Everything at once: random processes are killed every few hundred milliseconds and Redis is restarted, and at the end
//! nothing is missing, nothing is counted twice, and no host was asked too soon or by two at a time.
//!
//! `make chaos` has more of it: CRAWLER_HOSTS and CRAWLER_PAGES say how large the web is, CRAWLER_KILLS how many processes
//! are killed, CRAWLER_SEED which.

use std::fs;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal, kill_process};

use super::stage::{Running, Stage};

/// How long everything may take at most, for each kill and besides.
const LONGEST: Duration = Duration::from_secs(90);
const LONGEST_PER_KILL: Duration = Duration::from_secs(4);

/// How often Redis is restarted.
const RESTARTS: usize = 2;

/// The same for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        ((mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB) >> 33) % bound
    }
}

fn variable(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(otherwise)
}

/// The processes of a group: a controller, its frontier and its workers.
fn processes(group: Pid) -> Vec<(Pid, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw)
        else {
            continue;
        };
        let Ok(status) = fs::read_to_string(entry.path().join("stat")) else { continue };
        // After the name of the program, in brackets: state, parent, group.
        let fields: Vec<&str> = status.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ').collect();
        let is_member = fields.get(2).is_some_and(|its| *its == group.as_raw_nonzero().to_string());
        if is_member && fields[0] != "Z" {
            let arguments = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            found.push((pid, String::from_utf8_lossy(&arguments).replace('\0', " ")));
        }
    }
    found
}

#[test]
#[ignore = "needs redis-server"]
fn nothing_is_lost_or_counted_twice_whatever_dies_when() {
    let (hosts, pages) = (variable("CRAWLER_HOSTS", 40) as usize, variable("CRAWLER_PAGES", 60) as usize);
    let kills = variable("CRAWLER_KILLS", 24) as usize;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = variable("CRAWLER_SEED", now % 1_000_000);
    println!("CRAWLER_SEED={seed}");
    let mut random = Random(seed);
    let stage = Stage::new(hosts, pages);
    let start = || Running::start(stage.crawl(4, &["--dead-after", "3s"]));
    let (mut controllers, begun) = (vec![start()], Instant::now());
    let (mut killed, mut restarted) = (0, 0);
    loop {
        let current = controllers.last_mut().unwrap();
        if let Some(status) = current.child.try_wait().unwrap() {
            if status.success() {
                break;
            }
            // It was killed, or found no Redis at its start.
            controllers.push(start());
            continue;
        }
        assert!(
            begun.elapsed() < LONGEST + LONGEST_PER_KILL * kills as u32,
            "it does not end: {}",
            stage.status()
        );
        thread::sleep(Duration::from_millis(100 + random.below(300)));
        if killed < kills {
            let all: Vec<(Pid, String)> =
                controllers.iter().flat_map(|controller| processes(controller.pid())).collect();
            let Some((victim, _)) = all.get(random.below(all.len().max(1) as u64) as usize) else { continue };
            // It may have ended by itself.
            if kill_process(*victim, Signal::KILL).is_ok() {
                killed += 1;
            }
        }
        if restarted < RESTARTS && killed >= kills * (restarted + 1) / (RESTARTS + 1) {
            restarted += 1;
            stage.redis.kill();
            thread::sleep(Duration::from_millis(random.below(1_500)));
            stage.redis.restart();
        }
    }
    println!("{killed} processes killed, {} controllers, {:.1?}", controllers.len(), begun.elapsed());
    assert!(2 * killed >= kills, "{killed} of {kills} kills came in time");
    stage.check();
}
