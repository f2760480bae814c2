//! Everything at once: random processes are killed every few hundred milliseconds and Redis is restarted. At the end no page
//! is missing or counted twice, and no host got a request too early or two at once.
//!
//! `make chaos` runs it longer: CRAWLER_HOSTS and CRAWLER_PAGES set the size of the web, CRAWLER_KILLS the number of killed
//! processes, CRAWLER_SEED the random sequence.

use std::fs;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal, kill_process};

use super::fixture::Fixture;
use super::process::Process;

/// A crawl that takes longer hangs: a basic time, and more for each kill.
const HANG_TIMEOUT: Duration = Duration::from_secs(240);
const HANG_TIMEOUT_PER_KILL: Duration = Duration::from_secs(4);

/// How many times Redis is restarted.
const RESTARTS: usize = 2;

/// A random sequence that the seed determines.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        ((mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB) >> 33) % bound
    }
}

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// The processes of a process group: a controller, its frontier and its workers.
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
#[ignore = "needs redis-server: run by make test"]
fn nothing_is_lost_or_counted_twice_whatever_is_killed() {
    let (hosts, pages) = (variable("CRAWLER_HOSTS", 40) as usize, variable("CRAWLER_PAGES", 60) as usize);
    let kills = variable("CRAWLER_KILLS", 24) as usize;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = variable("CRAWLER_SEED", now % 1_000_000);
    println!("CRAWLER_SEED={seed}");
    let mut random = Random(seed);
    let fixture = Fixture::new(hosts, pages);
    let start_controller = || Process::start(fixture.crawl(4, &["--dead-after", "3s"]));
    let (mut controllers, start) = (vec![start_controller()], Instant::now());
    let (mut killed, mut restarts) = (0, 0);
    loop {
        match controllers.last_mut().unwrap().exit_status() {
            Some(Some(0)) => break,
            // It was killed, or could not reach Redis when it started.
            Some(_) => {
                controllers.push(start_controller());
                continue;
            }
            None => {}
        }
        assert!(
            start.elapsed() < HANG_TIMEOUT + HANG_TIMEOUT_PER_KILL * kills as u32,
            "it does not end: {}",
            fixture.status()
        );
        thread::sleep(Duration::from_millis(100 + random.below(300)));
        if killed < kills {
            let all: Vec<(Pid, String)> =
                controllers.iter().flat_map(|controller| processes(controller.pid())).collect();
            let Some((victim, _)) = all.get(random.below(all.len().max(1) as u64) as usize) else { continue };
            // It may have exited by itself.
            if kill_process(*victim, Signal::KILL).is_ok() {
                killed += 1;
            }
        }
        if restarts < RESTARTS && killed >= kills * (restarts + 1) / (RESTARTS + 1) {
            restarts += 1;
            fixture.redis.kill();
            thread::sleep(Duration::from_millis(random.below(1_500)));
            fixture.redis.restart();
        }
    }
    println!("{killed} processes killed, {} controllers, {:.1?}", controllers.len(), start.elapsed());
    assert!(2 * killed >= kills, "the crawl was over after {killed} of {kills} kills");
    fixture.check();
}
