//! A running program and the pipe to its standard input. Only this file knows processes and pipes.

use std::env;
use std::io::{self, ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{ioctl_fionbio, ioctl_fionread};
use rustix::process::{Pid, Signal, kill_process_group};

/// What the names of the crawler's variables start with.
const VARIABLES: &[u8] = b"CRAWLER_";

/// The first pause between two checks of the pipe: about the time that a quick program needs for a page.
const FIRST_PAUSE: Duration = Duration::from_micros(50);

/// The longest pause between two checks. Long enough to cost nothing; a program that takes longer for a page finds the
/// next page in the pipe.
const MAX_PAUSE: Duration = Duration::from_millis(2);

/// How long a program that has closed its input may take to exit by itself, so that its exit status is its own.
const REAP_TIMEOUT: Duration = Duration::from_secs(1);

/// Why a line could not be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FeedError {
    /// The program closed its input or exited.
    Exited,
    /// The deadline has passed.
    DeadlinePassed,
}

/// Called while waiting, with whether the program has read something since the last call. Returns whether to keep
/// waiting.
pub(super) type OnProgress<'w> = &'w mut dyn FnMut(bool) -> bool;

/// A running program. A drop kills it.
#[derive(Debug)]
pub(super) struct ChildProcess {
    child: Child,
    /// Non-blocking; `None` once closed.
    input: Option<ChildStdin>,
    /// The last line was written completely.
    line_complete: bool,
}

impl ChildProcess {
    /// Starts a command under `sh`, in its own process group: Ctrl-C goes to the crawl only, which closes the program's
    /// input. The program does not get the variables of the crawler, which may contain passwords.
    pub(super) fn start(command: &str) -> io::Result<ChildProcess> {
        let mut sh = Command::new("sh");
        for (name, _) in env::vars_os().filter(|(name, _)| name.as_bytes().starts_with(VARIABLES)) {
            sh.env_remove(name);
        }
        let mut child = sh.args(["-c", command]).stdin(Stdio::piped()).process_group(0).spawn()?;
        let input = child.stdin.take();
        let program = ChildProcess { child, input, line_complete: true };
        if let Some(input) = &program.input {
            ioctl_fionbio(input, true)?;
        }
        Ok(program)
    }

    /// Writes one line as fast as the program reads it.
    pub(super) fn write(&mut self, line: &[u8], on_progress: OnProgress) -> Result<(), FeedError> {
        self.line_complete = false;
        let mut rest = line;
        while let (Some(input), false) = (&mut self.input, rest.is_empty()) {
            match input.write(rest) {
                Ok(0) => return Err(FeedError::Exited),
                Ok(written) => {
                    rest = &rest[written..];
                    on_progress(true);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    wait(input, PollFlags::OUT, MAX_PAUSE);
                    if !on_progress(false) {
                        return Err(FeedError::DeadlinePassed);
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(FeedError::Exited),
            }
        }
        self.line_complete = true;
        Ok(())
    }

    /// Waits until the program has read everything written.
    pub(super) fn wait_until_read(&self, on_progress: OnProgress) -> Result<(), FeedError> {
        let Some(input) = &self.input else { return Ok(()) };
        let (mut pause, mut before) = (FIRST_PAUSE, u64::MAX);
        loop {
            let unread = ioctl_fionread(input).map_err(|_| FeedError::Exited)?;
            if unread == 0 {
                on_progress(true);
                return Ok(());
            }
            if !on_progress(unread < before) {
                return Err(FeedError::DeadlinePassed);
            }
            if wait(input, PollFlags::empty(), pause).contains(PollFlags::ERR) {
                return Err(FeedError::Exited);
            }
            (pause, before) = ((pause * 2).min(MAX_PAUSE), unread);
        }
    }

    /// Waits, and fails if the program closes its input meanwhile.
    pub(super) fn stays_alive_for(&self, time: Duration) -> Result<(), FeedError> {
        match &self.input {
            Some(input) if wait(input, PollFlags::empty(), time).contains(PollFlags::ERR) => {
                Err(FeedError::Exited)
            }
            _ => Ok(()),
        }
    }

    /// Whether the program has read everything written. Works after it has exited too.
    pub(super) fn has_read_all(&self) -> bool {
        self.line_complete
            && self.input.as_ref().is_some_and(|input| ioctl_fionread(input).is_ok_and(|unread| unread == 0))
    }

    /// Waits for a program that has closed its input, and kills it if it does not exit.
    pub(super) fn reap(mut self) -> io::Result<ExitStatus> {
        match self.wait(Instant::now() + REAP_TIMEOUT)? {
            Some(status) => Ok(status),
            None => self.kill(),
        }
    }

    /// Closes the input and waits until the program exits. `None` if it had to be killed.
    pub(super) fn close_and_wait(mut self, deadline: Instant) -> io::Result<Option<ExitStatus>> {
        self.input = None;
        let status = self.wait(deadline)?;
        if status.is_none() {
            self.kill()?;
        }
        Ok(status)
    }

    fn wait(&mut self, deadline: Instant) -> io::Result<Option<ExitStatus>> {
        let mut pause = FIRST_PAUSE;
        loop {
            let status = self.child.try_wait()?;
            if status.is_some() || Instant::now() >= deadline {
                return Ok(status);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }

    /// Kills the program and the processes it started.
    fn kill(&mut self) -> io::Result<ExitStatus> {
        // The child has not been waited for, so its process id is still its own.
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        self.child.wait()
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = self.kill();
        }
    }
}

/// Waits for events on a pipe, at most this long. The loss of the reader is always reported.
fn wait(input: &ChildStdin, events: PollFlags, time: Duration) -> PollFlags {
    let mut pipes = [PollFd::new(input, events)];
    let time = Timespec::try_from(time).unwrap_or_default();
    // An interrupted wait returns early; the callers check again anyway.
    let _ = poll(&mut pipes, Some(&time));
    pipes[0].revents()
}
