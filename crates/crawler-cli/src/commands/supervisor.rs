//! Runs the roles of a distributed crawl as child processes: a frontier and workers, restarted when they exit early.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crawler::internal::backend::WorkerId;
use crawler::internal::backend::redis::{Member, Role};
use crawler::internal::distributed::SharedCrawl;
use crawler::internal::distributed::failure_detector::FailureDetector;
use crawler::internal::error::redis_error;
use crawler::{Error, StorageErrorKind};
use rustix::process::{Pid, Signal, kill_process};

use crate::args::{CrawlOptions, INSECURE, LoginArgs, PROXY_VARIABLE, Verbosity};
use crate::commands::cookie_file::part_file;
use crate::commands::crawl::display::Display;
use crate::commands::crawl::stdout_reader::StdoutReader;
use crate::commands::without_options;
use crate::printable::print_error;
use crate::{EXIT_PROXY, EXIT_USAGE, log, signals};

/// The pause before a role is restarted. It doubles with each restart until the role runs for [`STABLE_AFTER`].
const MIN_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// A process that has run for this long has started successfully.
const STABLE_AFTER: Duration = Duration::from_secs(5);

/// A role that fails more often than this in a row, each time right after its start, is given up.
const MAX_FAILURES: u32 = 5;

/// A worker for which the proxy fails is restarted this often. Each of them waits for the proxy before it exits.
const MAX_PROXY_RESTARTS: u32 = 2;

/// A worker that has run for this long has used the proxy: one that never could exits earlier.
const PROXY_WORKED_AFTER: Duration = Duration::from_secs(60);

/// A process that has run for this long has opened its log. Before, SIGHUP would end it.
const LOG_OPENED_AFTER: Duration = Duration::from_secs(1);

/// How long children may take to exit when the crawl has ended. Then they get SIGTERM, and the same time again.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);

/// How often exiting children are polled.
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The child processes of the controller.
pub(super) struct Supervisor {
    crawl: String,
    redis: String,
    ca_file: Option<PathBuf>,
    login: LoginArgs,
    proxy: Option<OsString>,
    connects_directly: bool,
    verbosity: Verbosity,
    display: Arc<Display>,
    reader: StdoutReader,
    roles: BTreeMap<Role, SupervisedRole>,
    failures: FailureDetector,
}

/// A role and its child process.
struct SupervisedRole {
    child: Option<Child>,
    /// The child as it was last seen among the members of the crawl.
    member: Option<Member>,
    /// How the child exited, until [`Supervisor::restart_exited`] has handled it.
    exit: Option<ExitStatus>,
    started: Instant,
    /// The earliest time of the next start.
    next_start: Instant,
    pause: Duration,
    /// Failed starts in a row.
    failures: u32,
    /// How often in a row it could not use the proxy.
    proxy_failures: u32,
    /// How often SIGHUP had been received when it was started, or passed on.
    hangups: u64,
}

impl Supervisor {
    /// A frontier and the configured number of workers; none of them is started yet.
    pub(super) fn new(
        shared: &SharedCrawl,
        options: &CrawlOptions,
        display: Arc<Display>,
        reader: StdoutReader,
    ) -> Supervisor {
        let workers = (0..options.workers()).map(|id| Role::Worker(WorkerId(id as u16)));
        let roles = std::iter::once(Role::Frontier).chain(workers);
        Supervisor {
            crawl: shared.redis.crawl.clone(),
            redis: shared.redis.address.with_secrets(),
            ca_file: options.fetch.ca_file.clone(),
            login: options.fetch.login.clone(),
            proxy: options.fetch.proxy.explicit(),
            connects_directly: options.fetch.proxy.is_direct(),
            verbosity: options.fetch.verbosity(),
            display,
            reader,
            roles: roles.map(|role| (role, SupervisedRole::new())).collect(),
            failures: FailureDetector::new(shared.dead_after),
        }
    }

    /// Notices which children have exited. Returns whether there is an exit to handle.
    ///
    /// The controller must read the crawl's phase after this and before [`restart_exited`](Self::restart_exited). A child
    /// that exits because the crawl has ended does so after the phase has changed, so the controller then sees the new phase
    /// and does not take the exit for a failure.
    pub(super) fn reap(&mut self) -> bool {
        self.roles.values_mut().for_each(SupervisedRole::reap);
        self.roles.values_mut().for_each(SupervisedRole::pass_on_hangup);
        self.roles.values().any(|supervised| supervised.exit.is_some())
    }

