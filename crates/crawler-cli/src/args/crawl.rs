//! The arguments of `crawler crawl URL…`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{FromArgMatches, ValueEnum};
use crawler::internal::backend::durable::Recrawl;
use crawler::internal::config::{FetchConfig, Oversize};
use crawler::internal::distributed::{Notice, SharedCrawl};
use crawler::internal::origin::without_credentials;
use crawler::internal::pipeline::CrawlerInternals as _;
use crawler::internal::prioritizer::{PageRank, PriorityQueues, Random, pagerank};
use crawler::internal::scope::rejecting_private;
use crawler::internal::similarity::Threshold;
use crawler::internal::task::Depth;
use crawler::internal::visit::RevisitAfter;
use crawler::{CookieJar, Crawler, Error, Politeness, Scope};
use serde::{Deserialize, Serialize, Serializer};
use url::Url;

use super::check::CheckReport;
use super::dashboard::DashboardArgs;
use super::distributed::DistributedArgs;
use super::outputs::{is_program, output_path, writes_to_stdout};
use super::proxy::PROXY_VARIABLE;
use super::sources::SourceArgs;
use super::{FetchArgs, Verbosity};
use crate::commands::crawl::saved_options::SavedOptions;
use crate::commands::crawl::summary_file::is_stdout;
use crate::printable::print_error;
use crate::report::file::report_path;
use crate::seed_files::SeedFiles;
use crate::values;

/// The default of `--similarity`.
pub const DEFAULT_SIMILARITY: f64 = 0.9;

/// The default of `--max-page-bytes`, and that of a mirror.
pub const DEFAULT_PAGE_BYTES: usize = 500_000;
pub const MIRROR_PAGE_BYTES: usize = 10_000_000;

