//! The command line: parses the arguments (`Cli`), checks them, and returns what to run (`Invocation`).

mod classic;
mod collect;
mod crawl;
mod distributed;
mod errors;
mod fetch;
mod help;
mod login;
mod merge;
mod resume;
mod url_query;

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use crawler::internal::backend::WorkerId;

pub use self::classic::ClassicJob;
pub use self::collect::{CollectJob, CollectOutput};
pub use self::crawl::{CrawlJob, CrawlOptions, ProgressForm, output_path};
pub use self::distributed::{PurgeOptions, RedisArgs, RoleKind, RoleOptions, StatusOptions, WorkerOptions};
pub use self::login::LoginArgs;
pub use self::resume::ResumeOptions;
pub use self::url_query::{CrawlSource, UrlQuery};

use self::classic::ClassicArgs;
use self::collect::CollectArgs;
use self::errors::{Explainer, UsageError};
use self::fetch::FetchArgs;
use self::url_query::UrlQueryArgs;
use crate::EXIT_FAILED;
use crate::printable::is_printed;

/// The command whose unknown options are explained in their own way.
const RESUME: &str = "resume";

/// Save a site as numbered files, or run one of the commands below
#[derive(Parser)]
#[command(name = "crawler", version, after_help = help::AFTER_HELP)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(override_usage = help::USAGE)]
struct Cli {
    #[command(subcommand)]
    command: Option<CliCommand>,
    #[command(flatten)]
    classic: ClassicArgs,
}

#[derive(Subcommand)]
enum CliCommand {
    /// Crawl many hosts and process each page with modules
    #[command(after_help = help::AFTER_CRAWL_HELP)]
    Crawl(Box<CrawlOptions>),
    /// Continue a crawl that was started with --state
    #[command(name = RESUME, after_help = help::AFTER_RESUME_HELP)]
    Resume(Box<ResumeOptions>),
    /// Print a page that a crawl with --state or --redis stored
    #[command(after_help = help::AFTER_SHOW_HELP)]
    Show(UrlQueryArgs),
    /// Show the outcome of a URL and how it was discovered
    #[command(after_help = help::AFTER_WHY_HELP)]
    Why(UrlQueryArgs),
    /// Merge the workers' part files into one output
    #[command(after_help = help::AFTER_COLLECT_HELP, override_usage = help::COLLECT_USAGE)]
    Collect(CollectArgs),
    /// Run the frontier of a distributed crawl
    #[command(after_help = help::AFTER_FRONTIER_HELP, override_usage = help::FRONTIER_USAGE)]
    Frontier(Box<RoleOptions>),
    /// Run a worker of a distributed crawl
    #[command(after_help = help::AFTER_WORKER_HELP, override_usage = help::WORKER_USAGE)]
    Worker(Box<WorkerOptions>),
    /// Add URLs to a distributed crawl, starting it if needed
    #[command(after_help = help::AFTER_SUBMIT_HELP, override_usage = help::SUBMIT_USAGE)]
    Submit(Box<CrawlOptions>),
    /// Show the status of a crawl with --state or --redis
    #[command(after_help = help::AFTER_STATUS_HELP, override_usage = help::STATUS_USAGE)]
    Status(StatusOptions),
    /// Stop a distributed crawl; it can be continued later
    #[command(after_help = help::AFTER_STOP_HELP, override_usage = help::STOP_USAGE)]
    Stop(RedisArgs),
    /// Delete a distributed crawl from Redis
    #[command(after_help = help::AFTER_PURGE_HELP, override_usage = help::PURGE_USAGE)]
    Purge(PurgeOptions),
    /// Crawl a small site served on this machine; needs no network
    #[command(after_help = help::AFTER_DEMO_HELP)]
    Demo {
        /// Crawl 50 hosts with 'crawler crawl', kill the crawl and resume it
        #[arg(long)]
        pipeline: bool,
        /// Crawl 50 hosts with four workers that coordinate through this Redis, and kill one of them
        #[arg(long, value_name = "URL", num_args = 0..=1, default_missing_value = "", conflicts_with = "pipeline")]
        redis: Option<String>,
        /// Print a line for each event
        #[arg(short, long)]
        verbose: bool,
    },
}

/// How much is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verbosity {
    /// Errors only.
    Quiet,
    /// Progress, failures and the summary.
    Normal,
    /// Every event, and the summary.
    Verbose,
}