    /// Whether the pause before the start of a role has ended since a moment.
    pub(super) fn has_start_due_since(&self, since: Instant) -> bool {
        let due = since..=Instant::now();
        self.roles.values().any(|supervised| {
            supervised.child.is_none()
                && supervised.next_start != since
                && due.contains(&supervised.next_start)
        })
    }

    /// Kills the children that have joined the crawl and hang: their heartbeats are missing for as long as it takes to
    /// declare a member dead, also after another process has removed them from the members. An outage of Redis, after which
    /// the next call comes late, kills none. If the crawl is not running, workers may take longer to finish.
    pub(super) fn kill_hung(&mut self, is_running: bool, members: &[Member]) {
        for (role, supervised) in &mut self.roles {
            let Some(pid) = supervised.child.as_ref().map(Child::id) else { continue };
            let is_child = |member: &&Member| member.role == *role && member.process() == Some(pid);
            supervised.observe(members.iter().find(is_child), self.failures.dead_after());
            let Some(member) = &supervised.member else { continue };
            let is_needed = is_running || *role == Role::Frontier;
            if self.failures.is_dead(member) && is_needed {
                let message =
                    format!("{role} ({}) hangs: it has sent no heartbeat; killing it", member.location);
                self.display.print(&format!("crawler: {message}"));
                supervised.send(Signal::KILL);
                supervised.member = None;
            }
        }
    }

    /// Restarts the roles whose children have exited, and starts those that have none, except roles that a process of
    /// another controller runs (`is_taken`). If the crawl is not running, only the frontier is needed, and exits are normal.
    pub(super) fn restart_exited(
        &mut self,
        is_running: bool,
        is_taken: impl Fn(Role) -> bool,
    ) -> Result<(), Error> {
        let now = Instant::now();
        for (role, supervised) in &mut self.roles {
            if let Some(status) = supervised.exit.take()
                && is_running
                && let Some(message) = supervised.handle_exit(*role, status)?
            {
                self.display.print(&format!("crawler: {message}"));
            }
        }
        let is_due = |(role, supervised): (&Role, &SupervisedRole)| {
            let is_needed = is_running || *role == Role::Frontier;
            (is_needed && supervised.child.is_none() && supervised.next_start <= now && !is_taken(*role))
                .then_some(*role)
        };
        let due: Vec<Role> = self.roles.iter().filter_map(is_due).collect();
        for role in due {
            let hangups = log::hangups();
            let child = self.start(role)?;
            if let Some(supervised) = self.roles.get_mut(&role) {
                (supervised.child, supervised.started) = (Some(child), Instant::now());
                supervised.hangups = hangups;
            }
        }
        Ok(())
    }