/// The options of `crawler crawl`. They are serialized into the crawl's state; each key is the name of its option.
#[derive(clap::Args, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct CrawlOptions {
    /// URLs to start from (http or https)
    #[arg(value_name = "URL", required = true)]
    #[serde(serialize_with = "seeds_without_credentials")]
    pub seeds: Vec<String>,
    #[command(flatten)]
    #[serde(flatten)]
    pub sources: SourceArgs,

    /// Process each page with this module (see Modules below); repeatable
    #[arg(long, value_name = "NAME[=ARGS]", default_value = "noop", value_parser = values::module, help_heading = "Pages")]
    pub module: Vec<String>,
    /// Delete the output files of earlier crawls first
    #[arg(long, help_heading = "Pages")]
    pub overwrite: bool,
    /// Similarity (Dice, 0 to 1) from which a page is dropped as a near-duplicate; 1 drops only exact duplicates, 0 none
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SIMILARITY, value_parser = values::similarity, help_heading = "Pages")]
    pub similarity: f64,
    /// Follow the links on pages that are dropped as duplicates or near-duplicates
    #[arg(long, help_heading = "Pages")]
    pub follow_duplicates: bool,
    /// Also fetch the images, stylesheets, scripts and fonts of pages from other sites, for outputs that keep them
    #[arg(long, help_heading = "Pages")]
    #[serde(default)]
    pub requisites: bool,
    /// Do not store page bodies; keep only fingerprints for duplicate detection
    #[arg(long, help_heading = "Pages")]
    pub no_content: bool,

    /// Links to follow: any, or only those in the registrable domain, on the host, or below the URL prefix of a seed
    #[arg(long, value_name = "SCOPE", value_enum, default_value = "any", help_heading = "Scope")]
    pub scope: ScopeKind,
    /// Follow only URLs that match this regular expression; repeatable: one of them must match
    #[arg(long, value_name = "REGEX", value_parser = values::pattern, help_heading = "Scope")]
    pub include: Vec<String>,
    /// Do not follow URLs that match this regular expression; repeatable
    #[arg(long, value_name = "REGEX", value_parser = values::pattern, help_heading = "Scope")]
    pub exclude: Vec<String>,
    /// Maximum number of links to follow from a seed; 0 fetches the seeds alone [default: unlimited]
    #[arg(long, value_name = "N", value_parser = values::depth, help_heading = "Scope")]
    pub max_depth: Option<Depth>,

    /// Stop after N pages
    #[arg(long, value_name = "N", default_value = "10000", value_parser = values::count, help_heading = "Limits")]
    pub max_pages: u64,
    /// Stop after SIZE of response bodies, received or decoded, whichever is more
    #[arg(long, value_name = "SIZE", default_value = "50MB", value_parser = values::large_size, help_heading = "Limits")]
    pub max_bytes: u64,
    /// Stop after TIME [default: unlimited]
    #[arg(long, value_name = "TIME", value_parser = values::long_time, help_heading = "Limits")]
    pub max_time: Option<Duration>,
    /// Visit each URL again TIME after its last visit, or with 'auto' at an interval that depends on how often it changes; the
    /// crawl then runs until it is stopped
    #[arg(long, value_name = "TIME", value_parser = values::revisit_after, help_heading = "Limits")]
    #[serde(default)]
    pub revisit_after: Option<RevisitAfter>,
    /// Maximum pages per host [default: unlimited]
    #[arg(long, value_name = "N", value_parser = values::count, help_heading = "Limits")]
    pub max_pages_per_host: Option<u64>,
    /// Maximum pages per site (all hosts of a registrable domain) [default: unlimited]
    #[arg(long, value_name = "N", value_parser = values::count, help_heading = "Limits")]
    pub max_pages_per_site: Option<u64>,

    /// Give up a host after N consecutive failures to connect or to respond in time; its other URLs are not requested
    #[arg(long, value_name = "N", default_value = "6", value_parser = values::failures, help_heading = "Limits")]
    pub max_host_failures: u32,
    /// How long to wait while the network of this machine is down; URLs do not fail meanwhile
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = values::long_time, help_heading = "Limits")]
    pub network_timeout: Duration,

    #[command(flatten)]
    #[serde(flatten)]
    pub fetch: FetchArgs,
    /// What to do with a page larger than --max-page-bytes: truncate it there, or drop it
    #[arg(
        long,
        value_name = "RULE",
        value_enum,
        default_value = "truncate",
        help_heading = "Limits",
        display_order = 91
    )]
    pub oversize: OversizeRule,
    /// Maximum requests in flight per host; if more than 1, the delay applies between request starts
    #[arg(long, value_name = "N", default_value = "1", value_parser = values::concurrency, help_heading = "Politeness", display_order = 4)]
    pub per_host: usize,
    /// Delay between request starts to a site (all hosts of a registrable domain) [default: a quarter of --delay]
    #[arg(long, value_name = "TIME", value_parser = values::duration, help_heading = "Politeness", display_order = 2)]
    pub site_delay: Option<Duration>,
    /// Delay between request starts to an IP address, over all hosts that it serves
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = values::duration, help_heading = "Politeness", display_order = 3)]
    pub address_delay: Duration,

    /// Progress on standard error: auto shows live lines on a terminal, plain lines elsewhere
    #[arg(
        long,
        value_name = "FORM",
        value_enum,
        default_value = "auto",
        conflicts_with = "quiet",
        help_heading = "Output"
    )]
    pub progress: ProgressForm,
    /// Also write the summary to this file, as JSON; '-' is standard output
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub summary: Option<PathBuf>,
    /// Also write a report on the crawl to this file when it ends: HTML with charts (.html) or Markdown (.md)
    #[arg(long, value_name = "FILE", value_parser = report_path, help_heading = "Output")]
    #[serde(default)]
    pub report: Option<PathBuf>,

    #[command(flatten)]
    #[serde(skip)]
    pub dashboard: DashboardArgs,

    /// Store the crawl's state in this directory, which is created if missing; to continue the crawl after any interruption, run
    /// 'crawler resume DIR' or the same command
    #[arg(long, value_name = "DIR", help_heading = "State")]
    pub state: Option<PathBuf>,

    #[command(flatten)]
    #[serde(flatten)]
    pub distributed: DistributedArgs,

    /// Number of workers; each host is fetched by one worker at a time [default: number of CPU cores]
    #[arg(long, value_name = "N", value_parser = values::workers, help_heading = "Workers")]
    pub workers: Option<u16>,
    /// Maximum requests in flight per worker
    #[arg(long, value_name = "N", default_value = "64", value_parser = values::concurrency, help_heading = "Workers")]
    pub concurrency: usize,

    /// Capacity of the URL queue, and of each worker's queue, in URLs; more URLs wait in storage
    #[arg(long, value_name = "N", default_value = "10000", value_parser = values::queue_size, help_heading = "Frontier")]
    pub queue_size: usize,
    /// Number of priority queues, each for an equal part of the priorities 0 to 100
    #[arg(long, value_name = "N", default_value = "10", value_parser = values::priority_queues, help_heading = "Frontier")]
    pub priority_queues: usize,
    /// Take priorities from this Open PageRank service; its API key is in CRAWLER_PAGERANK_KEY
    #[arg(long, value_name = "URL", help_heading = "Frontier")]
    #[serde(serialize_with = "url_without_credentials")]
    pub pagerank_url: Option<String>,
    /// Time after its last use at which a domain can move to another worker
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = values::long_time, help_heading = "Frontier")]
    pub domain_ttl: Duration,
    /// How long to store page bodies; with --redis, also how long to keep the crawl after its end
    #[arg(long, value_name = "TIME", default_value = "unlimited", value_parser = values::ttl, help_heading = "Frontier")]
    pub ttl: Duration,

    /// The report of a link check, if `crawler check` started the crawl.
    #[arg(skip)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<CheckReport>,
    /// Whether `resume` fetches URLs again that failed temporarily.
    #[arg(skip)]
    #[serde(skip)]
    pub retry_failed: bool,
    /// Whether `recrawl` visits the known URLs again, and which of them.
    #[arg(skip)]
    #[serde(skip)]
    pub recrawl: Option<Recrawl>,
    /// Hosts whose credentials were given to an earlier process and are not stored.
    #[arg(skip)]
    #[serde(skip)]
    pub forgotten_credentials: Vec<String>,
    /// Options for logins that were given to an earlier process. Their values are not stored.
    #[arg(skip)]
    #[serde(skip)]
    pub forgotten_logins: Vec<String>,
    /// Whether the crawl was started with a proxy, which is not stored.
    #[arg(skip)]
    #[serde(skip)]
    pub forgotten_proxy: bool,
    /// The names of the options that were given for this command, rather than for all of them.
    #[arg(skip)]
    #[serde(skip)]
    pub explicit: Vec<String>,
    /// Whether the crawl was started before and these are its saved options.
    #[arg(skip)]
    #[serde(skip)]
    pub is_resumed: bool,
}

