//! The command line: parses the arguments (`Cli`), checks them, and returns what to run (`Invocation`).

mod archives;
mod change;
mod check;
mod classic;
mod collect;
mod config;
mod content;
mod crawl;
mod dashboard;
mod diff;
mod distributed;
mod errors;
mod fetch;
mod health;
mod help;
mod log;
mod login;
mod merge;
mod outputs;
mod proxy;
mod replay;
mod report;
mod resume;
pub mod settings;
mod sources;
mod suggestions;
#[cfg(test)]
pub mod testing;
mod url_query;
mod written;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, FromArgMatches, Subcommand};
use clap_complete::Shell;
use crawler::internal::backend::WorkerId;
use crawler::internal::live_settings::ControlAction;

pub use self::archives::{ArchiveFileJob, ArchiveFileKind};
pub use self::change::ChangeJob;
pub use self::check::CheckReport;
pub use self::classic::ClassicJob;
pub use self::collect::{CollectJob, CollectOutput};
pub use self::config::ConfigArgs;
pub use self::crawl::{CrawlJob, CrawlOptions, ProgressForm, ScopeKind};
pub use self::dashboard::{DashboardArgs, DashboardJob};
pub use self::diff::{DiffArgs, DiffFormat};
pub use self::distributed::{PurgeOptions, RoleKind, RoleOptions, StatusOptions, WorkerOptions};
pub use self::health::HealthArgs;
pub use self::log::LogArgs;
pub use self::login::LoginArgs;
pub use self::merge::has_credentials;
pub use self::outputs::{output_path, writes_to_stdout};
pub use self::proxy::PROXY_VARIABLE;
pub use self::replay::ReplayJob;
pub use self::report::{ReportJob, ReportTarget};
pub use self::resume::ResumeOptions;
pub use self::url_query::{CrawlSource, ShowQuery, UrlQuery};

use self::archives::{IndexArgs, WaczArgs};
use self::change::{ChangeArgs, RunningCrawlArgs};
use self::check::CheckArgs;
use self::classic::ClassicArgs;
use self::collect::CollectArgs;
use self::dashboard::DashboardCommandArgs;
use self::errors::{Explainer, UsageError};
pub use self::fetch::FetchArgs;
pub use self::fetch::INSECURE;
use self::replay::ReplayArgs;
use self::report::ReportArgs;
use self::settings::{CommandLine, Settings, is_option_variable, misspelt_variables};
use self::url_query::{ShowArgs, UrlQueryArgs};
use crate::printable::print_error;

/// The command whose unknown options are explained in their own way.
const RESUME: &str = "resume";

/// The command that visits the known URLs of a crawl again. It has the same options.
const RECRAWL: &str = "recrawl";

/// The place of `--config` in the help: after the options of the command, before `--help`.
const CONFIG_DISPLAY_ORDER: usize = 998;

/// The arguments as parsed.
enum Cli {
    Classic(Box<ClassicArgs>),
    Command(Box<CliCommand>),
}

