//! A process of the binary, with its children and all that they print.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// No crawl here takes this long, not even on a busy machine: one that does hangs.
pub const HANG_TIMEOUT: Duration = Duration::from_secs(300);

/// How often a cheap condition is checked.
pub const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A process and all its children, which are killed when this is dropped.
pub struct Process {
    child: Child,
    stdout: Reader,
    stderr: Reader,
}

/// Reads a stream until it ends.
struct Reader {
    thread: Option<thread::JoinHandle<()>>,
    bytes: Arc<Mutex<Vec<u8>>>,
}

impl Reader {
    fn start(mut stream: impl Read + Send + 'static) -> Reader {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&bytes);
        let thread = thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = stream.read(&mut buffer) {
                into.lock().unwrap_or_else(PoisonError::into_inner).extend(&buffer[..read]);
            }
        });
        Reader { thread: Some(thread), bytes }
    }

    /// What has been read so far.
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Process {
    pub fn start(mut command: Command) -> Process {
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().unwrap();
        let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        Process { child, stdout: Reader::start(stdout), stderr: Reader::start(stderr) }
    }

    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed()).unwrap()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Its exit status, if it has exited; `Some(None)` if a signal killed it.
    pub fn exit_status(&mut self) -> Option<Option<i32>> {
        self.child.try_wait().unwrap().map(|status| status.code())
    }

    pub fn is_running(&mut self) -> bool {
        self.exit_status().is_none()
    }

    /// What it and its children have printed so far: stdout, then stderr.
    pub fn output(&self) -> String {
        self.stdout.text() + &self.stderr.text()
    }

    /// Waits until its output satisfies a condition; fails if it exits before.
    pub fn wait_for_output(&mut self, what: &str, is_there: impl Fn(&str) -> bool) {
        let start = Instant::now();
        loop {
            // In this order: what it printed before it exited counts.
            let is_running = self.is_running();
            let output = self.output();
            if is_there(&output) {
                return;
            }
            assert!(is_running, "it exited before {what}: {output}");
            assert!(start.elapsed() < HANG_TIMEOUT, "waited in vain for {what}: {output}");
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Waits until it exits. Returns its exit status, which is none if a signal killed it, and its output.
    pub fn wait(mut self) -> (Option<i32>, String) {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.exit_status() {
                break status;
            }
            if start.elapsed() > HANG_TIMEOUT {
                let _ = kill_process_group(self.pid(), Signal::KILL);
                self.join_readers();
                panic!("it does not exit: {}", self.output());
            }
            thread::sleep(POLL_INTERVAL);
        };
        // The children of a process that was killed live on, and hold its streams open.
        let _ = kill_process_group(self.pid(), Signal::KILL);
        self.join_readers();
        let output = self.output();
        assert!(!output.contains("panicked"), "{output}");
        (status, output)
    }

    /// Waits until it exits with success. Returns its output.
    pub fn wait_for_success(self) -> String {
        let (status, output) = self.wait();
        assert_eq!(status, Some(0), "{output}");
        output
    }

    fn join_readers(&mut self) {
        self.stdout.join();
        self.stderr.join();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = kill_process_group(self.pid(), Signal::KILL);
        let _ = self.child.wait();
    }
}

/// Runs a command until it exits.
pub fn run(mut command: Command) -> Output {
    command.output().unwrap()
}

pub fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// Waits until a condition is true.
pub fn wait_for(what: &str, is_true: impl FnMut() -> bool) {
    poll(what, POLL_INTERVAL, is_true);
}

/// Waits until a condition is true that is checked this often.
pub fn poll(what: &str, interval: Duration, mut is_true: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_true() {
        assert!(start.elapsed() < HANG_TIMEOUT, "waited in vain for {what}");
        thread::sleep(interval);
    }
}