/// Gives options that `crawl` shares with the classic crawl their help for a crawl of many hosts.
pub fn adapt_help(crawl: clap::Command) -> clap::Command {
    crawl
        .mut_arg("seeds", |seeds| seeds.required(false).required_unless_present("seed_files"))
        .mut_arg("max_page_bytes", |option| option.help("Maximum size of a page, received and decoded"))
        .mut_arg("verbose", |option| option.help("Print the outcome of each URL"))
}

/// The names of the options that are saved with a crawl.
pub fn saved_option_names() -> Vec<String> {
    match CrawlOptions::defaults().and_then(|options| serde_json::to_value(options).ok()) {
        Some(serde_json::Value::Object(saved)) => saved.into_iter().map(|(name, _)| name).collect(),
        _ => Vec::new(),
    }
}

/// The links to follow, relative to the seeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScopeKind {
    Any,
    Domain,
    Host,
    Prefix,
}

/// What happens to a page that is larger than the maximum size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OversizeRule {
    Truncate,
    Drop,
}

/// The form of the progress display.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProgressForm {
    // Live on a terminal, plain elsewhere. Not a doc comment, because clap would print it in the help.
    Auto,
    Plain,
    Json,
}

/// A checked crawl.
pub struct CrawlJob {
    /// The crawl.
    pub crawler: Crawler,
    /// Its options.
    pub options: CrawlOptions,
    /// The cookies of the crawl.
    pub cookies: Option<CookieJar>,
}