#[derive(Subcommand)]
enum CliCommand {
    /// Crawl many hosts and process each page with modules
    #[command(after_help = help::AFTER_CRAWL_HELP)]
    Crawl(Box<CrawlOptions>),
    /// Check the links of a site, and report those that are broken
    #[command(after_help = help::AFTER_CHECK_HELP)]
    Check(Box<CheckArgs>),
    /// Continue a crawl that was started with --state
    #[command(name = RESUME, after_help = help::AFTER_RESUME_HELP)]
    Resume(Box<ResumeOptions>),
    /// Visit the URLs of a crawl with --state again
    #[command(name = RECRAWL, after_help = help::AFTER_RECRAWL_HELP)]
    Recrawl(Box<ResumeOptions>),
    /// List what has changed since the visit before
    #[command(after_help = help::AFTER_DIFF_HELP)]
    Diff(DiffArgs),
    /// Process the pages of web archives (WARC, WACZ) with modules
    #[command(after_help = help::AFTER_REPLAY_HELP)]
    Replay(Box<ReplayArgs>),
    /// Write the CDXJ index of web archives (WARC, WACZ)
    #[command(after_help = help::AFTER_INDEX_HELP)]
    Index(IndexArgs),
    /// Pack WARC files into a WACZ file, which ReplayWeb.page opens
    #[command(after_help = help::AFTER_WACZ_HELP)]
    Wacz(WaczArgs),
    /// Print a page that a crawl stored, or that is in web archives
    #[command(after_help = help::AFTER_SHOW_HELP, override_usage = help::SHOW_USAGE)]
    Show(ShowArgs),
    /// Show the outcome of a URL and how it was discovered
    #[command(after_help = help::AFTER_WHY_HELP)]
    Why(UrlQueryArgs),
    /// Show a crawl with --state or --redis on a web page
    #[command(after_help = help::AFTER_DASHBOARD_HELP, override_usage = help::DASHBOARD_USAGE)]
    Dashboard(DashboardCommandArgs),
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
    /// Write a report on a crawl with --state or --redis, as HTML or Markdown
    #[command(after_help = help::AFTER_REPORT_HELP, override_usage = help::REPORT_USAGE)]
    Report(ReportArgs),
    /// Check whether a process with --metrics is healthy
    #[command(after_help = help::AFTER_HEALTH_HELP)]
    Health(HealthArgs),
    /// Pause a crawl with --state or --redis: it starts no further request
    #[command(after_help = help::AFTER_PAUSE_HELP, override_usage = help::PAUSE_USAGE)]
    Pause(RunningCrawlArgs),
    /// Continue a crawl that is paused
    #[command(after_help = help::AFTER_UNPAUSE_HELP, override_usage = help::UNPAUSE_USAGE)]
    Unpause(RunningCrawlArgs),
    /// Change a crawl with --state or --redis while it runs
    #[command(after_help = help::AFTER_CHANGE_HELP, override_usage = help::CHANGE_USAGE)]
    Change(ChangeArgs),
    /// Stop a crawl with --state or --redis; it can be continued later
    #[command(after_help = help::AFTER_STOP_HELP, override_usage = help::STOP_USAGE)]
    Stop(RunningCrawlArgs),
    /// Delete a distributed crawl from Redis
    #[command(after_help = help::AFTER_PURGE_HELP, override_usage = help::PURGE_USAGE)]
    Purge(PurgeOptions),
    /// Print the options in force and where each is set
    #[command(after_help = help::AFTER_CONFIG_HELP, override_usage = help::CONFIG_USAGE)]
    Config(ConfigArgs),
    /// Print a script that completes commands and options in a shell
    #[command(after_help = help::AFTER_COMPLETIONS_HELP)]
    Completions {
        /// Shell that runs the script
        #[arg(value_name = "SHELL")]
        shell: Shell,
    },
    /// Write the manual pages to a directory
    #[command(hide = true)]
    Man {
        /// Existing directory
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
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
    /// The options of the log.
    pub log: LogArgs,
    /// Whether events are printed.
    pub verbosity: Verbosity,
}

/// A command with its checked arguments.
pub enum Command {
    /// Save a site to a directory.
    ClassicCrawl(Box<ClassicJob>),
    /// Crawl many hosts.
    Crawl(Box<CrawlJob>),
    /// Continue a crawl from its state directory.
    Resume(Box<ResumeOptions>),
    /// Show what has changed between two visits.
    Diff(DiffArgs),
    /// Process the pages of archives.
    Replay(Box<ReplayJob>),
    /// Write an index or a WACZ file.
    ArchiveFile(ArchiveFileJob),
    /// Print a stored page.
    Show(ShowQuery),
    /// Show the outcome of a URL.
    Why(UrlQuery),
    /// Show a crawl on a web page.
    Dashboard(Box<DashboardJob>),
    /// Write a report on a crawl.
    Report(ReportJob),
    /// Merge part files.
    Collect(CollectJob),
    /// Run a frontier or a worker.
    Role(RoleKind, Box<RoleOptions>),
    /// Add URLs to a distributed crawl.
    Submit(Box<CrawlOptions>),
    /// Show the status of a crawl.
    Status(StatusOptions),
    /// Check whether a process is healthy.
    Health(HealthArgs),
    /// Change a running crawl.
    Change(ChangeJob),
    /// Stop a crawl.
    Stop(ChangeJob),
    /// Delete a distributed crawl.
    Purge(PurgeOptions),
    /// Print the options in force.
    Config(ConfigArgs),
    /// Print a completion script.
    Completions(Shell),
    /// Write the manual pages to a directory.
    Man(PathBuf),
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
        let typed: Vec<OsString> = std::env::args_os().skip(1).collect();
        if typed.is_empty() {
            help::exit_with_short_usage();
        }
        let own = own_definition(&typed, has_settings()).and_then(|own| parse_own(own, &typed));
        own.unwrap_or_else(|| parse_all(typed)).map_err(UsageError::into_line)
    }
}

