//! The options of crawls that many processes share over Redis, and the command lines of their roles.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crawler::internal::backend::WorkerId;
use crawler::internal::backend::redis::{Address, RedisConnectOptions, RedisCrawl, is_name};
use crawler::internal::distributed::{DEAD_AFTER, Notice, SharedCrawl};
use serde::{Deserialize, Serialize};

use super::crawl::CrawlOptions;
use super::fetch::certificates;
use crate::printable::print_error;
use crate::values;

/// The crawl that is meant where none is named.
const CRAWL: &str = "crawl";

/// What the help says of where Redis is, where a crawl is begun.
const KEEP_ON_REDIS: &str = "Keep the crawl on this Redis, and let a frontier and --workers processes work on it: redis://[user:password@]host[:port][/db], rediss://, redis+sentinel://host,host/NAME [without a URL: CRAWLER_REDIS in the environment; password: CRAWLER_REDIS_PASSWORD]";

/// The same for those who join it.
const WHERE_REDIS_IS: &str = "Where Redis is: redis://[user:password@]host[:port][/db], rediss://, redis+sentinel://host,host/NAME [password: CRAWLER_REDIS_PASSWORD]";

/// What was typed about sharing. Where Redis is stays with whoever was told: there may be a password in it.
#[derive(clap::Args, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct DistributedArgs {
    /// Where Redis is.
    #[arg(help = KEEP_ON_REDIS, long, value_name = "URL", num_args = 0..=1, default_missing_value = "", conflicts_with = "state", hide_env_values = true, help_heading = "Many processes")]
    #[serde(skip)]
    pub redis: Option<String>,
    /// The name of the crawl on Redis
    #[arg(long, value_name = "NAME", default_value = CRAWL, help_heading = "Many processes")]
    #[serde(skip, default = "default_crawl")]
    pub crawl: String,
    /// How long a process may be silent before others take over what it had
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = values::dead_after, allow_negative_numbers = true, help_heading = "Many processes")]
    #[serde(default = "default_dead_after")]
    pub dead_after: Duration,
    /// Into how many parts the URLs are divided, by domain [default: 1, and 16 on a Redis Cluster]
    #[arg(long, value_name = "N", value_parser = values::workers, allow_negative_numbers = true, help_heading = "Many processes")]
    #[serde(default)]
    pub partitions: Option<u16>,
    /// How many replicas must have a page's links before the page counts as done [default: 1 where there are any]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=8), allow_negative_numbers = true, help_heading = "Many processes")]
    #[serde(default)]
    pub replicas: Option<u8>,
}

fn default_crawl() -> String {
    CRAWL.into()
}

fn default_dead_after() -> Duration {
    DEAD_AFTER
}

impl DistributedArgs {
    /// How the crawl is shared, if it is; what happens is told to `notice`.
    pub fn sharing(&self, ca_file: Option<&Path>, notice: Notice) -> Result<Option<SharedCrawl>, String> {
        let Some(redis) = &self.redis else { return Ok(None) };
        let mut place = place(redis, &self.crawl, ca_file, &notice)?;
        (place.partitions, place.replicas) = (self.partitions, self.replicas);
        Ok(Some(SharedCrawl { redis: place, dead_after: self.dead_after, notice }))
    }
}

fn place(redis: &str, crawl: &str, ca_file: Option<&Path>, notice: &Notice) -> Result<RedisCrawl, String> {
    if !is_name(crawl) {
        return Err(format!(
            "--crawl {crawl:?} cannot be the name of a crawl; take up to 64 letters, digits, dots, dashes and underscores"
        ));
    }
    let password = env::var("CRAWLER_REDIS_PASSWORD").ok();
    let address = Address::parse(&address(redis)?, password.as_deref()).map_err(|wrong| wrong.to_string())?;
    let extra_roots = certificates(ca_file)?;
    let manner =
        RedisConnectOptions { notice: Arc::clone(notice), extra_roots, ..RedisConnectOptions::default() };
    Ok(RedisCrawl { manner, ..RedisCrawl::new(address, crawl) })
}

