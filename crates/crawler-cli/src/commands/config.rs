//! Prints the options in force: `crawler config`.

use crate::args::ConfigArgs;
use crate::printable::{print_error, print_stdout};
use crate::{EXIT_FAILED, EXIT_USAGE};

/// Prints the report and returns the exit status.
pub fn run(arguments: ConfigArgs) -> u8 {
    match arguments.report() {
        Ok(text) if print_stdout(&text) => 0,
        Ok(_) => EXIT_FAILED,
        Err(error) => {
            print_error(&error);
            EXIT_USAGE
        }
    }
}