impl CrawlOptions {
    /// The options if only a seed is given.
    pub fn defaults() -> Option<CrawlOptions> {
        let command = <CrawlOptions as clap::Args>::augment_args(clap::Command::new("crawl"));
        let defaults = command.try_get_matches_from(["crawl", "http://example.org/"]);
        defaults.and_then(|defaults| CrawlOptions::from_arg_matches(&defaults)).ok()
    }

    /// The path of the web archive, if there is one.
    pub fn archive(&self) -> Option<&Path> {
        let specification = self.module.iter().find_map(|module| module.strip_prefix("warc="));
        specification.map(|archive| Path::new(archive.split(',').next().unwrap_or(archive)))
    }

    fn check_wacz(&self) -> Result<(), String> {
        if self.fetch.wacz && self.distributed.redis.is_some() {
            return Err("--wacz cannot be used with --redis: the workers write parts; use 'crawler collect --wacz' when \
                        the crawl has ended"
                .into());
        }
        self.fetch.check_wacz(self.archive(), "--module warc=FILE")
    }

    /// Gives the options of a mirror or a web archive other defaults, since it should have every page, and the whole of it.
    pub fn adapt_to_mirror(&mut self) {
        let is_default =
            |name: &str, is_default: bool| is_default && !self.explicit.iter().any(|given| given == name);
        let is_whole = |module: &String| module.starts_with("mirror=") || module.starts_with("warc=");
        if !self.module.iter().any(is_whole) {
            return;
        }
        if is_default("similarity", self.similarity == DEFAULT_SIMILARITY) {
            self.similarity = 1.0;
        }
        if is_default("max-page-bytes", self.fetch.max_page_bytes == DEFAULT_PAGE_BYTES) {
            self.fetch.max_page_bytes = MIRROR_PAGE_BYTES;
        }
    }

    /// Checks the options.
    pub fn validate(self) -> Result<CrawlJob, String> {
        // In a distributed crawl, each process resolves paths on its own machine.
        if self.revisit_after.is_some() && self.distributed.redis.is_some() {
            return Err("cannot use --revisit-after with --redis: a distributed crawl visits each URL once; use --state, or \
                 start another crawl with --crawl"
                .into());
        }
        let mut options = if self.distributed.redis.is_none() { self.with_absolute_paths()? } else { self };
        options.fetch.resolve_logins()?;
        if !options.sources.seed_files.is_empty() {
            options.fetch.login.check_for_seed_lists()?;
        }
        // Other modules may be given when a check is resumed.
        let modules = &options.module;
        options.check = options.check.filter(|check| check.is_written_by(modules));
        options.check_wacz()?;
        options.check_outputs()?;
        let seeds = options.seeds()?;
        let config = options.fetch.config(&seeds, options.concurrency, options.per_host)?;
        let page_rank = options.page_rank(&config)?;
        let cookies = config.requests.cookies.clone();
        let oversize = match options.oversize {
            OversizeRule::Truncate => Oversize::Truncate,
            OversizeRule::Drop => Oversize::Drop,
        };
        let mut crawler = options
            .crawler_of(seeds.clone())
            .map_err(|error| error.to_string())?
            .configure(|fetch| {
                *fetch = FetchConfig { oversize, ..config };
                fetch.requests.robots_sitemaps = !options.sources.no_sitemaps;
                fetch.requests.requisites = options.requisites;
            })
            .politeness(options.politeness())
            .scope(options.scope(&seeds)?)
            .follow_duplicates(options.follow_duplicates)
            .overwrite(options.overwrite)
            .retry_failed(options.retry_failed);
        if let Some(queues) = PriorityQueues::new(options.priority_queues) {
            crawler = crawler.configure_backend(|settings| settings.priority_queues = queues);
        }
        crawler = crawler.configure_backend(|settings| {
            settings.queue_size = options.queue_size;
            settings.workers = options.workers.unwrap_or(settings.workers);
            settings.domain_ttl = options.domain_ttl;
            settings.ttl = options.ttl;
            settings.similarity = Threshold::new(options.similarity);
            settings.keep_content = !options.no_content;
            settings.max_pages = options.max_pages;
            settings.max_bytes = options.max_bytes;
        });
        if let Some(depth) = options.max_depth {
            crawler = crawler.max_depth(depth);
        }
        if let Some(time) = options.max_time {
            crawler = crawler.max_time(time);
        }
        match (options.recrawl, options.revisit_after) {
            (Some(recrawl), _) => crawler = crawler.recrawl(recrawl),
            (None, Some(after)) => crawler = crawler.revisit_after(after),
            (None, None) => {}
        }
        if let Some(rank) = page_rank {
            crawler = crawler.pagerank(rank);
        }
        for sitemap in &options.sources.sitemap {
            crawler = crawler.sitemap(sitemap).map_err(|error| format!("--sitemap: {error}"))?;
        }
        for module in &options.module {
            crawler = crawler.module_from_spec(module).map_err(|error| format!("--module: {error}"))?;
        }
        if let Some(directory) = &options.state {
            crawler = crawler.state_dir(directory).metadata(SavedOptions::new(&options).to_bytes());
        }
        Ok(CrawlJob { crawler, options, cookies })
    }