    fn start(&self, role: Role) -> Result<Child, Error> {
        let cannot_start = |error: io::Error| Error::InvalidSetting(format!("cannot start {role}: {error}"));
        let mut command = Command::new(env::current_exe().map_err(cannot_start)?);
        match role {
            Role::Frontier => command.arg("frontier"),
            Role::Worker(WorkerId(id)) => command.args(["worker", "--id", &id.to_string()]),
        };
        command.args(["--crawl", &self.crawl]);
        match self.verbosity {
            Verbosity::Quiet => command.arg("--quiet"),
            Verbosity::Normal => &mut command,
            // The frontier has no outcomes to print.
            Verbosity::Verbose if role == Role::Frontier => &mut command,
            Verbosity::Verbose => command.arg("--verbose"),
        };
        command.args(log::child_arguments());
        if let Some(file) = &self.ca_file {
            command.arg("--ca-file").arg(file);
        }
        if self.connects_directly {
            command.arg("--no-proxy");
        }
        // The roles take their options from the crawl, not from the controller's environment.
        without_options(&mut command);
        // Other users can see the arguments of a process, and the URL may contain a password.
        command.env("CRAWLER_REDIS", &self.redis);
        if let Role::Worker(id) = role {
            command.envs(self.login.environment());
            if let Some(file) = self.login.save_cookies() {
                command.env("CRAWLER_SAVE_COOKIES", part_file(file, id));
            }
        }
        if let Some(proxy) = &self.proxy {
            command.env(PROXY_VARIABLE, proxy);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(cannot_start)?;
        if let Some(stdout) = child.stdout.take() {
            let reader = self.reader.clone();
            forward_lines(stdout, move |line| {
                let mut out = io::stdout().lock();
                reader.check(&out.write_all(line).and_then(|()| out.flush()));
            });
        }
        if let Some(stderr) = child.stderr.take() {
            let (display, is_quiet) = (Arc::clone(&self.display), self.verbosity == Verbosity::Quiet);
            forward_lines(stderr, move |line| {
                if log::is_on_stderr() {
                    let _ = io::stderr().write_all(line);
                    return;
                }
                let line = String::from_utf8_lossy(line);
                let line = line.trim_end().trim_start_matches("crawler: ");
                // Ctrl-C reaches all processes of the terminal. The controller prints this for all of them, and the warning.
                if signals::is_stopping(line) || line == INSECURE {
                    return;
                }
                // With --quiet a role prints errors only.
                match is_quiet {
                    true => print_error(&format!("{role}: {line}")),
                    false => display.print_logged(&format!("crawler: {role}: {line}")),
                }
            });
        }
        Ok(child)
    }

    /// Sends SIGTERM to the children.
    pub(super) fn terminate(&self) {
        self.roles.values().for_each(|supervised| supervised.send(Signal::TERM));
    }

    /// Waits for the children to exit now that the crawl has ended, and terminates those that take too long.
    pub(super) async fn wait_for_exit(mut self) {
        let started = Instant::now();
        let mut is_terminated = false;
        loop {
            self.reap();
            let have_exited = self.roles.values().all(|supervised| supervised.child.is_none());
            if have_exited || started.elapsed() > 2 * EXIT_TIMEOUT {
                return;
            }
            if started.elapsed() > EXIT_TIMEOUT && !std::mem::replace(&mut is_terminated, true) {
                self.terminate();
            }
            tokio::time::sleep(EXIT_POLL_INTERVAL).await;
        }
    }
}

impl SupervisedRole {
    fn new() -> SupervisedRole {
        let now = Instant::now();
        SupervisedRole {
            child: None,
            member: None,
            exit: None,
            started: now,
            next_start: now,
            pause: MIN_PAUSE,
            failures: 0,
            proxy_failures: 0,
            hangups: 0,
        }
    }

    /// Notes how the child is listed among the members. One that is not listed any more has left, and may wait for a role, unless its
    /// heartbeats were missing before: then another process has declared it dead.
    fn observe(&mut self, member: Option<&Member>, dead_after: Duration) {
        match (member, &self.member) {
            (Some(member), _) => self.member = Some(member.clone()),
            (None, Some(last)) if !last.is_dead && last.since_heartbeat < dead_after / 2 => {
                self.member = None;
            }
            (None, _) => {}
        }
    }

    fn send(&self, signal: Signal) {
        if let Some(pid) = self.child.as_ref().and_then(|child| Pid::from_raw(child.id().cast_signed())) {
            // The child may have exited.
            let _ = kill_process(pid, signal);
        }
    }

    /// Lets the child open its log again, which is that of this process.
    fn pass_on_hangup(&mut self) {
        let hangups = log::hangups();
        if self.hangups != hangups && self.started.elapsed() > LOG_OPENED_AFTER {
            self.hangups = hangups;
            self.send(Signal::HUP);
        }
    }

    fn reap(&mut self) {
        if let Some(child) = &mut self.child
            && let Ok(Some(status)) = child.try_wait()
        {
            (self.child, self.member, self.exit) = (None, None, Some(status));
        }
    }

