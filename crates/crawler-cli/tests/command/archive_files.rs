//! `crawler index`, `crawler wacz` and `crawler show --archive`: files that are made from web archives, and pages in them.

mod at_end;
mod index;
mod replay_web_page;
mod show;
mod wacz;

use std::path::PathBuf;

use crate::common::{Ended, Running, binary};

/// Runs the binary with arguments that are separated by spaces.
pub fn crawler(arguments: &str) -> Ended {
    let mut command = binary();
    command.args(arguments.split_whitespace());
    Running::start(command, PathBuf::from("/nowhere"), None).wait()
}
