//! The arguments of `crawler resume DIR`: the options of `crawler crawl` that can change, and URLs to add.

use std::path::PathBuf;

use clap::builder::Resettable;
use crawler::internal::backend::durable::Recrawl;

use super::crawl::{CrawlOptions, absolute};
use super::distributed::MODULE_HELP;

/// The options of `crawl` that `resume` does not list: those that cannot change, which the library explains.
const FIXED: [&str; 4] = ["strip-query", "max-depth", "similarity", "seeds"];

/// The options of `crawl` that are not for a crawl with a state.
const NOT_FOR_RESUME: [&str; 5] = ["state", "redis", "crawl", "dead-after", "replicas"];

/// The options of `crawler resume`.
#[derive(clap::Args, Clone)]
pub struct ResumeOptions {
    /// State directory of the crawl: the DIR of its --state
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Fetch URLs again that failed temporarily
    #[arg(long)]
    pub retry_failed: bool,
    /// Whether the known URLs are visited again.
    #[arg(skip)]
    pub is_recrawl: bool,
    #[command(flatten)]
    pub options: CrawlOptions,
}

/// Adapts the options of `crawl` to `crawler resume`.
pub fn adapt(resume: clap::Command) -> clap::Command {
    resume.mut_args(|option| match option.get_long() {
        None if option.get_id() == "seeds" => {
            option.required_unless_present(Resettable::Reset).help("URLs to add (http or https)")
        }
        Some(name) if NOT_FOR_RESUME.contains(&name) || FIXED.contains(&name) => option.hide(true),
        Some("module") => option.hide_default_value(true).help(MODULE_HELP),
        Some("overwrite") => option.help("Replace existing files of outputs that are added"),
        Some(_) if option.get_action().takes_values() => without_default(option),
        _ => option,
    })
}

/// Adapts the options of `resume` to `crawler recrawl`.
pub fn adapt_recrawl(recrawl: clap::Command) -> clap::Command {
    recrawl.mut_args(|option| match option.get_long() {
        // All URLs that failed are visited again.
        Some("retry-failed") => option.hide(true),
        Some("revisit-after") => option.help(
            "Visit only URLs whose last visit was at least TIME ago, or with 'auto' those that are due, depending on how often \
             they change [default: all]",
        ),
        _ => option,
    })
}

/// The option without its default in the help: the default is the value that the crawl has.
fn without_default(option: clap::Arg) -> clap::Arg {
    let help = option.get_help().map(ToString::to_string).unwrap_or_default();
    let help = help.split(" [default: ").next().unwrap_or_default().to_owned();
    option.hide_default_value(true).help(help)
}

/// Whether `resume` accepts an option that it does not list: an equal value changes nothing.
pub fn accepts(option: &str) -> bool {
    FIXED.contains(&option)
}

impl ResumeOptions {
    /// Checks the arguments.
    pub fn validate(mut self) -> Result<ResumeOptions, String> {
        self.directory = absolute("DIR", &self.directory)?;
        self.options.fetch.resolve_logins()?;
        self.options.complete_seeds();
        Ok(self)
    }

    /// The saved options of the crawl, with those that change now.
    pub fn merged_over(self, saved: CrawlOptions) -> Result<CrawlOptions, String> {
        let ResumeOptions { directory, retry_failed, is_recrawl, options: mut now } = self;
        // The rule of a continuous crawl does not apply to one visit.
        let recrawl = is_recrawl.then(|| Recrawl { revisit_after: now.revisit_after.take() });
        now.explicit.retain(|name| !(is_recrawl && name == "revisit-after"));
        let is_given = |name: &str| now.explicit.iter().any(|given| given == name);
        // Verbosity and progress are one choice: giving one of the options replaces all of them.
        let display = ["verbose", "quiet", "progress"].into_iter().any(is_given);
        let display = display.then_some((now.fetch.verbose, now.fetch.quiet, now.progress));
        // A list cannot change; the library says why. An equal one changes nothing.
        let seed_files = is_given("seeds").then(|| now.sources.seed_files.clone());
        let (overwrite, forgotten) = (now.overwrite, saved.forgotten_credentials.clone());
        let mut merged = now.merged_over(saved)?;
        if let Some(display) = display {
            (merged.fetch.verbose, merged.fetch.quiet, merged.progress) = display;
        }
        merged.sources.seed_files = seed_files.unwrap_or(merged.sources.seed_files);
        merged.forgotten_credentials = merged.without_credentials_for(forgotten);
        merged.state = Some(directory);
        // Files that are named later must not be deleted because of an earlier command.
        merged.overwrite = overwrite;
        merged.retry_failed = retry_failed;
        merged.recrawl = recrawl;
        merged.is_resumed = true;
        Ok(merged)
    }
}