/// A command line that clap has accepted.
struct Parsed {
    cli: Cli,
    /// The names of the options that were given.
    explicit: Vec<String>,
    log: LogArgs,
    verbosity: Verbosity,
}

/// Parses and checks a command line, with the options of all commands, which errors and settings may refer to.
fn parse_all(typed: Vec<OsString>) -> Result<Invocation, UsageError> {
    let mut line = CommandLine::new(&definition(), typed)?;
    for warning in misspelt_variables(&line.grammar) {
        print_error(&warning);
    }
    let parsed = parsed(&mut line);
    let explainer = Explainer::new(&line);
    let parsed = parsed.map_err(|error| explainer.parse_error(&error))?;
    match explainer.foreign_option(&parsed.explicit) {
        Some(error) => Err(error),
        None => parsed.check(&line.typed).map_err(|message| explainer.invalid(message)),
    }
}

/// Parses and checks a command line with the options of its own command only. `None` if that needs those of other commands.
fn parse_own(own: clap::Command, typed: &[OsString]) -> Option<Result<Invocation, UsageError>> {
    let mut line = CommandLine::without_settings(own, typed.to_vec());
    let parsed = parsed(&mut line).ok()?;
    if !Explainer::new(&line).lists_all(&parsed.explicit) {
        return None;
    }
    let explained = |message| match CommandLine::new(&definition(), typed.to_vec()) {
        Ok(line) => Explainer::new(&line).invalid(message),
        Err(error) => error,
    };
    Some(parsed.check(&line.typed).map_err(explained))
}

fn parsed(line: &mut CommandLine) -> Result<Parsed, clap::Error> {
    let mut matches = line.matches()?;
    let explicit = explicit_options(&line.grammar, &matches, &line.settings);
    let (log, verbosity) = log_options(&matches)?;
    Ok(Parsed { cli: Cli::new(&mut matches)?, explicit, log, verbosity })
}

impl Parsed {
    /// Checks the arguments. `typed` are those that were typed.
    fn check(self, typed: &[OsString]) -> Result<Invocation, String> {
        let Parsed { cli, explicit, log, verbosity } = self;
        log.check(typed)?;
        let command = cli.with_explicit_options(explicit).validate()?;
        command.check_log(&log)?;
        Ok(Invocation { command, log, verbosity })
    }
}

/// The options of the log, and whether events are printed, too: in the classic form, `--verbose` prints other lines.
fn log_options(matches: &ArgMatches) -> Result<(LogArgs, Verbosity), clap::Error> {
    let (matches, is_verbose) = match matches.subcommand() {
        None => (matches, false),
        // Looked up by name: without debug assertions, clap does not report an option that a command does not have.
        Some((name, _)) if !LogArgs::are_of(name) => return Ok((LogArgs::default(), Verbosity::Normal)),
        Some((_, matches)) => {
            let verbose = matches.try_get_one::<bool>("verbose").ok().flatten();
            (matches, verbose == Some(&true))
        }
    };
    let verbosity = if is_verbose { Verbosity::Verbose } else { Verbosity::Normal };
    Ok((LogArgs::from_arg_matches(matches)?, verbosity))
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

/// The names of the command's options that were given: on the command line, in the environment, or in the command's table
/// of the configuration file. A flag that is turned off there is given, too.
fn explicit_options(grammar: &clap::Command, matches: &ArgMatches, settings: &Settings) -> Vec<String> {
    let Some((name, matches)) = matches.subcommand() else { return Vec::new() };
    let options = grammar.find_subcommand(name).into_iter().flat_map(clap::Command::get_arguments);
    let is_explicit = |option: &&clap::Arg| {
        let id = option.get_id().as_str();
        let is_present = matches.try_contains_id(id).unwrap_or(false);
        is_present && matches.value_source(id) == Some(ValueSource::CommandLine)
    };
    let names = options.filter(is_explicit).filter_map(clap::Arg::get_long);
    let names = names.filter(|name| *name != settings::CONFIG && !LogArgs::has(name));
    let names = names.filter(|name| !settings.is_general(name));
    names.chain(settings.turned_off()).map(str::to_owned).collect()
}

/// The definition of the command line, not built yet.
pub fn definition() -> clap::Command {
    with_classic_form(CliCommand::augment_subcommands(program()).mut_subcommands(adapted))
}

/// The definition with the options of a command line's own command only: building those of all commands takes most of the time
/// to start. `None` if the others are needed: for help, and for settings, whose names are checked.
fn own_definition(typed: &[OsString], has_settings: bool) -> Option<clap::Command> {
    let needs_all = |argument: &OsString| {
        let argument = argument.to_string_lossy();
        let has_short_help =
            argument.starts_with('-') && !argument.starts_with("--") && argument.contains('h');
        has_short_help || matches!(&*argument, "help" | "--help") || argument.starts_with("--config")
    };
    if has_settings || typed.iter().any(needs_all) {
        return None;
    }
    let own = |augment: fn(clap::Command) -> clap::Command, name: &'static str| {
        program().subcommand(adapted(augment(clap::Command::new(name))))
    };
    match typed.first()?.to_str()? {
        "crawl" => Some(own(CrawlOptions::augment_args, "crawl")),
        "check" => Some(own(CheckArgs::augment_args, "check")),
        RESUME => Some(own(ResumeOptions::augment_args, RESUME)),
        RECRAWL => Some(own(ResumeOptions::augment_args, RECRAWL)),
        // The other commands fetch nothing, or run long.
        name if CliCommand::has_subcommand(name) => None,
        _ => Some(with_classic_form(program())),
    }
}

