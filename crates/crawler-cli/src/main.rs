//! The command `crawler`.

mod args;
mod commands;
mod open_files;
mod printable;
mod progress;
mod signals;
mod summary;
mod values;

use std::process::ExitCode;

use args::{Command, Invocation};
use printable::print_error;

/// The crawl ended, but something could not be written.
const EXIT_NOT_WRITTEN: u8 = 3;
/// There was no page, or the crawl could not be carried out.
const EXIT_FAILED: u8 = 1;
/// The command line is at fault; nothing was fetched or written.
const EXIT_USAGE: u8 = 2;
/// Ended by a signal, as shells count: 128 + its number.
const EXIT_INTERRUPTED: u8 = 130;
const EXIT_TERMINATED: u8 = 143;

fn main() -> ExitCode {
    let invocation = match Invocation::from_command_line() {
        Ok(invocation) => invocation,
        Err(error) => {
            print_error(&error);
            return EXIT_USAGE.into();
        }
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            print_error(&format!("cannot start: {error}"));
            return EXIT_FAILED.into();
        }
    };
    let code = match invocation.command {
        Command::ClassicCrawl(job) => runtime.block_on(commands::classic::run(*job)),
        Command::Crawl(job) if job.options.sharing.redis.is_some() => {
            runtime.block_on(commands::controller::run(*job))
        }
        Command::Crawl(job) => runtime.block_on(commands::crawl::run(*job)),
        Command::Resume(options) => runtime.block_on(commands::crawl::resume(*options)),
        Command::Show(look) => runtime.block_on(commands::inspect::show(&look)),
        Command::UrlHistory(look) => runtime.block_on(commands::inspect::why(&look)),
        Command::Collect(job) => runtime.block_on(commands::collect::run(&job)),
        Command::Role(part, options) => runtime.block_on(commands::role::run(part, *options)),
        Command::Submit(options) => runtime.block_on(commands::remote::submit(*options)),
        Command::CrawlStatus(options) => runtime.block_on(commands::remote::status(options)),
        Command::StopHandle(place) => runtime.block_on(commands::remote::stop(place)),
        Command::Purge(options) => runtime.block_on(commands::remote::purge(options)),
        Command::Demo(verbosity) => runtime.block_on(commands::demo::run(verbosity)),
        Command::SharedDemo(redis, verbosity) => {
            runtime.block_on(commands::demo::distributed::run(redis, verbosity))
        }
        Command::PipelineDemo(verbosity) => runtime.block_on(commands::demo::pipeline::run(verbosity)),
    };
    // A name look-up may still be running on a thread of its own; nobody waits for it.
    runtime.shutdown_background();
    code.into()
}
