//! The arguments of the commands that change a running crawl: `crawler pause`, `unpause`, `change` and `stop`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crawler::internal::live_settings::ControlAction;

use super::CrawlSource;
use super::distributed::OptionalRedisArgs;
use crate::printable::print_message;
use crate::values;

/// The crawl to change, as parsed.
#[derive(clap::Args)]
pub struct RunningCrawlArgs {
    /// State directory of the crawl: the DIR of its --state
    #[arg(value_name = "DIR", conflicts_with = "redis")]
    directory: Option<PathBuf>,
    #[command(flatten)]
    redis: OptionalRedisArgs,
    /// Print nothing unless an error occurs
    #[arg(short, long)]
    quiet: bool,
}

/// The arguments of `crawler change`. No option has the name of one of `crawler crawl`, whose variable or setting would be applied
/// to the running crawl, too.
#[derive(clap::Args)]
pub struct ChangeArgs {
    #[command(flatten)]
    crawl: RunningCrawlArgs,
    /// Set the delay between requests to a host, also for hosts that are known already
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    set_delay: Option<Duration>,
    /// Set the maximum number of pages
    #[arg(long, value_name = "N", value_parser = values::count)]
    set_max_pages: Option<u64>,
    /// Set the maximum size of response bodies
    #[arg(long, value_name = "SIZE", value_parser = values::large_size)]
    set_max_bytes: Option<u64>,
    /// Set the maximum time, or remove it: unlimited
    #[arg(long, value_name = "TIME", value_parser = max_time)]
    set_max_time: Option<MaxTime>,
    /// Send no further request to this host, and skip its URLs; repeatable
    #[arg(long, value_name = "HOST")]
    block_host: Vec<String>,
    /// Skip all URLs that match this regular expression; repeatable
    #[arg(long, value_name = "REGEX")]
    block_pattern: Vec<String>,
    /// Add a seed, which extends the scope; repeatable
    #[arg(long, value_name = "URL")]
    add_seed: Vec<String>,
}

/// A maximum time, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct MaxTime(Option<Duration>);

/// Checked changes of a crawl that another process runs.
pub struct ChangeJob {
    pub source: CrawlSource,
    pub actions: Vec<ControlAction>,
    pub is_quiet: bool,
}

impl RunningCrawlArgs {
    /// Checks the arguments.
    pub fn validate(self, actions: Vec<ControlAction>) -> Result<ChangeJob, String> {
        let source = match (self.directory, self.redis.validate(Arc::new(print_message))?) {
            (Some(directory), _) => CrawlSource::State(directory),
            (None, Some(mut shared)) => {
                // A user waits for the result, so an unreachable Redis is an error at once.
                shared.redis.connect_options.retry_forever = false;
                CrawlSource::Redis(Box::new(shared))
            }
            (None, None) => {
                return Err(
                    "missing <DIR> or --redis <URL> (or the variable CRAWLER_REDIS), to select the crawl"
                        .into(),
                );
            }
        };
        // All are checked before the first one changes the crawl.
        actions.iter().try_for_each(ControlAction::check)?;
        Ok(ChangeJob { source, actions, is_quiet: self.quiet })
    }
}

impl ChangeArgs {
    /// Checks the arguments.
    pub fn validate(self) -> Result<ChangeJob, String> {
        let mut actions = Vec::new();
        actions.extend(self.set_delay.map(ControlAction::SetDelay));
        // Before what may end the crawl, such as a block of the only host that has pending URLs.
        actions.extend(self.add_seed.iter().map(|seed| ControlAction::AddSeed(values::seed_text(seed))));
        actions.extend(self.set_max_pages.map(ControlAction::SetMaxPages));
        actions.extend(self.set_max_bytes.map(ControlAction::SetMaxBytes));
        actions.extend(self.set_max_time.map(|MaxTime(time)| ControlAction::SetMaxTime(time)));
        actions.extend(self.block_host.into_iter().map(ControlAction::BlockHost));
        actions.extend(self.block_pattern.into_iter().map(ControlAction::BlockPattern));
        if actions.is_empty() {
            return Err("nothing to change; give at least one of the options, such as --set-delay".into());
        }
        self.crawl.validate(actions)
    }
}

fn max_time(text: &str) -> Result<MaxTime, String> {
    match text {
        "unlimited" => Ok(MaxTime(None)),
        text => values::long_time(text).map(|time| MaxTime(Some(time))),
    }
}