/// Whether the environment has variables that may be settings.
fn has_settings() -> bool {
    let is_setting = |name: &OsStr| is_option_variable(name) || name == "CRAWLER_REDIS";
    std::env::vars_os().any(|(name, _)| is_setting(&name))
}

/// The definition without commands and arguments.
fn program() -> clap::Command {
    clap::Command::new("crawler")
        .version(env!("CARGO_PKG_VERSION"))
        .after_help(help::AFTER_HELP)
        .override_usage(help::USAGE)
        .args_conflicts_with_subcommands(true)
        .subcommand_negates_reqs(true)
}

/// Adds the arguments of the classic form.
fn with_classic_form(program: clap::Command) -> clap::Command {
    let classic = ClassicArgs::augment_args(program).mut_args(classic::adapt).arg(config_option());
    // The description of the arguments replaces that of the program.
    LogArgs::augment_args(classic).about("Save a site as numbered files, or run one of the commands below")
}

/// Adds the log and the configuration file to a command. The commands of a crawl share their options; here each gets its own
/// help for them.
fn adapted(command: clap::Command) -> clap::Command {
    let command = match command.get_name() {
        "crawl" => crawl::adapt_help(command),
        "check" => check::adapt(crawl::adapt_help(command)),
        RESUME => resume::adapt(crawl::adapt_help(command)),
        RECRAWL => resume::adapt_recrawl(resume::adapt(crawl::adapt_help(command))),
        "status" => distributed::adapt_status(command),
        "submit" => distributed::adapt_submit(crawl::adapt_help(command)),
        "frontier" => distributed::adapt_role(command, &distributed::FRONTIER_OPTIONS),
        "worker" => distributed::adapt_role(command, &distributed::WORKER_OPTIONS),
        "completions" | "man" | "config" => return command,
        _ => command,
    };
    LogArgs::add_to(command).arg(config_option())
}

fn config_option() -> clap::Arg {
    clap::Arg::new(settings::CONFIG)
        .long(settings::CONFIG)
        .value_name("FILE")
        .value_parser(clap::value_parser!(PathBuf))
        .display_order(CONFIG_DISPLAY_ORDER)
        .help(help::CONFIG_OPTION)
}

impl Cli {
    fn new(matches: &mut ArgMatches) -> Result<Cli, clap::Error> {
        Ok(match matches.subcommand_name() {
            Some(_) => Cli::Command(Box::new(CliCommand::from_arg_matches_mut(matches)?)),
            None => Cli::Classic(Box::new(ClassicArgs::from_arg_matches_mut(matches)?)),
        })
    }

    /// Stores the names of the explicit options in the options that are merged with those of an existing crawl.
    fn with_explicit_options(mut self, explicit: Vec<String>) -> Cli {
        let Cli::Command(command) = &mut self else { return self };
        match &mut **command {
            CliCommand::Submit(options) | CliCommand::Crawl(options) => {
                options.explicit = explicit;
                options.adapt_to_mirror();
            }
            CliCommand::Check(check) => check.options.explicit = explicit,
            CliCommand::Resume(resume) | CliCommand::Recrawl(resume) => resume.options.explicit = explicit,
            CliCommand::Frontier(role) => role.options.explicit = explicit,
            CliCommand::Worker(worker) => worker.role.options.explicit = explicit,
            _ => {}
        }
        self
    }

