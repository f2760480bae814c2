//! The command line: what was typed (clap's `Cli`), checked once, becomes what is meant (`Invocation`).

mod classic;
mod collect;
mod crawl;
mod distributed;
mod fetch;
mod help;
mod merge;
mod resume;
mod url_query;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use crawler::internal::backend::WorkerId;

pub use self::classic::ClassicJob;
pub use self::collect::{CollectJob, Place};
pub use self::crawl::{CrawlJob, CrawlOptions, ProgressForm, target};
pub use self::distributed::{PurgeOptions, RedisArgs, RoleKind, RoleOptions, StatusOptions, WorkerOptions};
pub use self::resume::ResumeOptions;
pub use self::url_query::{Source, UrlQuery};

use self::classic::ClassicArgs;
use self::collect::CollectArgs;
use self::fetch::FetchArgs;
use self::url_query::UrlQueryArgs;
use crate::EXIT_FAILED;
use crate::printable::is_printed;

/// The commands that have a help of their own worth pointing to.
const COMMANDS: [&str; 11] =
    ["crawl", "collect", "resume", "show", "why", "frontier", "worker", "submit", "status", "stop", "purge"];

/// Crawls a site into a directory of numbered files: every internal page within maxDepth hops of the seed.
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
    /// Crawl many hosts at once, within budgets, and do something with each page
    #[command(after_help = help::AFTER_CRAWL_HELP)]
    Crawl(Box<CrawlOptions>),
    /// Go on with a crawl that was begun with --state, however it ended
    #[command(after_help = help::AFTER_RESUME_HELP)]
    Resume(Box<ResumeOptions>),
    /// Print a page that a crawl with --state or --redis has stored
    #[command(after_help = help::AFTER_SHOW_HELP)]
    Show(UrlQueryArgs),
    /// Tell what became of a URL in a crawl with --state or --redis, and why
    #[command(after_help = help::AFTER_WHY_HELP)]
    UrlHistory(UrlQueryArgs),
    /// Make one output of the parts that the workers of a crawl have written
    #[command(after_help = help::AFTER_COLLECT_HELP)]
    #[command(
        override_usage = "crawler collect [--overwrite] <PART>... --output <PATH>\n       crawler collect [--overwrite] --of <PATH> [--output <PATH>]"
    )]
    Collect(CollectArgs),
    /// Be the frontier of a crawl on Redis
    #[command(after_help = help::AFTER_ROLE_HELP)]
    Frontier(Box<RoleOptions>),
    /// Be a worker of a crawl on Redis
    #[command(after_help = help::AFTER_ROLE_HELP)]
    Worker(Box<WorkerOptions>),
    /// Give URLs to a crawl on Redis
    #[command(after_help = help::AFTER_SUBMIT_HELP)]
    Submit(Box<CrawlOptions>),
    /// Tell how a crawl on Redis stands
    #[command(after_help = help::AFTER_REMOTE_HELP)]
    CrawlStatus(StatusOptions),
    /// End a crawl on Redis: what is in flight is finished
    #[command(after_help = help::AFTER_REMOTE_HELP)]
    StopHandle(RedisArgs),
    /// Remove everything of a crawl from Redis
    #[command(after_help = help::AFTER_REMOTE_HELP)]
    Purge(PurgeOptions),
    /// Serve a small site on loopback and crawl it, to see it work without a network
    Demo {
        /// Serve fifty hosts and crawl them, kill the crawl, and let it go on
        #[arg(long)]
        pipeline: bool,
        /// Let four workers share fifty hosts over this Redis, and kill one of them [without a URL: CRAWLER_REDIS in the environment]
        #[arg(long, value_name = "URL", num_args = 0..=1, default_missing_value = "", conflicts_with = "pipeline")]
        redis: Option<String>,
        /// Print a line for everything that happens
        #[arg(short, long)]
        verbose: bool,
    },
}

/// How much is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verbosity {
    /// Errors.
    Quiet,
    /// Progress, failures and the summary.
    Normal,
    /// Every event, and the summary.
    Verbose,
}

/// What the user means.
pub struct Invocation {
    /// What to do.
    pub command: Command,
}