    /// Adds the scheme to seeds without one, and says so.
    pub fn complete_seeds(&mut self) {
        let is_quiet = self.fetch.verbosity() == Verbosity::Quiet;
        for seed in &mut self.seeds {
            complete_seed(seed, is_quiet);
        }
    }

    /// A crawl of these seeds, and of those in the seed lists.
    fn crawler_of(&self, seeds: Vec<Url>) -> Result<Crawler, Error> {
        let files = &self.sources.seed_files;
        if files.is_empty() && !self.is_resumed {
            return Crawler::from_seeds(seeds);
        }
        let crawler = match seeds.is_empty() {
            true => Crawler::from_seed_list([])?,
            false => Crawler::from_seeds(seeds)?,
        };
        let is_quiet = self.fetch.verbosity() == Verbosity::Quiet;
        Ok(match files.is_empty() {
            true => crawler,
            false => crawler
                .with_seed_list(files.join(" "), SeedFiles::new(files.clone(), is_quiet, self.is_resumed)),
        })
    }

    /// Checks that a crawl that was started with a proxy does not continue without one by mistake.
    pub fn check_proxy(&self) -> Result<(), String> {
        let proxy = &self.fetch.proxy;
        if !self.forgotten_proxy || proxy.is_direct() || proxy.explicit().is_some() {
            return Ok(());
        }
        Err(format!(
            "the crawl was started with a proxy, which is not saved; give it again with --proxy or {PROXY_VARIABLE}, or use \
             --no-proxy to connect directly"
        ))
    }

    /// The distributed crawl, if `--redis` was given. It reports to `notice`.
    pub fn shared_crawl(&self, notice: Notice) -> Result<Option<SharedCrawl>, String> {
        self.distributed.shared_crawl(self.fetch.ca_file.as_deref(), notice)
    }

