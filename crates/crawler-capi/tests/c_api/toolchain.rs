//! Compiles C programs against the library of this test run and runs them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{env, fs};

use tempfile::TempDir;

/// The variable with the directory of a `libcrawl.so` and a `libcrawl.a` that were built alone.
pub(crate) const LIBRARY_VARIABLE: &str = "CRAWLER_CAPI_LIBRARY";

/// No program takes this long, not even under valgrind on a busy machine: one that does hangs.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(180);

/// The system libraries that the static library needs; the pkg-config file lists the same.
pub(crate) const SYSTEM_LIBRARIES: [&str; 3] = ["-lpthread", "-lm", "-ldl"];

/// How a program is linked with the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Linkage {
    Shared,
    Static,
}

pub(crate) fn crate_directory() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The directory of `libcrawl.so` and `libcrawl.a`: the one in `CRAWLER_CAPI_LIBRARY`, or the one that cargo built them
/// in for this test run, next to the test binary.
pub(crate) fn library_directory() -> PathBuf {
    let directory = built_alone().unwrap_or_else(|| {
        let test = env::current_exe().expect("the path of the test binary");
        test.parent().expect("a file has a directory").to_owned()
    });
    for name in ["libcrawl.so", "libcrawl.a"] {
        assert!(directory.join(name).exists(), "no {name} in {}", directory.display());
    }
    directory
}

/// The directory of a library that was built alone, if the test run has one.
pub(crate) fn built_alone() -> Option<PathBuf> {
    env::var_os(LIBRARY_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// The system's C compiler with all warnings as errors and the include directory of the crate.
pub(crate) fn compiler() -> Command {
    let mut compiler = Command::new(env::var_os("CC").unwrap_or_else(|| "cc".into()));
    compiler.args(["-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror"]);
    compiler.arg("-I").arg(crate_directory().join("include"));
    compiler
}

/// A compiled C program.
#[derive(Debug)]
pub(crate) struct Program {
    path: PathBuf,
}

/// Every program that this test run has compiled, or is about to.
type Compiled = Mutex<HashMap<(PathBuf, Linkage), Arc<OnceLock<Arc<Program>>>>>;

static COMPILED: LazyLock<Compiled> = LazyLock::new(Mutex::default);

impl Program {
    /// The program of a source file. Each is compiled once for all tests that run it.
    pub(crate) fn of(source: &Path, linkage: Linkage) -> Arc<Program> {
        let slot = {
            let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(compiled.entry((source.to_owned(), linkage)).or_default())
        };
        Arc::clone(slot.get_or_init(|| Arc::new(Program::compile(source, linkage))))
    }

    /// Compiles into cargo's directory for test files: it is overwritten by the next run, so nothing piles up.
    fn compile(source: &Path, linkage: Linkage) -> Program {
        let directory =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join("c_programs").join(format!("{linkage:?}"));
        fs::create_dir_all(&directory).expect("a directory for the programs");
        let path = directory.join(source.file_stem().expect("a source file has a name"));
        // Another test run may be using the previous file: replace it in one step.
        let new = path.with_extension(format!("{}.new", std::process::id()));
        let libraries = library_directory();
        let mut compiler = compiler();
        compiler.arg(source).arg("-o").arg(&new);
        match linkage {
            Linkage::Shared => compiler.arg("-L").arg(&libraries).args(["-lcrawl", "-lpthread", "-ldl"]),
            Linkage::Static => compiler.arg(libraries.join("libcrawl.a")).args(SYSTEM_LIBRARIES),
        };
        succeed(&mut compiler);
        fs::rename(&new, &path).expect("the program can be moved into place");
        Program { path }
    }

    pub(crate) fn command(&self) -> Command {
        with_library(Command::new(&self.path))
    }

    /// The command that runs the program under one of valgrind's tools.
    pub(crate) fn under_valgrind(&self, options: &[&str]) -> Command {
        let mut command = Command::new("valgrind");
        // Without fair scheduling one thread can starve the others.
        command.args(["-q", "--error-exitcode=99", "--fair-sched=yes"]).args(options).arg(&self.path);
        with_library(command)
    }
}

/// Replaces the library path that cargo sets for tests, which may lead to an older library.
fn with_library(mut command: Command) -> Command {
    command.env("LD_LIBRARY_PATH", library_directory());
    command
}

/// Runs a command, asserts that it succeeds and returns its output.
pub(crate) fn succeed(command: &mut Command) -> Output {
    let output = finish(command);
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{stdout}{stderr}", output.status);
    output
}

/// Runs a command and asserts that it succeeds and prints nothing.
pub(crate) fn succeed_silently(command: &mut Command) {
    let output = succeed(command);
    assert!(output.stdout.is_empty() && output.stderr.is_empty(), "{command:?} printed: {output:?}");
}

/// Runs a command until it exits, and kills it if it hangs.
fn finish(command: &mut Command) -> Output {
    let directory = TempDir::new().expect("a directory for the output");
    let file = |name| fs::File::create(directory.path().join(name)).expect("a file for the output");
    command.stdin(Stdio::null()).stdout(file("out")).stderr(file("err"));
    let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    let start = Instant::now();
    let status = loop {
        match child.try_wait().expect("the state of the child") {
            Some(status) => break status,
            None if start.elapsed() < PROGRAM_TIMEOUT => sleep(Duration::from_millis(5)),
            None => {
                child.kill().expect("the child can be killed");
                child.wait().expect("the child has exited");
                panic!("{command:?} hangs");
            }
        }
    };
    let read = |name| fs::read(directory.path().join(name)).expect("the output");
    Output { status, stdout: read("out"), stderr: read("err") }
}