/// One of the things `crawler` does.
pub enum Command {
    /// Crawl a site into a directory.
    ClassicCrawl(Box<ClassicJob>),
    /// Crawl many hosts.
    Crawl(Box<CrawlJob>),
    /// Go on with a crawl.
    Resume(Box<ResumeOptions>),
    /// Print a stored page.
    Show(UrlQuery),
    /// Tell what became of a URL.
    UrlHistory(UrlQuery),
    /// Make one output of parts.
    Collect(CollectJob),
    /// Work on a crawl that processes share.
    Role(RoleKind, Box<RoleOptions>),
    /// Give URLs to such a crawl.
    Submit(Box<CrawlOptions>),
    /// Tell how such a crawl stands.
    CrawlStatus(StatusOptions),
    /// End such a crawl.
    StopHandle(RedisArgs),
    /// Remove such a crawl.
    Purge(PurgeOptions),
    /// Show that it works.
    Demo(Verbosity),
    /// Show that a crawl of many hosts works and survives.
    PipelineDemo(Verbosity),
    /// Show that a crawl that processes share over this Redis works and survives.
    SharedDemo(String, Verbosity),
}

impl Invocation {
    /// Reads the command line. `--help` and `--version` print and exit; an error is one line without a period that
    /// ends with where help is.
    pub fn from_command_line() -> Result<Invocation, String> {
        let matches = command_line().try_get_matches().and_then(|mut matches| {
            let given = given(&matches);
            Cli::from_arg_matches_mut(&mut matches).map(|typed| typed.with_given(given))
        });
        let refused = match matches {
            Ok(typed) => typed.validate(),
            Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
                let printed = is_printed(error.print());
                std::process::exit(if printed { 0 } else { EXIT_FAILED.into() })
            }
            Err(error) => Err(in_words(&error)),
        };
        // Options before a command are refused as a whole, so a command is the first argument or none.
        let help = match first_argument().as_deref() {
            Some(command) if COMMANDS.contains(&command) => format!("crawler {command} --help"),
            _ => "crawler --help".to_owned(),
        };
        refused.map_err(|error| format!("{error}; try '{help}'"))
    }
}

/// The names of the options of a command that were given, on the command line or in the environment.
fn given(matches: &ArgMatches) -> Vec<String> {
    let Some((name, matches)) = matches.subcommand() else { return Vec::new() };
    let typed = command_line();
    let options = typed.find_subcommand(name).into_iter().flat_map(clap::Command::get_arguments);
    let is_given = |option: &&clap::Arg| {
        let source = matches.try_contains_id(option.get_id().as_str()).ok().filter(|there| *there);
        let source = source.and_then(|_| matches.value_source(option.get_id().as_str()));
        matches!(source, Some(ValueSource::CommandLine | ValueSource::EnvVariable))
    };
    options.filter(is_given).filter_map(|option| option.get_long().map(str::to_owned)).collect()
}

/// The grammar. What the options shared by all crawls do in one from many hosts is said in its own words.
fn command_line() -> clap::Command {
    let in_words = |crawl: clap::Command| {
        crawl
            .mut_arg("allow_private", |option| {
                option.help("Let links and redirects lead to private, loopback and other special addresses")
            })
            .mut_arg("delay", |option| option.help("The least time between requests to a host: 0, 250ms, 2s"))
            .mut_arg("verbose", |option| option.help("Print how each URL ended"))
            .mut_arg("crawl", |option| option.env("CRAWLER_CRAWL"))
    };
    let typed = Cli::command().mut_subcommand("crawl", in_words).mut_subcommand("submit", |submit| {
        in_words(submit).mut_args(|option| match option.get_id().as_str() {
            "redis" => option.required(true).env("CRAWLER_REDIS"),
            "crawl" => option.env("CRAWLER_CRAWL"),
            "state" | "overwrite" | "workers" | "progress" | "summary" | "verbose" => option.hide(true),
            _ => option,
        })
    });
    ["frontier", "worker"]
        .into_iter()
        .fold(typed, |typed, name| typed.mut_subcommand(name, |role| in_words(role).mut_args(of_role)))
}

/// An option of a role: it may come from the environment, and those that mean nothing to a role are not shown.
fn of_role(option: clap::Arg) -> clap::Arg {
    let Some(name) = option.get_long() else {
        return option.required(false).hide(true);
    };
    let variable = format!("CRAWLER_{}", name.replace('-', "_").to_uppercase());
    match name {
        "redis" => option.required(true).env("CRAWLER_REDIS"),
        "state" | "workers" | "progress" | "summary" => option.hide(true),
        "help" | "version" => option,
        _ => option.env(variable).hide_env(true),
    }
}

