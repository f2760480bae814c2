//! The options of distributed crawls, and the arguments of the commands that work on one.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crawler::internal::backend::WorkerId;
use crawler::internal::backend::redis::{Address, RedisConnectOptions, RedisCrawl};
use crawler::internal::distributed::{DEAD_AFTER, Notice, SharedCrawl};
use serde::{Deserialize, Serialize};

use super::crawl::CrawlOptions;
use super::dashboard;
use super::fetch::certificates;
use super::login::{LoginArgs, SECRET_OPTIONS};
use crate::printable::print_message;
use crate::values;

/// The default of `--crawl`.
const DEFAULT_CRAWL: &str = "crawl";

/// How often `crawler status --watch` shows the status by default.
const WATCH_INTERVAL: &str = "2s";

/// The heading of these options in the help.
const HEADING: &str = "Distributed crawl";

/// The help of `--redis` where it is required.
const REDIS_HELP: &str = "Redis to connect to: redis://[user:password@]host[:port][/db], rediss://..., redis+sentinel://host:port/NAME";

/// The help of `--module` where the modules are not listed.
pub const MODULE_HELP: &str = "Process each page with this module (see 'crawler crawl --help'); repeatable";

/// The options that the help of `crawler frontier` lists.
pub const FRONTIER_OPTIONS: [&str; 11] = [
    "stay",
    "redis",
    "crawl",
    "ca-file",
    "pagerank-url",
    "connect-timeout",
    "timeout",
    "resolve",
    "proxy",
    "no-proxy",
    "quiet",
];

/// The options that the help of `crawler worker` lists: those that can differ between machines.
pub const WORKER_OPTIONS: [&str; 24] = [
    "id",
    "stay",
    "redis",
    "crawl",
    "ca-file",
    "module",
    "overwrite",
    "concurrency",
    "user-agent",
    "contact",
    "robots-token",
    "connect-timeout",
    "timeout",
    "resolve",
    "header",
    "cookie",
    "cookies",
    "save-cookies",
    "auth",
    "bearer-token",
    "proxy",
    "no-proxy",
    "verbose",
    "quiet",
];

/// The options of `crawl` that `submit` does not have.
const NOT_FOR_SUBMIT: [&str; 9] =
    ["revisit-after", "state", "workers", "progress", "summary", "report", "save-cookies", "verbose", "wacz"];

/// Adapts the options of `crawl` to `crawler submit`.
pub fn adapt_submit(submit: clap::Command) -> clap::Command {
    submit.mut_args(|option| match option.get_long() {
        None => option.help("URLs to add (http or https)"),
        Some("redis") => required_redis(option),
        Some("crawl") => option.help_heading(None).display_order(1),
        Some("module") => option.help(MODULE_HELP),
        Some(name) if NOT_FOR_SUBMIT.contains(&name) || SECRET_OPTIONS.contains(&name) => option.hide(true),
        Some(name) if dashboard::OPTIONS.contains(&name) => option.hide(true),
        Some("quiet") => option.help("Print nothing unless an error occurs"),
        _ => option,
    })
}

/// Adapts the options of `crawl` to a role: only `listed` can be given. The others are hidden; a role takes them from the
/// crawl.
pub fn adapt_role(role: clap::Command, listed: &[&str]) -> clap::Command {
    let is_frontier = role.get_name() == "frontier";
    role.mut_args(move |option| {
        // Roles take no URLs; `RoleOptions::validate` reports them.
        let Some(name) = option.get_long().map(str::to_owned) else {
            return option.required(false).hide(true);
        };
        if !listed.contains(&name.as_str()) && !dashboard::ROLE_OPTIONS.contains(&name.as_str()) {
            return option.hide(true);
        }
        let option = match name.as_str() {
            "crawl" => option.help_heading(None).display_order(1),
            "ca-file" => option.help_heading(None).display_order(2),
            "id" => option.display_order(3),
            "stay" => option.display_order(4),
            "module" => option.help(MODULE_HELP),
            "concurrency" => option.help_heading("Network").display_order(0),
            "user-agent" => option.help("User-Agent header to send").help_heading("Network"),
            "contact" | "robots-token" => option.help_heading("Network"),
            "connect-timeout" | "timeout" | "resolve" | "proxy" | "no-proxy" if is_frontier => {
                option.help_heading("PageRank")
            }
            "pagerank-url" => option.help_heading("PageRank").display_order(0),
            "verbose" => option.help("Print the outcome of each URL"),
            _ => option,
        };
        match name.as_str() {
            "redis" => required_redis(option),
            "crawl" => option,
            // The defaults that clap knows are those of `crawl`; a role's defaults are the crawl's settings.
            _ => {
                let takes_value = option.get_action().takes_values();
                option.hide_default_value(takes_value)
            }
        }
    })
}