    /// The number of workers.
    pub fn workers(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, |cores| cores.get());
        self.workers.map_or_else(cores, usize::from)
    }

    /// Whether a module or the JSON summary is written to standard output, so that nothing else may be.
    pub fn stdout_is_taken(&self) -> bool {
        let is_summary = self.summary.as_deref().is_some_and(is_stdout);
        let prints_report = self.check.as_ref().is_some_and(|check| check.is_printed);
        is_summary || prints_report || self.modules_print()
    }

    /// Whether modules, or the programs that they run, write to standard output while the crawl runs.
    pub fn modules_print(&self) -> bool {
        self.module.iter().any(|module| writes_to_stdout(module) || is_program(module))
    }

    /// Whether pages, or only their outcomes, go to standard output and nowhere else, or to a program, which may print them.
    pub fn writes_only_to_stdout(&self) -> bool {
        let writes = |module: &String| writes_to_stdout(module) || is_program(module);
        self.module == ["noop"] || self.module.iter().all(writes)
    }

    /// Whether the crawl itself prints pages or outcomes to standard output.
    pub fn prints_while_it_runs(&self) -> bool {
        let is_verbose = self.fetch.verbosity() == Verbosity::Verbose && !self.stdout_is_taken();
        is_verbose || self.module.iter().all(|module| writes_to_stdout(module))
    }

    /// The scope that decides which links are followed.
    pub fn link_scope(&self) -> Result<Scope, String> {
        let seeds = self.seeds()?;
        let mut config = FetchConfig::default();
        config.requests.allow_private = self.fetch.allow_private;
        config.requests.dns_overrides = self.fetch.resolve.clone();
        Ok(rejecting_private(self.scope(&seeds)?, &config, &seeds))
    }

    fn politeness(&self) -> Politeness {
        let mut politeness = Politeness::default();
        politeness.concurrency_per_host = self.per_host;
        politeness.site_delay = self.site_delay;
        politeness.address_delay = self.address_delay;
        politeness.max_pages_per_host = self.max_pages_per_host.unwrap_or(u64::MAX);
        politeness.max_pages_per_site = self.max_pages_per_site.unwrap_or(u64::MAX);
        politeness.max_host_failures = self.max_host_failures;
        politeness.network_timeout = self.network_timeout;
        politeness
    }

    /// The seeds as URLs.
    fn seeds(&self) -> Result<Vec<Url>, String> {
        let strip_query = self.fetch.strip_query()?;
        let seed = |(index, text): (usize, &String)| {
            let mut seed = values::seed(text).map_err(|error| match self.seeds.len() {
                1 => error.of("the seed URL"),
                _ => error.of(&format!("seed URL number {}", index + 1)),
            })?;
            strip_query.strip_url(&mut seed);
            Ok(seed)
        };
        self.seeds.iter().enumerate().map(seed).collect()
    }

    fn scope(&self, seeds: &[Url]) -> Result<Scope, String> {
        let scope = match self.scope {
            ScopeKind::Any => Scope::anywhere(),
            ScopeKind::Domain => Scope::domains(seeds),
            ScopeKind::Host => Scope::hosts(seeds),
            ScopeKind::Prefix => Scope::prefixes(&seeds.iter().map(without_credentials).collect::<Vec<_>>()),
        };
        scope.with_filters(&self.include, &self.exclude).map_err(|_| {
            "cannot compile --include and --exclude: together they are too large; give fewer patterns".into()
        })
    }

    fn page_rank(&self, config: &FetchConfig) -> Result<Option<PageRank>, String> {
        let Some(text) = &self.pagerank_url else { return Ok(None) };
        let message = |error: &dyn std::fmt::Display| {
            format!("--pagerank-url is invalid: {error}; give an absolute http or https URL")
        };
        let url = Url::parse(text).map_err(|error| message(&error))?;
        let key = pagerank::ApiKey::from_variable(pagerank::KEY_VARIABLE);
        let settings = pagerank::PageRankConfig { key, ..pagerank::PageRankConfig::new(url) };
        let rank = PageRank::new(config, settings, Random::from_system());
        Ok(Some(rank.map_err(|error| message(&error))?))
    }

    /// Makes paths absolute, because the crawl may be resumed from another directory.
    fn with_absolute_paths(mut self) -> Result<CrawlOptions, String> {
        for module in &mut self.module {
            if let Some(path) = output_path(module) {
                let given = path.display().to_string();
                let absolute = absolute("--module", &path)?.display().to_string();
                *module = module.replacen(&format!("={given}"), &format!("={absolute}"), 1);
            }
        }
        for (option, path) in [
            ("--summary", &mut self.summary),
            ("--report", &mut self.report),
            ("--ca-file", &mut self.fetch.ca_file),
            ("--state", &mut self.state),
        ] {
            if let Some(path) = path.as_mut().filter(|path| !is_stdout(path)) {
                *path = absolute(option, path)?;
            }
        }
        self.sources.make_absolute()?;
        Ok(self)
    }
}

