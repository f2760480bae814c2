//! `crawler index`, `crawler wacz` and `crawler show --archive`: files that are made from web archives, and pages in them.

mod at_end;
mod index;
mod replay_web_page;
mod show;
mod wacz;

use std::path::PathBuf;
use std::process::Command;

use crate::common::{Ended, Running, binary};

/// Runs the binary with arguments that are separated by spaces.
pub fn crawler(arguments: &str) -> Ended {
    let mut command = binary();
    command.args(arguments.split_whitespace());
    Running::start(command, PathBuf::from("/nowhere"), None).wait()
}

/// A program of the Python packages that `make test` installs.
pub fn python_path(program: &str) -> PathBuf {
    let interpreter = PathBuf::from(std::env::var("CRAWLER_TEST_PYTHON").expect("make test sets it"));
    interpreter.with_file_name(program)
}

/// Runs a program of the Python packages that `make test` installs, and returns what it printed.
#[track_caller]
pub fn python_program(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(python_path(program)).args(arguments).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program}: {stdout}{stderr}");
    stdout.into_owned()
}