    /// Handles the exit of the child while the crawl is running: schedules the next start, and returns what to report. An
    /// error if a restart would fail again.
    fn handle_exit(&mut self, role: Role, status: ExitStatus) -> Result<Option<String>, Error> {
        let is_stable = self.started.elapsed() > STABLE_AFTER;
        self.pause = if is_stable { MIN_PAUSE } else { (2 * self.pause).min(MAX_PAUSE) };
        self.next_start = Instant::now() + self.pause;
        if status.success() {
            // The crawl was over, and has been started again since.
            return Ok(None);
        }
        // A restart would fail for the same reason.
        if status.code() == Some(EXIT_USAGE.into()) {
            return Err(Error::InvalidSetting(format!(
                "cannot run {role} with these options; see its message above"
            )));
        }
        if status.code() == Some(EXIT_PROXY.into()) {
            let has_worked = self.started.elapsed() > PROXY_WORKED_AFTER;
            self.proxy_failures = if has_worked { 1 } else { self.proxy_failures + 1 };
            return match self.proxy_failures > MAX_PROXY_RESTARTS {
                true => Err(Error::Proxy(format!("{role} cannot use it; see its messages above"))),
                false => Ok(Some(format!("{role} cannot use the proxy; restarting it"))),
            };
        }
        // A killed process has no exit code, and did not fail by itself.
        let has_failed = !is_stable && status.code().is_some();
        self.failures = if has_failed { self.failures + 1 } else { 0 };
        if self.failures > MAX_FAILURES {
            let message = format!(
                "cannot keep {role} running: it failed {MAX_FAILURES} times right after its start ({status}); see its \
                 messages above"
            );
            return Err(redis_error(StorageErrorKind::Io, message));
        }
        Ok(Some(format!("{role} exited ({status}); restarting it")))
    }
}

/// Forwards complete lines on a thread of its own, so that the lines of several processes do not mix.
fn forward_lines(from: impl Read + Send + 'static, to: impl Fn(&[u8]) + Send + 'static) {
    thread::spawn(move || {
        let mut from = BufReader::with_capacity(64 * 1024, from);
        let mut line = Vec::new();
        while let Ok(1..) = from.read_until(b'\n', &mut line) {
            to(&line);
            line.clear();
        }
    });
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn exit_with_status_0_is_neither_reported_nor_a_failure() {
        let mut supervised = SupervisedRole::new();
        for _ in 0..2 * MAX_FAILURES {
            assert!(supervised.handle_exit(Role::Frontier, ExitStatus::from_raw(0)).unwrap().is_none());
        }
        assert_eq!(supervised.failures, 0);
    }

    #[test]
    fn child_that_left_does_not_hang_and_one_that_was_declared_dead_does() {
        let dead_after = Duration::from_secs(15);
        let member = |seconds| Member {
            role: Role::Worker(WorkerId(0)),
            token: "a".into(),
            location: String::new(),
            is_dead: false,
            last_heartbeat: 1,
            since_heartbeat: Duration::from_secs(seconds),
        };
        let observed = |last: Member| {
            let mut supervised = SupervisedRole::new();
            supervised.observe(Some(&last), dead_after);
            supervised.observe(None, dead_after);
            supervised.member
        };
        // It joins again with other settings, and waits while another process has its role.
        assert_eq!(observed(member(1)), None);
        assert_eq!(observed(member(14)), Some(member(14)));
        let dead = Member { is_dead: true, ..member(1) };
        assert_eq!(observed(dead.clone()), Some(dead));
    }

    #[test]
    fn killed_role_is_restarted_and_failing_role_is_given_up() {
        let (killed, failed) = (ExitStatus::from_raw(9), ExitStatus::from_raw(1 << 8));
        let mut supervised = SupervisedRole::new();
        for _ in 0..2 * MAX_FAILURES {
            let message = supervised.handle_exit(Role::Worker(WorkerId(1)), killed).unwrap().unwrap();
            assert!(message.starts_with("worker 1 exited (signal: 9"), "{message}");
        }
        for _ in 0..MAX_FAILURES {
            assert!(supervised.handle_exit(Role::Frontier, failed).unwrap().is_some());
        }
        assert!(supervised.handle_exit(Role::Frontier, failed).is_err());
    }

    #[test]
    fn worker_that_cannot_use_the_proxy_is_given_up_after_two_restarts() {
        let failed = ExitStatus::from_raw(i32::from(EXIT_PROXY) << 8);
        let mut supervised = SupervisedRole::new();
        for _ in 0..MAX_PROXY_RESTARTS {
            assert!(supervised.handle_exit(Role::Worker(WorkerId(0)), failed).unwrap().is_some());
        }
        let error = supervised.handle_exit(Role::Worker(WorkerId(0)), failed).unwrap_err();
        assert!(matches!(error, Error::Proxy(_)), "{error}");
    }
}
