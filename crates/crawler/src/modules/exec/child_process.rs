//! A program that is running, and the pipe it reads: only this file knows processes and pipes.

use std::io::{self, ErrorKind, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{ioctl_fionbio, ioctl_fionread};
use rustix::process::{Pid, Signal, kill_process_group};

/// How soon a look at the pipe is repeated, at first: about the time a quick program needs for a page.
const FIRST_PAUSE: Duration = Duration::from_micros(50);

/// How soon it is repeated when nothing happens: seldom enough to cost nothing, and no loss, since a program that
/// takes longer over a page finds the next one in the pipe.
const LONGEST_PAUSE: Duration = Duration::from_millis(2);

/// How long a program that has closed its input may take to end by itself, so that its exit status is its own.
const DYING_TIME: Duration = Duration::from_secs(1);

/// Why a program did not take what it was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FeedError {
    /// Nobody reads its input any more.
    Died,
    /// Whoever gave it did not want to wait longer.
    OutOfTime,
}

/// Asked while waiting, with whether the program has taken something since the last time; says whether to go on.
pub(super) type Watch<'w> = &'w mut dyn FnMut(bool) -> bool;

/// A running program. Dropped, it is killed.
#[derive(Debug)]
pub(super) struct ChildProcess {
    child: Child,
    /// Until it is closed. Writing to it does not block.
    input: Option<ChildStdin>,
    /// The last line was written to its end.
    whole: bool,
}

impl ChildProcess {
    /// Starts a command by `sh`, in a process group of its own: an interrupt from the keyboard is the crawl's
    /// business, which ends the program by closing its input.
    pub(super) fn start(command: &str) -> io::Result<ChildProcess> {
        let mut sh = Command::new("sh");
        let mut child = sh.args(["-c", command]).stdin(Stdio::piped()).process_group(0).spawn()?;
        let input = child.stdin.take();
        let program = ChildProcess { child, input, whole: true };
        if let Some(input) = &program.input {
            ioctl_fionbio(input, true)?;
        }
        Ok(program)
    }

    /// Writes one line, as fast as it is read.
    pub(super) fn write(&mut self, line: &[u8], watch: Watch) -> Result<(), FeedError> {
        self.whole = false;
        let mut rest = line;
        while let (Some(input), false) = (&mut self.input, rest.is_empty()) {
            match input.write(rest) {
                Ok(0) => return Err(FeedError::Died),
                Ok(written) => {
                    rest = &rest[written..];
                    watch(true);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    wait(input, PollFlags::OUT, LONGEST_PAUSE);
                    if !watch(false) {
                        return Err(FeedError::OutOfTime);
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(FeedError::Died),
            }
        }
        self.whole = true;
        Ok(())
    }

    /// Waits until everything written has been read.
    pub(super) fn wait_until_read(&self, watch: Watch) -> Result<(), FeedError> {
        let Some(input) = &self.input else { return Ok(()) };
        let (mut pause, mut before) = (FIRST_PAUSE, u64::MAX);
        loop {
            let unread = ioctl_fionread(input).map_err(|_| FeedError::Died)?;
            if unread == 0 {
                watch(true);
                return Ok(());
            }
            if !watch(unread < before) {
                return Err(FeedError::OutOfTime);
            }
            if wait(input, PollFlags::empty(), pause).contains(PollFlags::ERR) {
                return Err(FeedError::Died);
            }
            (pause, before) = ((pause * 2).min(LONGEST_PAUSE), unread);
        }
    }

    /// Waits for a while whether it dies.
    pub(super) fn outlives(&self, time: Duration) -> Result<(), FeedError> {
        match &self.input {
            Some(input) if wait(input, PollFlags::empty(), time).contains(PollFlags::ERR) => {
                Err(FeedError::Died)
            }
            _ => Ok(()),
        }
    }

    /// Whether everything given to it has been read to the end. The pipe outlives its reader, and still tells.
    pub(super) fn has_read_all(&self) -> bool {
        self.whole
            && self.input.as_ref().is_some_and(|input| ioctl_fionread(input).is_ok_and(|unread| unread == 0))
    }

    /// The end of a program that has died: how it ended.
    pub(super) fn bury(mut self) -> io::Result<ExitStatus> {
        match self.wait(Instant::now() + DYING_TIME)? {
            Some(status) => Ok(status),
            None => self.kill(),
        }
    }

    /// Closes its input and waits for its end; `None` if it had to be killed.
    pub(super) fn end(mut self, deadline: Instant) -> io::Result<Option<ExitStatus>> {
        self.input = None;
        let ended = self.wait(deadline)?;
        if ended.is_none() {
            self.kill()?;
        }
        Ok(ended)
    }

    fn wait(&mut self, deadline: Instant) -> io::Result<Option<ExitStatus>> {
        let mut pause = FIRST_PAUSE;
        loop {
            let ended = self.child.try_wait()?;
            if ended.is_some() || Instant::now() >= deadline {
                return Ok(ended);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Kills it together with what it has started.
    fn kill(&mut self) -> io::Result<ExitStatus> {
        // Not yet waited for, so the number is still its own.
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

/// Waits for something to happen to a pipe, at most so long; that nobody reads it any more always counts.
fn wait(input: &ChildStdin, what: PollFlags, time: Duration) -> PollFlags {
    let mut pipes = [PollFd::new(input, what)];
    let time = Timespec::try_from(time).unwrap_or_default();
    // An interrupted wait is a short one; whoever waits looks again anyway.
    let _ = poll(&mut pipes, Some(&time));
    pipes[0].revents()
}