/// Where Redis is, with what only the environment tells.
pub fn address(redis: &str) -> Result<String, String> {
    match redis {
        "" => env::var("CRAWLER_REDIS")
            .map_err(|_| "--redis needs a URL, or CRAWLER_REDIS in the environment".into()),
        redis => Ok(redis.to_owned()),
    }
}

/// Which crawl, on which Redis.
#[derive(clap::Args, Debug, Clone)]
pub struct RedisArgs {
    /// Where it is.
    #[arg(help = WHERE_REDIS_IS, long, value_name = "URL", num_args = 0..=1, default_missing_value = "", env = "CRAWLER_REDIS", hide_env_values = true)]
    redis: String,
    /// The name of the crawl on Redis
    #[arg(long, value_name = "NAME", env = "CRAWLER_CRAWL", default_value = CRAWL)]
    crawl: String,
    /// Trust the certificates in this PEM file too
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

impl RedisArgs {
    /// Checks what was typed.
    pub fn validate(&self) -> Result<SharedCrawl, String> {
        let notice: Notice = Arc::new(print_error);
        let mut place = place(&self.redis, &self.crawl, self.ca_file.as_deref(), &notice)?;
        // Somebody waits for the answer.
        place.manner.endures = false;
        Ok(SharedCrawl { redis: place, dead_after: DEAD_AFTER, notice })
    }
}

/// The same where there may be none.
#[derive(clap::Args, Debug, Clone)]
pub struct OptionalRedisArgs {
    /// Where Redis is, for a crawl that processes share [without a URL: CRAWLER_REDIS in the environment]
    #[arg(long, value_name = "URL", num_args = 0..=1, default_missing_value = "")]
    redis: Option<String>,
    /// The name of the crawl on Redis
    #[arg(long, value_name = "NAME", env = "CRAWLER_CRAWL", default_value = CRAWL)]
    crawl: String,
    /// Trust the certificates in this PEM file too
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

impl OptionalRedisArgs {
    /// Checks what was typed.
    pub fn validate(&self, notice: Notice) -> Result<Option<SharedCrawl>, String> {
        let Some(redis) = &self.redis else { return Ok(None) };
        let place = place(redis, &self.crawl, self.ca_file.as_deref(), &notice)?;
        Ok(Some(SharedCrawl { redis: place, dead_after: DEAD_AFTER, notice }))
    }
}

/// What `crawler frontier` was told.
#[derive(clap::Args)]
pub struct RoleOptions {
    /// Stay when the crawl is over, and wait for it to be opened again
    #[arg(long)]
    pub stay: bool,
    #[command(flatten)]
    pub options: CrawlOptions,
}

/// What `crawler worker` was told.
#[derive(clap::Args)]
pub struct WorkerOptions {
    /// Which worker to be; one that died is taken up where it was [default: the first that is free]
    #[arg(long, value_name = "K")]
    pub id: Option<u16>,
    #[command(flatten)]
    pub role: RoleOptions,
}

/// Which role a process has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoleKind {
    Frontier,
    Worker(Option<WorkerId>),
}

impl RoleOptions {
    /// Checks what was typed.
    pub fn validate(self) -> Result<RoleOptions, String> {
        if !self.options.seeds.is_empty() {
            return Err("a role takes no URLs; give them to 'crawler submit'".into());
        }
        Ok(self)
    }
}

/// What `crawler status` was told.
#[derive(clap::Args)]
pub struct StatusOptions {
    #[command(flatten)]
    pub place: RedisArgs,
    /// Print one JSON object
    #[arg(long, conflicts_with = "quiet")]
    pub json: bool,
    /// Print nothing: the exit status tells
    #[arg(short, long)]
    pub quiet: bool,
    /// Print nothing, and tell by the exit status whether Redis can be used, also before the crawl has begun
    #[arg(long, conflicts_with_all = ["json", "quiet"])]
    pub ready: bool,
}

/// What `crawler purge` was told.
#[derive(clap::Args)]
pub struct PurgeOptions {
    #[command(flatten)]
    pub place: RedisArgs,
    /// Also while processes are at work on it: they are told to end first
    #[arg(long)]
    pub force: bool,
}
