//! Compiles C programs with the libraries of this test run, and runs them.
#![allow(dead_code, reason = "each test program uses only some of these functions")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{env, fs};
use tempfile::TempDir;

/// Timeout for a program. Long enough for a busy machine and valgrind.
const RUN_TIMEOUT: Duration = Duration::from_secs(180);

/// The system libraries that the static library needs, as in the pkg-config file.
pub(crate) const SYSTEM_LIBRARIES: [&str; 3] = ["-lpthread", "-lm", "-ldl"];

/// How a program is linked with the library.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Linkage {
    Shared,
    Static,
}

pub(crate) fn crate_directory() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The directory of `libcrawl.so` and `libcrawl.a`. One run of the compiler builds all forms of the library, next to
/// the tests.
pub(crate) fn library_directory() -> PathBuf {
    let test = env::current_exe().expect("the path of the test program");
    let directory = test.parent().expect("a file is in a directory").to_owned();
    for name in ["libcrawl.so", "libcrawl.a"] {
        assert!(directory.join(name).exists(), "no {name} in {}", directory.display());
    }
    directory
}

/// The cargo of this test run.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(crate_directory());
    cargo
}

/// The system's C compiler, with strict warnings and the path of the header.
pub(crate) fn compiler() -> Command {
    let mut compiler = Command::new(env::var_os("CC").unwrap_or_else(|| "cc".into()));
    compiler.args(["-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror"]);
    compiler.arg("-I").arg(crate_directory().join("include"));
    compiler
}

/// A compiled C program in a temporary directory.
pub(crate) struct Program {
    directory: TempDir,
}

impl Program {
    pub(crate) fn compile(source: &Path, linkage: Linkage) -> Program {
        let directory = TempDir::new().expect("a temporary directory");
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
        // Without fair scheduling, one thread may starve the others under valgrind.
        command.args(["-q", "--error-exitcode=99", "--fair-sched=yes"]).args(options).arg(self.path());
        self.with_library(command)
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("program")
    }

    /// Sets the library path, because cargo's own may have an older library.
    fn with_library(&self, mut command: Command) -> Command {
        command.env("LD_LIBRARY_PATH", library_directory());
        command
    }
}

/// Runs a command that must succeed, and returns its output.
pub(crate) fn succeed(command: &mut Command) -> Output {
    let output = finish(command);
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{stdout}{stderr}", output.status);
    output
}

/// Runs a command that must succeed without output.
pub(crate) fn succeed_silently(command: &mut Command) {
    let output = succeed(command);
    assert!(output.stdout.is_empty() && output.stderr.is_empty(), "{command:?} printed: {output:?}");
}

/// Runs a command, and kills it after a timeout.
fn finish(command: &mut Command) -> Output {
    let directory = TempDir::new().expect("a temporary directory");
    let file = |name| fs::File::create(directory.path().join(name)).expect("a file for the output");
    command.stdin(Stdio::null()).stdout(file("out")).stderr(file("err"));
    let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    let start = Instant::now();
    let status = loop {
        match child.try_wait().expect("the state of the child") {
            Some(status) => break status,
            None if start.elapsed() < RUN_TIMEOUT => sleep(Duration::from_millis(5)),
            None => {
                child.kill().expect("the child can be killed");
                child.wait().expect("the child has exited");
                panic!("{command:?} did not exit within {RUN_TIMEOUT:?}");
            }
        }
    };
    let read = |name| fs::read(directory.path().join(name)).expect("the output");
    Output { status, stdout: read("out"), stderr: read("err") }
}