/// Adds the scheme to a seed without one, and says so unless it `is_quiet`.
pub fn complete_seed(seed: &mut String, is_quiet: bool) {
    if let Some(url) = values::completed_seed(seed) {
        if !is_quiet {
            print_error(&format!("'{seed}' has no scheme; crawling {url}"));
        }
        *seed = url.into();
    }
}

/// The absolute form of a path given as `option`.
pub fn absolute(option: &str, path: &Path) -> Result<PathBuf, String> {
    std::path::absolute(path).map_err(|error| format!("cannot use {option} '{}': {error}", path.display()))
}

/// Serializes the seeds without credentials: passwords are never stored.
fn seeds_without_credentials<S: Serializer>(seeds: &[String], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(seeds.iter().map(|seed| strip_credentials(seed)))
}

fn url_without_credentials<S: Serializer>(url: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    url.as_deref().map(strip_credentials).serialize(serializer)
}

fn strip_credentials(url: &str) -> String {
    Url::parse(url).map_or_else(|_| String::new(), |url| without_credentials(&url).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::testing::{self, TestCli};
    use serde_json::Value;

    fn parse(arguments: &str) -> CrawlOptions {
        testing::parse(arguments).with_absolute_paths().unwrap()
    }

    #[test]
    fn options_survive_serialization() {
        let all = "http://a.test/ http://b.test/ --module words=3 --module exec=cat --similarity 0.5 --scope host \
                   --include x --exclude y --strip-query tracking --strip-query sid --max-depth 3 --max-time 90s \
                   --max-pages-per-host 7 --max-pages-per-site 9 --site-delay 60ms --address-delay 5ms \
                   --workers 3 --oversize drop \
                   --pagerank-url http://ranks.test/ --progress json --summary s.json --report r.html --resolve *.a.test=::1 \
                   --ca-file ca.pem --insecure --http1 --warc-size 3MB --warc-secrets --delay 250ms --user-agent me --contact https://a.test/ \
                   --robots-token me -v --overwrite --state s --follow-duplicates --requisites --accept a/b,c/* --save-include x --save-exclude y --max-file-bytes 3MB \
                   --seeds /a.txt --seeds - --sitemap http://a.test/s.xml --no-sitemaps";
        for options in ["http://a.test/", all].map(parse) {
            let text = serde_json::to_string(&options).unwrap();
            assert_eq!(serde_json::from_str::<CrawlOptions>(&text).unwrap(), options, "{text}");
        }
    }

    #[test]
    fn each_serialized_key_is_an_option() {
        let serialized = serde_json::to_value(parse("http://a.test/")).unwrap();
        let Value::Object(serialized) = serialized else { panic!("{serialized}") };
        let command = <TestCli as clap::CommandFactory>::command();
        for key in serialized.keys().filter(|key| !["seeds", "seed-files"].contains(&key.as_str())) {
            assert!(command.get_arguments().any(|option| option.get_long() == Some(key)), "{key}");
        }
    }

    #[test]
    fn paths_become_absolute_and_passwords_are_not_serialized() {
        let options = parse(
            "http://me:sesame@a.test/ --module jsonl=a=b,fields=url,title --module pages=d --summary s --ca-file c",
        );
        let here = std::env::current_dir().unwrap();
        let in_here = |name: &str| here.join(name).display().to_string();
        assert_eq!(
            options.module,
            [format!("jsonl={},fields=url,title", in_here("a=b")), format!("pages={}", in_here("d"))]
        );
        assert_eq!(
            (options.summary.clone(), options.fetch.ca_file.clone()),
            (Some(here.join("s")), Some(here.join("c")))
        );
        let serialized = serde_json::to_string(&options).unwrap();
        assert!(serialized.contains("http://a.test/") && !serialized.contains("sesame"), "{serialized}");
        let proxied =
            serde_json::to_string(&parse("http://a.test/ --proxy http://me:sesame@p.test")).unwrap();
        assert!(!proxied.contains("sesame") && !proxied.contains("p.test"), "{proxied}");
        let unchanged = parse("http://a.test/ --module jsonl=- --module exec=a/b --module words");
        assert_eq!(unchanged.module, ["jsonl=-", "exec=a/b", "words"]);
    }
}
