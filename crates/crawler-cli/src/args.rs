//! The command line: what was typed (clap's `Typed`), checked once, becomes what is meant (`Invocation`).

use std::borrow::Cow;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use crawler::classic::Classic;
use crawler::config::{self, Config, Resolve};
use crawler::task::Depth;
use url::Url;

use crate::EXIT_FAILED;
use crate::printable::could_be_printed;
use crate::values;

/// Stands for `--internal`.
const INTERNAL_VARIABLE: &str = "CRAWLER_INTERNAL";

const AFTER_HELP: &str = "\
Files: page N is pageDirectory/N (1, 2, 3 …): its URL, its depth, then the page as served.

Exit status:
  0    the crawl ran to its end (some pages may have failed)
  1    the seed yielded no saved page, or the crawl could not be carried out or its summary printed
  2    bad arguments; nothing was fetched or written
  3    ended, but some page could not be written
  130  after Ctrl-C (143 after SIGTERM): what was in flight was finished; a second one ends at once

robots.txt is fetched and obeyed; of a Crawl-delay up to 30s, of a Retry-After up to 300s.
Try it without a network: crawler demo";

/// Crawls a site into a directory of numbered files: every internal page within maxDepth hops of the seed.
#[derive(Parser)]
#[command(name = "crawler", version, after_help = AFTER_HELP)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(
    override_usage = "crawler [OPTIONS] <seedURL> <pageDirectory> <maxDepth>\n       crawler demo [-v]"
)]
struct Typed {
    #[command(subcommand)]
    command: Option<TypedCommand>,
    #[command(flatten)]
    classic: TypedClassic,
}

#[derive(Subcommand)]
enum TypedCommand {
    /// Serve a small site on loopback and crawl it, to see it work without a network
    Demo {
        /// Print a line for everything that happens
        #[arg(short, long)]
        verbose: bool,
    },
}

#[derive(clap::Args)]
struct TypedClassic {
    /// Where to start: an absolute http or https URL
    #[arg(value_name = "seedURL", required = true)]
    seed: Option<String>,
    /// Where the pages go: an existing directory
    #[arg(value_name = "pageDirectory", required = true)]
    directory: Option<PathBuf>,
    /// How many hops from the seed to go: 0 is the seed alone
    #[arg(value_name = "maxDepth", required = true, allow_negative_numbers = true, value_parser = values::depth)]
    max_depth: Option<Depth>,

    /// Remove the numbered files of an earlier crawl from pageDirectory first
    #[arg(long)]
    overwrite: bool,
    /// Stay below this URL prefix instead of the seed's own server [env: CRAWLER_INTERNAL]
    #[arg(long, value_name = "PREFIX", help_heading = "Scope")]
    internal: Option<String>,
    /// Let redirects, also of robots.txt, lead to private, loopback and other special addresses
    #[arg(long, help_heading = "Scope")]
    allow_private: bool,

    /// The least time between requests: 0, 250ms, 2s
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = values::duration, allow_negative_numbers = true, help_heading = "Politeness")]
    delay: Duration,
    /// Requests in flight at once; with more than one the delay separates their starts
    #[arg(long, value_name = "N", default_value = "1", value_parser = values::at_least_one, allow_negative_numbers = true, help_heading = "Politeness")]
    concurrency: usize,
    /// Do not ask for robots.txt
    #[arg(long, help_heading = "Politeness")]
    ignore_robots: bool,
    /// The User-Agent header [default: crawler/VERSION]
    #[arg(long, value_name = "TEXT", help_heading = "Politeness")]
    user_agent: Option<String>,
    /// A URL where you can be reached, sent with the User-Agent
    #[arg(long, value_name = "URL", help_heading = "Politeness")]
    contact: Option<String>,

    /// The longest time to find, reach and secure a server
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = values::timeout, allow_negative_numbers = true, help_heading = "Limits")]
    connect_timeout: Duration,
    /// The longest time for a whole request
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = values::timeout, allow_negative_numbers = true, help_heading = "Limits")]
    timeout: Duration,
    /// The largest page kept, decoded; larger ones are dropped
    #[arg(long, value_name = "SIZE", default_value = "500KB", value_parser = values::size, allow_negative_numbers = true, help_heading = "Limits")]
    max_page_bytes: usize,

    /// Use this address for a host, *.name or * (every host, addresses too) instead of asking DNS; repeatable
    #[arg(long, value_name = "HOST=ADDR", value_parser = values::resolve, help_heading = "Network")]
    resolve: Vec<Resolve>,
    /// Trust the certificates in this PEM file too
    #[arg(long, value_name = "FILE", help_heading = "Network")]
    ca_file: Option<PathBuf>,

    /// Print a line for everything that happens, with depth and URL
    #[arg(short, long, conflicts_with = "quiet", help_heading = "Output")]
    verbose: bool,
    /// Print nothing but errors
    #[arg(short, long, help_heading = "Output")]
    quiet: bool,
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
    Classic(Box<ClassicJob>),
    /// Show that it works.
    Demo(Verbosity),
}

/// A classic crawl, ready to begin.
pub struct ClassicJob {
    /// The crawl.
    pub crawl: Classic,
    /// Where it begins.
    pub seed: Url,
    /// Where the pages go.
    pub directory: PathBuf,
    /// How many requests are in flight at most.
    pub concurrency: usize,
    /// Whether earlier pages are removed from there.
    pub overwrite: bool,
    /// How much is printed.
    pub verbosity: Verbosity,
}