/// A checked command line.
pub struct Invocation {
    /// The command to run.
    pub command: Command,
}

/// A command with its checked arguments.
pub enum Command {
    /// Save a site to a directory.
    ClassicCrawl(Box<ClassicJob>),
    /// Crawl many hosts.
    Crawl(Box<CrawlJob>),
    /// Continue a crawl from its state directory.
    Resume(Box<ResumeOptions>),
    /// Print a stored page.
    Show(UrlQuery),
    /// Show the outcome of a URL.
    Why(UrlQuery),
    /// Merge part files.
    Collect(CollectJob),
    /// Run a frontier or a worker.
    Role(RoleKind, Box<RoleOptions>),
    /// Add URLs to a distributed crawl.
    Submit(Box<CrawlOptions>),
    /// Show the status of a crawl.
    Status(StatusOptions),
    /// Stop a distributed crawl.
    Stop(RedisArgs),
    /// Delete a distributed crawl.
    Purge(PurgeOptions),
    /// Demonstrate the classic crawl.
    Demo(Verbosity),
    /// Demonstrate a crawl of many hosts and its recovery.
    PipelineDemo(Verbosity),
    /// Demonstrate a distributed crawl through this Redis, and its recovery.
    DistributedDemo(String, Verbosity),
}

impl Invocation {
    /// Parses and checks the command line of this process. `--help` and `--version` print and exit. The error is one line
    /// without a period that ends with the help to read.
    pub fn from_command_line() -> Result<Invocation, String> {
        let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
        if arguments.is_empty() {
            help::exit_with_short_usage();
        }
        let grammar = grammar();
        join_negative_values(&grammar, &mut arguments);
        parse(&grammar, &arguments).map_err(UsageError::into_line)
    }
}

fn parse(grammar: &clap::Command, arguments: &[OsString]) -> Result<Invocation, UsageError> {
    let explainer = Explainer::new(grammar, arguments);
    let program = OsString::from("crawler");
    let parsed = grammar.clone().try_get_matches_from([&program].into_iter().chain(arguments)).and_then(
        |mut matches| {
            let explicit = explicit_options(grammar, &matches);
            Ok((Cli::from_arg_matches_mut(&mut matches)?, explicit))
        },
    );
    match parsed {
        Ok((cli, explicit)) => {
            if let Some(error) = explainer.foreign_option(&explicit) {
                return Err(error);
            }
            cli.with_explicit_options(explicit).validate().map_err(|message| explainer.invalid(message))
        }
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            let printed = is_printed(error.print());
            std::process::exit(if printed { 0 } else { EXIT_FAILED.into() })
        }
        Err(error) => Err(explainer.parse_error(&error)),
    }
}

/// Turns `--delay -1s` into `--delay=-1s`, so that the value's own parser reports it. Clap would take `-1s` for options.
fn join_negative_values(grammar: &clap::Command, arguments: &mut Vec<OsString>) {
    let command = arguments.first().and_then(|first| grammar.find_subcommand(first)).unwrap_or(grammar);
    let takes_value = |argument: &OsString| {
        let name = argument.to_str().and_then(|argument| argument.strip_prefix("--"));
        let option =
            name.and_then(|name| command.get_arguments().find(|option| option.get_long() == Some(name)));
        option.is_some_and(|option| option.get_action().takes_values())
    };
    let is_negative = |argument: &OsString| argument.to_str().is_some_and(crate::values::is_negative);
    let mut index = 0;
    while index + 1 < arguments.len() && arguments[index] != "--" {
        if takes_value(&arguments[index]) && is_negative(&arguments[index + 1]) {
            let value = arguments.remove(index + 1);
            arguments[index].push("=");
            arguments[index].push(value);
        }
        index += 1;
    }
}

/// The names of the command's options that were given on the command line or in the environment.
fn explicit_options(grammar: &clap::Command, matches: &ArgMatches) -> Vec<String> {
    let Some((name, matches)) = matches.subcommand() else { return Vec::new() };
    let options = grammar.find_subcommand(name).into_iter().flat_map(clap::Command::get_arguments);
    let is_explicit = |option: &&clap::Arg| {
        let id = option.get_id().as_str();
        let is_present = matches.try_contains_id(id).unwrap_or(false);
        is_present
            && matches!(matches.value_source(id), Some(ValueSource::CommandLine | ValueSource::EnvVariable))
    };
    options.filter(is_explicit).filter_map(|option| option.get_long().map(str::to_owned)).collect()
}

