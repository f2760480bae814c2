//! The controller's children: a frontier and workers, started again when they die.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crawler::Error;
use crawler::internal::backend::WorkerId;
use crawler::internal::backend::redis::Role;
use crawler::internal::distributed::SharedCrawl;
use crawler::internal::prioritizer::pagerank;
use rustix::process::{Pid, Signal, kill_process};

use crate::EXIT_USAGE;
use crate::args::{CrawlOptions, Verbosity};
use crate::commands::crawl::display::Display;
use crate::printable::print_error;

/// The pause before a role is started again, which doubles with each start that comes to nothing.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A process that lived so long was not started in vain.
const SETTLED: Duration = Duration::from_secs(5);

/// A role that ends so often in a row as soon as it is started will not do otherwise.
const MOST_FAILURES: u32 = 5;

/// How long children may take to end when the crawl is over.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) struct Supervisor {
    crawl: String,
    redis: String,
    ca_file: Option<PathBuf>,
    verbosity: Verbosity,
    display: Arc<Display>,
    roles: BTreeMap<Role, SupervisedRole>,
}

/// A role that somebody has to have.
struct SupervisedRole {
    child: Option<Child>,
    started: Instant,
    /// Not before this.
    next: Instant,
    pause: Duration,
    /// How often in a row it was started in vain.
    failures: u32,
}

impl Supervisor {
    pub(super) fn new(sharing: &SharedCrawl, options: &CrawlOptions, display: Arc<Display>) -> Supervisor {
        let now = Instant::now();
        let workers = (0..options.workers()).map(|id| Role::Worker(WorkerId(id as u16)));
        let roles = std::iter::once(Role::Frontier).chain(workers);
        let post =
            || SupervisedRole { child: None, started: now, next: now, pause: FIRST_PAUSE, failures: 0 };
        Supervisor {
            crawl: sharing.redis.crawl.clone(),
            redis: sharing.redis.address.with_secrets(),
            ca_file: options.fetch.ca_file.clone(),
            verbosity: options.fetch.verbosity(),
            display,
            roles: roles.map(|role| (role, post())).collect(),
        }
    }