impl Invocation {
    /// Reads the command line. `--help` and `--version` print and exit; an error is one line without a period.
    pub fn from_command_line() -> Result<Invocation, String> {
        let matches = Typed::command()
            .try_get_matches()
            .and_then(|mut matches| Typed::from_arg_matches_mut(&mut matches));
        match matches {
            Ok(typed) => typed.meant(),
            Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
                let printed = could_be_printed(error.print());
                std::process::exit(if printed { 0 } else { EXIT_FAILED.into() })
            }
            Err(error) => Err(in_words(&error)),
        }
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
        return match error.get(ContextKind::SuggestedArg) {
            Some(ContextValue::String(similar)) => {
                format!("there is no option '{unknown}'; a similar one is '{similar}'")
            }
            _ if unknown.starts_with('-') => format!("there is no option '{unknown}'"),
            _ => format!("unexpected argument '{unknown}'"),
        };
    }
    let text = error.render().to_string();
    let message = text.split("\n\nUsage:").next().unwrap_or(&text);
    let message = message.split("\n\nFor more information").next().unwrap_or(message);
    let lines: Vec<&str> = message.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join(" ").trim_start_matches("error: ").to_owned()
}

impl Typed {
    fn meant(self) -> Result<Invocation, String> {
        let command = match self.command {
            Some(TypedCommand::Demo { verbose: true }) => Command::Demo(Verbosity::Verbose),
            Some(TypedCommand::Demo { verbose: false }) => Command::Demo(Verbosity::Normal),
            None => Command::Classic(Box::new(self.classic.meant()?)),
        };
        Ok(Invocation { command })
    }
}

impl TypedClassic {
    fn meant(self) -> Result<ClassicJob, String> {
        let missing = |name| format!("{name} is missing; see the usage");
        let seed = self.seed.as_deref().ok_or_else(|| missing("seedURL"))?;
        let seed = values::seed(seed).map_err(|error| format!("seedURL is not usable: {error}"))?;
        let directory = self.directory.clone().ok_or_else(|| missing("pageDirectory"))?;
        let max_depth = self.max_depth.ok_or_else(|| missing("maxDepth"))?;
        let (designated_by, internal) = self.internal()?;
        let config = self.config()?;
        let crawl = Classic::new(seed.clone(), internal.as_ref(), max_depth, config).map_err(|error| {
            match designated_by {
                INTERNAL_VARIABLE => format!("{error} (this one is from {INTERNAL_VARIABLE})"),
                _ => error.to_string(),
            }
        })?;
        let verbosity = match (self.quiet, self.verbose) {
            (true, _) => Verbosity::Quiet,
            (_, true) => Verbosity::Verbose,
            _ => Verbosity::Normal,
        };
        Ok(ClassicJob {
            crawl,
            seed,
            directory,
            concurrency: self.concurrency,
            overwrite: self.overwrite,
            verbosity,
        })
    }

    /// The prefix that was designated, and by what. An empty variable is one that is not set.
    fn internal(&self) -> Result<(&'static str, Option<Url>), String> {
        let variable = std::env::var_os(INTERNAL_VARIABLE).filter(|value| !value.is_empty());
        let (name, text) = match (&self.internal, &variable) {
            (Some(text), _) => ("--internal", Cow::Borrowed(text.as_str())),
            (None, Some(text)) => (INTERNAL_VARIABLE, text.to_string_lossy()),
            (None, None) => return Ok(("--internal", None)),
        };
        match values::prefix(&text) {
            Ok(prefix) => Ok((name, Some(prefix))),
            Err(error) => Err(format!("{name} is not usable: {error}")),
        }
    }

    fn config(&self) -> Result<Config, String> {
        let extra_roots = match &self.ca_file {
            None => Vec::new(),
            Some(path) => {
                let pem =
                    fs::read(path).map_err(|error| format!("--ca-file '{}': {error}", path.display()))?;
                config::certificates(&pem)
                    .map_err(|error| format!("--ca-file '{}': {error}", path.display()))?
            }
        };
        Ok(Config {
            user_agent: self.user_agent()?,
            obey_robots: !self.ignore_robots,
            delay: self.delay,
            concurrency: self.concurrency,
            per_host: self.concurrency,
            connect_timeout: self.connect_timeout,
            timeout: self.timeout,
            max_page_bytes: self.max_page_bytes,
            resolve: self.resolve.clone(),
            extra_roots,
            allow_private: self.allow_private,
        })
    }

    fn user_agent(&self) -> Result<String, String> {
        let contact = self.contact.as_deref().map(Url::parse).transpose();
        let contact = contact.map_err(|error| format!("--contact: {error}; give an absolute URL"))?;
        let user_agent = match (&self.user_agent, contact) {
            (None, contact) => config::user_agent(contact.as_ref()),
            (Some(text), Some(contact)) => format!("{text} (+{contact})"),
            (Some(text), None) => text.clone(),
        };
        if user_agent.is_empty() || !user_agent.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return Err("--user-agent cannot be sent; use printable ASCII only".into());
        }
        Ok(user_agent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Typed::command().debug_assert();
    }
}