/// The grammar of the command line. The commands of a crawl share their options; here each gets its own help for them.
fn grammar() -> clap::Command {
    let grammar = Cli::command()
        .mut_args(classic::adapt)
        .mut_subcommand("crawl", crawl::adapt_help)
        .mut_subcommand(RESUME, |resume| resume::adapt(crawl::adapt_help(resume)))
        .mut_subcommand("status", distributed::adapt_status)
        .mut_subcommand("submit", |submit| distributed::adapt_submit(crawl::adapt_help(submit)))
        .mut_subcommand("frontier", |role| distributed::adapt_role(role, &distributed::FRONTIER_OPTIONS))
        .mut_subcommand("worker", |role| distributed::adapt_role(role, &distributed::WORKER_OPTIONS));
    let mut grammar = grammar;
    // Adds what clap adds by itself, such as the command 'help'.
    grammar.build();
    grammar
}

impl Cli {
    /// Stores the names of the explicit options in the options that are merged with those of an existing crawl.
    fn with_explicit_options(mut self, explicit: Vec<String>) -> Cli {
        match &mut self.command {
            Some(CliCommand::Submit(options) | CliCommand::Crawl(options)) => options.explicit = explicit,
            Some(CliCommand::Resume(resume)) => resume.options.explicit = explicit,
            Some(CliCommand::Frontier(role)) => role.options.explicit = explicit,
            Some(CliCommand::Worker(worker)) => worker.role.options.explicit = explicit,
            _ => {}
        }
        self
    }

    /// Checks everything that can be checked without fetching or writing.
    fn validate(self) -> Result<Invocation, String> {
        let command = match self.command {
            Some(CliCommand::Crawl(options)) => Command::Crawl(Box::new(options.validate()?)),
            Some(CliCommand::Resume(options)) => Command::Resume(Box::new(options.validate()?)),
            Some(CliCommand::Show(query)) => Command::Show(query.validate()?),
            Some(CliCommand::Why(query)) => Command::Why(query.validate()?),
            Some(CliCommand::Collect(collect)) => Command::Collect(collect.validate()?),
            Some(CliCommand::Frontier(role)) => {
                Command::Role(RoleKind::Frontier, Box::new(role.validate("frontier")?))
            }
            Some(CliCommand::Worker(worker)) => {
                let id = worker.id.map(WorkerId);
                Command::Role(RoleKind::Worker(id), Box::new(worker.role.validate("worker")?))
            }
            Some(CliCommand::Submit(mut options)) => {
                options.fetch.login = LoginArgs::none();
                Command::Submit(options)
            }
            Some(CliCommand::Status(options)) => Command::Status(options.validate()?),
            Some(CliCommand::Stop(redis)) => Command::Stop(redis),
            Some(CliCommand::Purge(options)) => Command::Purge(options),
            Some(CliCommand::Demo { verbose, pipeline, redis }) => {
                let verbosity = if verbose { Verbosity::Verbose } else { Verbosity::Normal };
                match redis {
                    Some(redis) => Command::DistributedDemo(distributed::redis_url(&redis)?, verbosity),
                    None if pipeline => Command::PipelineDemo(verbosity),
                    None => Command::Demo(verbosity),
                }
            }
            None => Command::ClassicCrawl(Box::new(self.classic.validate()?)),
        };
        Ok(Invocation { command })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grammar_is_consistent() {
        grammar().debug_assert();
    }

    #[test]
    fn negative_values_are_joined_with_their_options() {
        let join = |line: &str| {
            let mut arguments: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
            join_negative_values(&grammar(), &mut arguments);
            arguments.join(" ".as_ref()).into_string().unwrap()
        };
        for (given, joined) in [
            ("crawl u --delay -1s --max-pages -5", "crawl u --delay=-1s --max-pages=-5"),
            ("u d -1 --delay -.5", "u d -1 --delay=-.5"),
            ("u d 1 --quiet -1", "u d 1 --quiet -1"),
            ("u d 1 --delay -v", "u d 1 --delay -v"),
            ("u d 1 -- --delay -1", "u d 1 -- --delay -1"),
        ] {
            assert_eq!(join(given), joined);
        }
    }
}
