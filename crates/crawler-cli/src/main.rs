//! The command `crawler`: parses the command line and runs a command on an async runtime.

mod args;
mod atomic_file;
mod commands;
mod dashboard;
mod format;
mod live;
mod log;
mod open_files;
mod printable;
mod progress;
mod report;
mod seed_files;
mod signals;
mod summary;
mod values;

use std::process::ExitCode;

use args::{Command, Invocation};
use printable::print_error;

/// The crawl failed, or stored no page, or its result could not be printed.
const EXIT_FAILED: u8 = 1;
/// The command line is invalid; nothing was fetched or written.
const EXIT_USAGE: u8 = 2;
/// The crawl ran, but a page or another output could not be written.
const EXIT_NOT_WRITTEN: u8 = 3;
/// A worker left its crawl, because the proxy could not be used.
const EXIT_PROXY: u8 = 4;
/// Records of an archive were damaged, or an archive could not be read to its end.
const EXIT_DAMAGED: u8 = 5;
/// SIGINT ended the crawl: 128 + the signal's number, as in shells.
const EXIT_INTERRUPTED: u8 = 130;
/// SIGTERM ended the crawl.
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
    let entered = runtime.enter();
    if let Err(error) = log::start(invocation.log, invocation.verbosity) {
        print_error(&error);
        return EXIT_USAGE.into();
    }
    drop(entered);
    runtime.spawn(log::reopen_on_hangup());
    let code = match invocation.command {
        Command::ClassicCrawl(job) => runtime.block_on(commands::classic::run(*job)),
        Command::Crawl(job) if job.options.distributed.redis.is_some() => {
            runtime.block_on(commands::controller::run(*job))
        }
        Command::Crawl(job) => runtime.block_on(commands::crawl::run(*job)),
        Command::Diff(diff) => commands::diff::run(&diff),
        Command::Resume(options) => runtime.block_on(commands::crawl::resume(*options)),
        Command::Replay(job) => runtime.block_on(commands::replay::run(*job)),
        Command::ArchiveFile(job) => runtime.block_on(commands::archives::run(&job)),
        Command::Show(query) => runtime.block_on(commands::inspect::show(&query)),
        Command::Why(query) => runtime.block_on(commands::inspect::why(&query)),
        Command::Dashboard(job) => runtime.block_on(commands::dashboard::run(*job)),
        Command::Report(job) => runtime.block_on(commands::report::run(job)),
        Command::Collect(job) => runtime.block_on(commands::collect::run(&job)),
        Command::Role(kind, options) => runtime.block_on(commands::role::run(kind, *options)),
        Command::Submit(options) => runtime.block_on(commands::remote::submit(*options)),
        Command::Status(options) => match options.directory.clone() {
            Some(directory) => runtime.block_on(commands::state_status::run(directory, &options)),
            None => runtime.block_on(commands::remote::status(options)),
        },
        Command::Health(health) => commands::health::run(&health),
        Command::Change(job) => runtime.block_on(commands::change::run(job)),
        Command::Stop(job) => runtime.block_on(commands::change::stop(job)),
        Command::Purge(options) => runtime.block_on(commands::remote::purge(options)),
        Command::Config(arguments) => commands::config::run(arguments),
        Command::Completions(shell) => commands::completions::run(shell),
        Command::Man(directory) => commands::manual::run(&directory),
        Command::Demo(verbosity) => runtime.block_on(commands::demo::run(verbosity)),
        Command::DistributedDemo(redis, verbosity) => {
            runtime.block_on(commands::demo::distributed::run(redis, verbosity))
        }
        Command::PipelineDemo(verbosity) => runtime.block_on(commands::demo::pipeline::run(verbosity)),
    };
    // A DNS lookup may still be running on a blocking thread; do not wait for it.
    runtime.shutdown_background();
    log::flush();
    code.into()
}