fn required_redis(option: clap::Arg) -> clap::Arg {
    option.required(true).help(REDIS_HELP).help_heading(None).display_order(0)
}

/// The options of a distributed crawl, as parsed. The Redis URL is never serialized: it may contain a password.
#[derive(clap::Args, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct DistributedArgs {
    /// Run a distributed crawl: start a frontier and --workers worker processes that coordinate through this Redis
    /// [without a URL: the value of CRAWLER_REDIS]
    #[arg(long, value_name = "URL", num_args = 0..=1, default_missing_value = "", conflicts_with = "state", help_heading = HEADING)]
    #[serde(skip)]
    pub redis: Option<String>,
    /// Name of the crawl in Redis
    #[arg(long, value_name = "NAME", default_value = DEFAULT_CRAWL, value_parser = values::crawl_name, help_heading = HEADING)]
    #[serde(skip, default = "default_crawl")]
    pub crawl: String,
    /// Heartbeat timeout after which a process is declared dead and its work is reassigned
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = values::dead_after, help_heading = HEADING)]
    #[serde(default = "default_dead_after")]
    pub dead_after: Duration,
    /// Number of Redis replicas that must confirm each write of the frontier before the next one [default: 1 if Redis has
    /// replicas, otherwise 0]
    #[arg(long, value_name = "N", value_parser = values::replicas, help_heading = HEADING)]
    #[serde(default)]
    pub replicas: Option<u8>,
}

fn default_crawl() -> String {
    DEFAULT_CRAWL.into()
}

fn default_dead_after() -> Duration {
    DEAD_AFTER
}

impl DistributedArgs {
    /// The distributed crawl, if `--redis` was given. It reports to `notice`.
    pub fn shared_crawl(
        &self,
        ca_file: Option<&Path>,
        notice: Notice,
    ) -> Result<Option<SharedCrawl>, String> {
        let Some(redis) = &self.redis else { return Ok(None) };
        let mut redis = redis_crawl(redis, &self.crawl, ca_file, &notice)?;
        redis.replicas = self.replicas;
        Ok(Some(SharedCrawl { redis, dead_after: self.dead_after, notice }))
    }
}

fn redis_crawl(
    redis: &str,
    crawl: &str,
    ca_file: Option<&Path>,
    notice: &Notice,
) -> Result<RedisCrawl, String> {
    let password = env::var("CRAWLER_REDIS_PASSWORD").ok();
    let address =
        Address::parse(&redis_url(redis)?, password.as_deref()).map_err(|error| error.to_string())?;
    let extra_roots = certificates(ca_file)?;
    let connect_options =
        RedisConnectOptions { notice: Arc::clone(notice), extra_roots, ..RedisConnectOptions::default() };
    Ok(RedisCrawl { connect_options, ..RedisCrawl::new(address, crawl) })
}

/// The URL of Redis: the value of `--redis`, which is empty if neither the command line nor the settings have one.
pub fn redis_url(redis: &str) -> Result<String, String> {
    match redis {
        "" => Err("--redis has no value; give a URL, or set the variable CRAWLER_REDIS".into()),
        redis => Ok(redis.to_owned()),
    }
}