    /// Checks everything that can be checked without fetching or writing.
    fn validate(self) -> Result<Command, String> {
        let command = match self {
            Cli::Classic(classic) => return Ok(Command::ClassicCrawl(Box::new(classic.validate()?))),
            Cli::Command(command) => command,
        };
        Ok(match *command {
            CliCommand::Crawl(mut options) => {
                options.complete_seeds();
                Command::Crawl(Box::new(options.validate()?))
            }
            CliCommand::Check(check) => Command::Crawl(Box::new(check.validate()?)),
            CliCommand::Resume(options) => Command::Resume(Box::new(options.validate()?)),
            CliCommand::Recrawl(options) => {
                Command::Resume(Box::new(ResumeOptions { is_recrawl: true, ..options.validate()? }))
            }
            CliCommand::Diff(diff) => Command::Diff(diff),
            CliCommand::Replay(replay) => Command::Replay(Box::new(replay.validate()?)),
            CliCommand::Index(index) => Command::ArchiveFile(index.validate()?),
            CliCommand::Wacz(wacz) => Command::ArchiveFile(wacz.validate()?),
            CliCommand::Show(query) => Command::Show(query.validate()?),
            CliCommand::Why(query) => Command::Why(query.validate()?),
            CliCommand::Dashboard(dashboard) => Command::Dashboard(Box::new(dashboard.validate()?)),
            CliCommand::Report(report) => Command::Report(report.validate()?),
            CliCommand::Collect(collect) => Command::Collect(collect.validate()?),
            CliCommand::Frontier(role) => {
                Command::Role(RoleKind::Frontier, Box::new(role.validate("frontier")?))
            }
            CliCommand::Worker(worker) => {
                let id = worker.id.map(WorkerId);
                Command::Role(RoleKind::Worker(id), Box::new(worker.role.validate("worker")?))
            }
            CliCommand::Submit(mut options) => {
                options.fetch.login = LoginArgs::none();
                options.complete_seeds();
                Command::Submit(options)
            }
            CliCommand::Config(arguments) => Command::Config(arguments),
            CliCommand::Completions { shell } => Command::Completions(shell),
            CliCommand::Man { directory } => Command::Man(directory),
            CliCommand::Status(options) => Command::Status(options.validate()?),
            CliCommand::Health(health) => Command::Health(health),
            CliCommand::Pause(crawl) => Command::Change(crawl.validate(vec![ControlAction::Pause])?),
            CliCommand::Unpause(crawl) => Command::Change(crawl.validate(vec![ControlAction::Unpause])?),
            CliCommand::Change(change) => Command::Change(change.validate()?),
            CliCommand::Stop(crawl) => Command::Stop(crawl.validate(vec![ControlAction::Stop])?),
            CliCommand::Purge(options) => Command::Purge(options),
            CliCommand::Demo { verbose, pipeline, redis } => {
                let verbosity = if verbose { Verbosity::Verbose } else { Verbosity::Normal };
                match redis {
                    Some(redis) => Command::DistributedDemo(distributed::redis_url(&redis)?, verbosity),
                    None if pipeline => Command::PipelineDemo(verbosity),
                    None => Command::Demo(verbosity),
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grammar_is_consistent() {
        definition().debug_assert();
    }

    #[test]
    fn own_options_are_enough_for_a_command_line_without_errors() {
        let typed = |line: &str| line.split_whitespace().map(OsString::from).collect::<Vec<_>>();
        for line in [
            "crawl http://a.test/ --max-pages 5 --delay 1s -q",
            "check http://a.test/ --fragments",
            "resume state --max-pages 5",
            "recrawl state --max-pages 5",
            "http://a.test/ pages 1 --delay 0",
        ] {
            let typed = typed(line);
            let explicit = |definition: clap::Command| {
                let mut line = CommandLine::without_settings(definition, typed.clone());
                parsed(&mut line).unwrap().explicit
            };
            assert_eq!(explicit(own_definition(&typed, false).unwrap()), explicit(definition()), "{line}");
        }
        for line in [
            "crawl http://a.test/ --output x",
            "crawl http://a.test/ --max-pages 5 --delay -1s -q",
            "crwl http://a.test/",
            "check http://a.test/ --crawl x",
            "show state 5",
        ] {
            let typed = typed(line);
            let own = own_definition(&typed, false).and_then(|own| parse_own(own, &typed));
            assert!(own.is_none(), "{line}");
        }
    }

    #[test]
    fn negative_values_are_joined_with_their_options() {
        let join = |line: &str| {
            let mut arguments: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
            join_negative_values(&definition(), &mut arguments);
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