/// Clap's own message as one sentence, without its decorations.
fn in_words(error: &clap::Error) -> String {
    // A fourth argument is taken for a sub-command by clap, and is none.
    if let (ErrorKind::ArgumentConflict, Some(ContextValue::String(extra))) =
        (error.kind(), error.get(ContextKind::InvalidSubcommand))
    {
        return format!(
            "unexpected argument '{extra}'; give seedURL, pageDirectory and maxDepth, and options"
        );
    }
    if let (ErrorKind::UnknownArgument, Some(ContextValue::String(unknown))) =
        (error.kind(), error.get(ContextKind::InvalidArg))
    {
        if let Some(refusal) = fixed_on_resume(unknown) {
            return refusal;
        }
        return match error.get(ContextKind::SuggestedArg) {
            Some(ContextValue::String(similar)) => {
                format!("there is no option '{unknown}'; a similar one is '{similar}'")
            }
            _ if unknown.starts_with('-') => format!("there is no option '{unknown}'"),
            _ => format!("unexpected argument '{unknown}'"),
        };
    }
    let mut arguments = std::env::args_os().skip(1);
    if error.kind() == ErrorKind::MissingRequiredArgument
        && arguments.next().is_some_and(|first| first.as_encoded_bytes().starts_with(b"-"))
        && let Some(command) =
            arguments.find_map(|argument| COMMANDS.into_iter().find(|known| argument == *known))
    {
        return format!("'{command}' is the command where it comes first; put options after it");
    }
    let text = error.render().to_string();
    let message = text.split("\n\nUsage:").next().unwrap_or(&text);
    let message = message.split("\n\nFor more information").next().unwrap_or(message);
    let lines: Vec<&str> = message.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join(" ").trim_start_matches("error: ").to_owned()
}

/// What is said when an option of `crawl` is given to `resume`.
fn fixed_on_resume(option: &str) -> Option<String> {
    let name = option.strip_prefix("--")?;
    let name = name.split('=').next().unwrap_or(name);
    if first_argument().as_deref() != Some("resume") {
        return None;
    }
    if name == "state" {
        return Some("'crawler resume' takes the directory by itself, without --state".into());
    }
    let typed = Cli::command();
    let crawl = typed.find_subcommand("crawl")?;
    crawl.get_arguments().any(|known| known.get_long() == Some(name)).then(|| {
        format!(
            "--{name} cannot be changed on resume: a crawl goes on as it was begun; leave it out, or begin another \
             crawl in another directory"
        )
    })
}

/// A command, where there is one.
fn first_argument() -> Option<String> {
    std::env::args_os().nth(1).and_then(|first| first.into_string().ok())
}

impl Cli {
    /// Lets those who merge options know which were given.
    fn with_given(mut self, given: Vec<String>) -> Cli {
        match &mut self.command {
            Some(CliCommand::Submit(options) | CliCommand::Crawl(options)) => options.given = given,
            Some(CliCommand::Frontier(role)) => role.options.given = given,
            Some(CliCommand::Worker(worker)) => worker.role.options.given = given,
            _ => {}
        }
        self
    }

    fn validate(self) -> Result<Invocation, String> {
        let command = match self.command {
            Some(CliCommand::Crawl(options)) => Command::Crawl(Box::new(options.validate()?)),
            Some(CliCommand::Resume(options)) => Command::Resume(Box::new(options.validate()?)),
            Some(CliCommand::Show(look)) => Command::Show(look.validate()?),
            Some(CliCommand::UrlHistory(look)) => Command::UrlHistory(look.validate()?),
            Some(CliCommand::Collect(collect)) => Command::Collect(collect.validate()?),
            Some(CliCommand::Frontier(role)) => Command::Role(RoleKind::Frontier, Box::new(role.validate()?)),
            Some(CliCommand::Worker(worker)) => {
                let id = worker.id.map(WorkerId);
                Command::Role(RoleKind::Worker(id), Box::new(worker.role.validate()?))
            }
            Some(CliCommand::Submit(options)) => Command::Submit(options),
            Some(CliCommand::CrawlStatus(options)) => Command::CrawlStatus(options),
            Some(CliCommand::StopHandle(place)) => Command::StopHandle(place),
            Some(CliCommand::Purge(options)) => Command::Purge(options),
            Some(CliCommand::Demo { verbose, pipeline, redis }) => {
                let verbosity = if verbose { Verbosity::Verbose } else { Verbosity::Normal };
                match redis {
                    Some(redis) => Command::SharedDemo(distributed::address(&redis)?, verbosity),
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
    fn the_command_line_is_consistent() {
        command_line().debug_assert();
    }
}