/// A distributed crawl: the URL of Redis and the name of the crawl.
#[derive(clap::Args, Debug, Clone)]
pub struct RedisArgs {
    #[arg(help = REDIS_HELP, long, value_name = "URL", num_args = 0..=1, default_missing_value = "", required = true)]
    redis: Option<String>,
    /// Name of the crawl in Redis
    #[arg(long, value_name = "NAME", default_value = DEFAULT_CRAWL, value_parser = values::crawl_name)]
    crawl: String,
    /// Also trust the CA certificates in this PEM file, for rediss://
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

impl RedisArgs {
    /// Checks the arguments.
    pub fn validate(&self) -> Result<SharedCrawl, String> {
        let notice: Notice = Arc::new(print_message);
        let url = self.redis.as_deref().unwrap_or_default();
        let mut redis = redis_crawl(url, &self.crawl, self.ca_file.as_deref(), &notice)?;
        // A user waits for the result, so an unreachable Redis is an error at once.
        redis.connect_options.retry_forever = false;
        Ok(SharedCrawl { redis, dead_after: DEAD_AFTER, notice })
    }
}

/// The same, where the crawl may be in a state directory instead.
#[derive(clap::Args, Debug, Clone)]
pub struct OptionalRedisArgs {
    /// URL of Redis, for a distributed crawl [without a URL: the value of CRAWLER_REDIS]
    #[arg(long, value_name = "URL", num_args = 0..=1, default_missing_value = "")]
    redis: Option<String>,
    /// Name of the crawl in Redis
    #[arg(long, value_name = "NAME", default_value = DEFAULT_CRAWL, value_parser = values::crawl_name)]
    crawl: String,
    /// Also trust the CA certificates in this PEM file, for rediss://
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

impl OptionalRedisArgs {
    /// Checks the arguments.
    pub fn validate(&self, notice: Notice) -> Result<Option<SharedCrawl>, String> {
        let Some(redis) = &self.redis else { return Ok(None) };
        let redis = redis_crawl(redis, &self.crawl, self.ca_file.as_deref(), &notice)?;
        Ok(Some(SharedCrawl { redis, dead_after: DEAD_AFTER, notice }))
    }
}

/// The options of `crawler frontier`, and those that `crawler worker` shares with it.
#[derive(clap::Args)]
pub struct RoleOptions {
    /// Keep running when the crawl finishes, and wait until it is reopened
    #[arg(long)]
    pub stay: bool,
    #[command(flatten)]
    pub options: CrawlOptions,
}

/// The options of `crawler worker`.
#[derive(clap::Args)]
pub struct WorkerOptions {
    /// Number of this worker; a restarted worker with the same number continues its part files [default: the first free
    /// one]
    #[arg(long, value_name = "N", value_parser = values::worker_id)]
    pub id: Option<u16>,
    #[command(flatten)]
    pub role: RoleOptions,
}

/// The role of a process in a distributed crawl.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoleKind {
    Frontier,
    Worker(Option<WorkerId>),
}

impl RoleOptions {
    /// Checks the arguments.
    pub fn validate(mut self, role: &str) -> Result<RoleOptions, String> {
        match role {
            "worker" => self.options.fetch.resolve_logins()?,
            _ => self.options.fetch.login = LoginArgs::none(),
        }
        if !self.options.seeds.is_empty() {
            return Err(format!("'crawler {role}' takes no URLs; add them with 'crawler submit'"));
        }
        Ok(self)
    }
}

/// The options of `crawler status`.
#[derive(clap::Args)]
pub struct StatusOptions {
    /// State directory of the crawl: the DIR of its --state
    #[arg(value_name = "DIR")]
    pub directory: Option<PathBuf>,
    #[command(flatten)]
    pub redis: RedisArgs,
    /// Print the status as one JSON object
    #[arg(long, conflicts_with = "quiet")]
    pub json: bool,
    /// Print nothing; the exit status is the result
    #[arg(short, long)]
    pub quiet: bool,
    /// Also print the lengths of the queues
    #[arg(short, long, conflicts_with = "quiet")]
    pub verbose: bool,
    /// Print nothing; exit with 0 if Redis can be used, even if the crawl has not started
    #[arg(long, conflicts_with_all = ["json", "quiet"])]
    pub ready: bool,
    /// Show the status repeatedly until the crawl ends [default: every 2s]
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = WATCH_INTERVAL, conflicts_with_all = ["quiet", "ready"])]
    watch: Option<String>,
    /// The time of `--watch`.
    #[arg(skip)]
    pub interval: Option<Duration>,
}

/// Adapts the options to `crawler status`, which need no Redis for a state.
pub fn adapt_status(status: clap::Command) -> clap::Command {
    status.mut_arg("redis", |redis| redis.required(false))
}

impl StatusOptions {
    /// Checks the arguments.
    pub fn validate(mut self) -> Result<StatusOptions, String> {
        self.interval = match self.watch.take() {
            None => None,
            Some(watch) => match values::watch_interval(&watch) {
                Ok(interval) => Some(interval),
                // `status --watch DIR`: a path is no time.
                Err(_)
                    if self.directory.is_none()
                        && (self.redis.redis.is_none() || Path::new(&watch).is_dir()) =>
                {
                    self.directory = Some(watch.into());
                    values::watch_interval(WATCH_INTERVAL).ok()
                }
                Err(error) => return Err(format!("--watch '{watch}' is invalid: {error}")),
            },
        };
        match (&self.directory, &self.redis.redis) {
            (None, None) => {
                Err("missing <DIR> or --redis <URL> (or the variable CRAWLER_REDIS), to select the crawl"
                    .into())
            }
            (Some(_), _) if self.ready => {
                Err("--ready is for distributed crawls; omit it, or omit DIR".into())
            }
            _ => Ok(self),
        }
    }
}

/// The options of `crawler purge`.
#[derive(clap::Args)]
pub struct PurgeOptions {
    #[command(flatten)]
    pub redis: RedisArgs,
    /// Stop the crawl's processes first; without --force, a crawl with running processes is not deleted
    #[arg(long)]
    pub force: bool,
}
