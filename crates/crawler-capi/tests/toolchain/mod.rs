//! Compiles C against the libraries that belong to this test run, and runs what comes out.
#![allow(dead_code, reason = "each test uses what it needs of this")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{env, fs};
use tempfile::TempDir;

/// Longer than any program takes, on a busy machine and under valgrind too: who takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(180);

/// What the static library needs of the system, as the pkg-config file says too.
pub(crate) const SYSTEM_LIBRARIES: [&str; 3] = ["-lpthread", "-lm", "-ldl"];

/// How a program is bound to the library.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Linkage {
    Shared,
    Static,
}

pub(crate) fn crate_directory() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where cargo put `libcrawl.so` and `libcrawl.a`: all forms of the library are made by one run of the
/// compiler, beside the tests that depend on it.
pub(crate) fn library_directory() -> PathBuf {
    let test = env::current_exe().expect("the test knows where it is");
    let directory = test.parent().expect("a file is in a directory").to_owned();
    for name in ["libcrawl.so", "libcrawl.a"] {
        assert!(directory.join(name).exists(), "no {name} in {}", directory.display());
    }
    directory
}

/// Cargo as this test run was started with.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(crate_directory());
    cargo
}

/// The system's C compiler, strict, with the header in sight.
pub(crate) fn compiler() -> Command {
    let mut compiler = Command::new(env::var_os("CC").unwrap_or_else(|| "cc".into()));
    compiler.args(["-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror"]);
    compiler.arg("-I").arg(crate_directory().join("include"));
    compiler
}

/// A C program, compiled, in a directory of its own that lives as long as this.
pub(crate) struct Program {
    directory: TempDir,
}

impl Program {
    pub(crate) fn compile(source: &Path, linkage: Linkage) -> Program {
        let directory = TempDir::new().expect("a place for the program");
        let libraries = library_directory();
        let mut compiler = compiler();
        compiler.arg(source).arg("-o").arg(directory.path().join("program"));
        match linkage {
            Linkage::Shared => compiler.arg("-L").arg(&libraries).args(["-lcrawl", "-lpthread", "-ldl"]),
            Linkage::Static => compiler.arg(libraries.join("libcrawl.a")).args(SYSTEM_LIBRARIES),
        };
        succeed(&mut compiler);
        Program { directory }
    }

    pub(crate) fn command(&self) -> Command {
        self.with_library(Command::new(self.path()))
    }

    /// The command that runs the program under one of valgrind's tools.
    pub(crate) fn under_valgrind(&self, options: &[&str]) -> Command {
        let mut command = Command::new("valgrind");
        // Without fair turns, a thread of valgrind's may starve the others.
        command.args(["-q", "--error-exitcode=99", "--fair-sched=yes"]).args(options).arg(self.path());
        self.with_library(command)
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("program")
    }

    /// Cargo tells its tests to look for libraries where an older one may lie.
    fn with_library(&self, mut command: Command) -> Command {
        command.env("LD_LIBRARY_PATH", library_directory());
        command
    }
}

/// Runs a command that must succeed, and gives what it printed.
pub(crate) fn succeed(command: &mut Command) -> Output {
    let output = finish(command);
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{stdout}{stderr}", output.status);
    output
}

/// Runs a command that must succeed without a word.
pub(crate) fn succeed_silently(command: &mut Command) {
    let output = succeed(command);
    assert!(output.stdout.is_empty() && output.stderr.is_empty(), "{command:?} printed: {output:?}");
}

/// Runs a command to its end, and ends it if it hangs.
fn finish(command: &mut Command) -> Output {
    let directory = TempDir::new().expect("a place for the output");
    let file = |name| fs::File::create(directory.path().join(name)).expect("a file for the output");
    command.stdin(Stdio::null()).stdout(file("out")).stderr(file("err"));
    let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    let start = Instant::now();
    let status = loop {
        match child.try_wait().expect("the state of the child") {
            Some(status) => break status,
            None if start.elapsed() < PATIENCE => sleep(Duration::from_millis(5)),
            None => {
                child.kill().expect("the child can be ended");
                child.wait().expect("the child has ended");
                panic!("{command:?} hangs");
            }
        }
    };
    let read = |name| fs::read(directory.path().join(name)).expect("the output");
    Output { status, stdout: read("out"), stderr: read("err") }
}