    /// Starts whoever is missing, and has not been taken by a process of somebody else's.
    pub(super) fn look_after(
        &mut self,
        is_under_way: bool,
        is_there: impl Fn(Role) -> bool,
    ) -> Result<(), Error> {
        let roles: Vec<Role> = self.roles.keys().copied().collect();
        for role in roles {
            if self.ended(role, is_under_way)? {
                let is_needed = is_under_way || role == Role::Frontier;
                let is_due = self.roles.get(&role).is_some_and(|post| post.next <= Instant::now());
                if is_needed && is_due && !is_there(role) {
                    let child = self.start(role)?;
                    if let Some(post) = self.roles.get_mut(&role) {
                        (post.child, post.started) = (Some(child), Instant::now());
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether nobody of ours has the role, or has it no more, which is told.
    fn ended(&mut self, role: Role, is_under_way: bool) -> Result<bool, Error> {
        let Some(post) = self.roles.get_mut(&role) else { return Ok(false) };
        let Some(child) = &mut post.child else { return Ok(true) };
        let Ok(Some(status)) = child.try_wait() else { return Ok(false) };
        post.child = None;
        if !is_under_way {
            return Ok(true);
        }
        post.pause =
            if post.started.elapsed() > SETTLED { FIRST_PAUSE } else { (2 * post.pause).min(LONGEST_PAUSE) };
        post.next = Instant::now() + post.pause;
        // What it complained of would come to the same each time.
        if status.code() == Some(EXIT_USAGE.into()) {
            return Err(Error::InvalidSetting(format!(
                "{role} cannot work with these settings; see its message above"
            )));
        }
        // One that was killed did not fail.
        let failed = post.started.elapsed() <= SETTLED && status.code().is_some();
        post.failures = if failed { post.failures + 1 } else { 0 };
        if post.failures > MOST_FAILURES {
            return Err(Error::Storage(format!(
                "{role} ended {MOST_FAILURES} times at once ({status}); see its messages above"
            )));
        }
        self.display.say(&format!("crawler: {role} ended ({status}); it is started again"));
        Ok(true)
    }

    fn start(&self, role: Role) -> Result<Child, Error> {
        let cannot = |error: io::Error| Error::InvalidSetting(format!("cannot start {role}: {error}"));
        let mut command = Command::new(env::current_exe().map_err(cannot)?);
        match role {
            Role::Frontier => command.arg("frontier"),
            Role::Worker(WorkerId(id)) => command.args(["worker", "--id", &id.to_string()]),
        };
        command.args(["--crawl", &self.crawl]);
        match self.verbosity {
            Verbosity::Quiet => command.arg("--quiet"),
            Verbosity::Normal => &mut command,
            Verbosity::Verbose => command.arg("--verbose"),
        };
        if let Some(file) = &self.ca_file {
            command.arg("--ca-file").arg(file);
        }
        // Its settings are those of the crawl, and not what the controller happens to find in its environment.
        for (name, _) in env::vars_os().filter(|(name, _)| is_setting(name)) {
            command.env_remove(name);
        }
        // There may be a password in it, and everybody sees the arguments of processes.
        command.env("CRAWLER_REDIS", &self.redis);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(cannot)?;
        if let Some(stdout) = child.stdout.take() {
            pass_on(stdout, |line| {
                let mut out = io::stdout().lock();
                // A reader who has gone away (`| head`) has seen enough.
                let _ = out.write_all(line).and_then(|()| out.flush());
            });
        }
        if let Some(stderr) = child.stderr.take() {
            let (display, is_quiet) = (Arc::clone(&self.display), self.verbosity == Verbosity::Quiet);
            pass_on(stderr, move |line| {
                let line = String::from_utf8_lossy(line);
                let line = line.trim_end().trim_start_matches("crawler: ");
                // One that is to be quiet speaks only of errors.
                match is_quiet {
                    true => print_error(&format!("{role}: {line}")),
                    false => display.say(&format!("crawler: {role}: {line}")),
                }
            });
        }
        Ok(child)
    }

    /// Asks the children to end.
    pub(super) fn dismiss(&self) {
        let pids = self.roles.values().filter_map(|post| post.child.as_ref()).map(Child::id);
        for pid in pids.filter_map(|pid| Pid::from_raw(pid.cast_signed())) {
            // It may have ended by itself.
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    /// Waits for the children to end by themselves, now that the crawl is over; asks those who take too long.
    pub(super) async fn end(mut self) {
        let begun = Instant::now();
        let mut asked = false;
        loop {
            for post in self.roles.values_mut() {
                if let Some(child) = &mut post.child
                    && let Ok(Some(_)) = child.try_wait()
                {
                    post.child = None;
                }
            }
            if self.roles.values().all(|post| post.child.is_none()) || begun.elapsed() > 2 * PATIENCE {
                return;
            }
            if begun.elapsed() > PATIENCE && !std::mem::replace(&mut asked, true) {
                self.dismiss();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Whether a variable of the environment is an option of a role, rather than a secret or where Redis is.
fn is_setting(name: &OsStr) -> bool {
    let others = ["CRAWLER_REDIS", "CRAWLER_REDIS_PASSWORD", pagerank::KEY_VARIABLE];
    name.to_str().is_some_and(|name| name.starts_with("CRAWLER_") && !others.contains(&name))
}

/// Passes on whole lines, on a thread of its own: those of several processes must not mix.
fn pass_on(from: impl Read + Send + 'static, to: impl Fn(&[u8]) + Send + 'static) {
    thread::spawn(move || {
        let mut from = BufReader::with_capacity(64 * 1024, from);
        let mut line = Vec::new();
        while let Ok(1..) = from.read_until(b'\n', &mut line) {
            to(&line);
            line.clear();
        }
    });
}
