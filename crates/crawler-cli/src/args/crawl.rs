//! The command line of the pipeline: `crawler crawl URL…`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use crawler::Crawler;
use crawler::Scope;
use crawler::internal::config::FetchConfig;
use crawler::internal::distributed::{Notice, SharedCrawl};
use crawler::internal::modules::Target;
use crawler::internal::modules::registry::{self, RegisteredModule};
use crawler::internal::origin::without_credentials;
use crawler::internal::pipeline::CrawlerInternals as _;
use crawler::internal::prioritizer::{PageRank, PriorityQueues, Random, pagerank};
use crawler::internal::scope::rejecting_private;
use crawler::internal::similarity::Threshold;
use crawler::internal::task::Depth;
use serde::{Deserialize, Serialize, Serializer};
use url::Url;

use super::FetchArgs;
use super::distributed::DistributedArgs;
use crate::commands::crawl::saved_options::SavedOptions;
use crate::commands::crawl::shared_rank::SharedRank;
use crate::values;

/// What `crawler crawl` was told. It can be written down and read again: each key is the name of its option.
#[derive(clap::Args, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct CrawlOptions {
    /// Where to start: absolute http or https URLs
    #[arg(value_name = "URL", required = true)]
    #[serde(serialize_with = "seeds_without_credentials")]
    pub seeds: Vec<String>,

    /// What is done with each page kept; repeatable: noop, pages=DIR, jsonl=FILE, edges=FILE ('-' is standard output), words[=N], exec=COMMAND
    #[arg(long, value_name = "NAME[=ARGS]", default_value = "noop", value_parser = values::module, help_heading = "Pages")]
    pub module: Vec<String>,
    /// Remove what earlier crawls left in the files of modules
    #[arg(long, help_heading = "Pages")]
    pub overwrite: bool,
    /// How alike a page must be to another to be dropped, from 0 to 1: 1 drops only exact copies, 0 nothing
    #[arg(long, value_name = "DICE", default_value = "0.9", value_parser = values::similarity, allow_negative_numbers = true, help_heading = "Pages")]
    pub similarity: f64,
    /// Store no pages, only what recognises their like
    #[arg(long, help_heading = "Pages")]
    pub no_content: bool,

    /// Which links are followed: any, or of a seed its registrable domain, its host, or its prefix (at and below its URL)
    #[arg(long, value_name = "WHERE", value_enum, default_value = "any", help_heading = "Scope")]
    pub scope: Bounds,
    /// Follow only URLs that match this regular expression; repeatable: one of them must match
    #[arg(long, value_name = "REGEX", value_parser = values::pattern, help_heading = "Scope")]
    pub include: Vec<String>,
    /// Do not follow URLs that match this regular expression; repeatable
    #[arg(long, value_name = "REGEX", value_parser = values::pattern, help_heading = "Scope")]
    pub exclude: Vec<String>,
    /// How many hops from the seeds to go: 0 is the seeds alone [default: as many as there are]
    #[arg(long, value_name = "N", value_parser = values::depth, allow_negative_numbers = true, help_heading = "Scope")]
    pub max_depth: Option<Depth>,

    /// End when so many pages are kept
    #[arg(long, value_name = "N", default_value = "10000", value_parser = values::count, allow_negative_numbers = true, help_heading = "Budgets")]
    pub max_pages: u64,
    /// End when so many bytes of bodies are read, decoded
    #[arg(long, value_name = "SIZE", default_value = "50MB", value_parser = values::large_size, allow_negative_numbers = true, help_heading = "Budgets")]
    pub max_bytes: u64,
    /// End after so long [default: when all is done]
    #[arg(long, value_name = "TIME", value_parser = values::long_time, allow_negative_numbers = true, help_heading = "Budgets")]
    pub max_time: Option<Duration>,
    /// Keep at most so many pages of one host [default: as many as there are]
    #[arg(long, value_name = "N", value_parser = values::count, allow_negative_numbers = true, help_heading = "Budgets")]
    pub max_pages_per_host: Option<u64>,

    /// Keep the crawl in this directory, made if need be: after any end, the same command again or 'crawler resume DIR' goes on
    #[arg(long, value_name = "DIR", help_heading = "State")]
    pub state: Option<PathBuf>,

    #[command(flatten)]
    #[serde(flatten)]
    pub sharing: DistributedArgs,

    /// How many workers share the hosts [default: as many as there are cores]
    #[arg(long, value_name = "N", value_parser = values::workers, allow_negative_numbers = true, help_heading = "Workers")]
    pub workers: Option<u16>,
    /// Requests in flight at once, of each worker
    #[arg(long, value_name = "N", default_value = "64", value_parser = values::at_least_one, allow_negative_numbers = true, help_heading = "Workers")]
    pub concurrency: usize,
    /// Requests in flight to one host; with more than one the delay separates their starts
    #[arg(long, value_name = "N", default_value = "1", value_parser = values::at_least_one, allow_negative_numbers = true, help_heading = "Politeness", display_order = 2)]
    pub per_host: usize,

    /// How many URLs the URL queue, each priority queue and each worker's queue hold; more wait in storage
    #[arg(long, value_name = "N", default_value = "10000", value_parser = values::queue_size, allow_negative_numbers = true, help_heading = "Frontier")]
    pub queue_size: usize,
    /// How many queues share the priorities 0 to 100
    #[arg(long, value_name = "N", default_value = "10", value_parser = values::priority_queues, allow_negative_numbers = true, help_heading = "Frontier")]
    pub priority_queues: usize,
    /// Take priorities from this Open PageRank service [key: CRAWLER_PAGERANK_KEY in the environment]
    #[arg(long, value_name = "URL", help_heading = "Frontier")]
    #[serde(serialize_with = "url_without_credentials")]
    pub pagerank_url: Option<String>,
    /// How long a domain stays with its worker after its last use
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = values::long_time, allow_negative_numbers = true, help_heading = "Frontier")]
    pub domain_ttl: Duration,
    /// How long URLs and pages are remembered after they were last met
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = values::long_time, allow_negative_numbers = true, help_heading = "Frontier")]
    pub ttl: Duration,

    #[command(flatten)]
    #[serde(flatten)]
    pub fetch: FetchArgs,

    /// How progress is shown: by itself live on a terminal and as plain lines elsewhere, or as JSON, all on standard error
    #[arg(
        long,
        value_name = "FORM",
        value_enum,
        default_value = "auto",
        conflicts_with = "quiet",
        help_heading = "Output"
    )]
    pub progress: ProgressForm,
    /// Write the summary to this file as JSON too
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub summary: Option<PathBuf>,

    /// Hosts whose user name and password were typed once and are written down nowhere.
    #[arg(skip)]
    #[serde(skip)]
    pub forgotten_credentials: Vec<String>,
    /// The names of the options that were given, rather than left at their defaults.
    #[arg(skip)]
    #[serde(skip)]
    pub given: Vec<String>,
}

/// Which links are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bounds {
    Any,
    Domain,
    Host,
    Prefix,
}

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProgressForm {
    // Live on a terminal, plain elsewhere. (Documentation here would turn up in the help.)
    Auto,
    Plain,
    Json,
}

/// A crawl, ready to begin.
pub struct CrawlJob {
    /// The crawl.
    pub crawler: Crawler,
    /// What it was told.
    pub options: CrawlOptions,
    /// Who is asked for ranks, if anybody is.
    pub page_rank: Option<Arc<PageRank>>,
}

impl CrawlOptions {
    /// Checks what was typed.
    pub fn validate(self) -> Result<CrawlJob, String> {
        // Where many processes work on a crawl, a path is one on the machine of each.
        let options = if self.sharing.redis.is_none() { self.with_absolute_paths()? } else { self };
        options.check_outputs()?;
        let seeds = options.seeds()?;
        let config = options.fetch.config(options.concurrency, options.per_host)?;
        let page_rank = options.page_rank(&config)?;
        let told = |error: crawler::Error| error.to_string();
        let mut crawler = Crawler::from_seeds(seeds.clone())
            .map_err(told)?
            .configure(|fetch| *fetch = FetchConfig { adaptive_delay: true, ..config })
            .scope(options.scope(&seeds)?)
            .overwrite(options.overwrite);
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
            settings.max_pages_per_host = options.max_pages_per_host.unwrap_or(u64::MAX);
        });
        if let Some(depth) = options.max_depth {
            crawler = crawler.max_depth(depth);
        }
        if let Some(time) = options.max_time {
            crawler = crawler.max_time(time);
        }
        if let Some(rank) = &page_rank {
            crawler = crawler.prioritizer(SharedRank(Arc::clone(rank)));
        }
        for module in &options.module {
            crawler = crawler.module_from_spec(module).map_err(|error| format!("--module: {error}"))?;
        }
        if let Some(directory) = &options.state {
            crawler = crawler.state_dir(directory).metadata(SavedOptions::of(&options).to_bytes());
        }
        Ok(CrawlJob { crawler, options, page_rank })
    }

    /// How the crawl is shared, if it is; what happens is told to `notice`.
    pub fn shared(&self, notice: Notice) -> Result<Option<SharedCrawl>, String> {
        self.sharing.sharing(self.fetch.ca_file.as_deref(), notice)
    }

    /// The number of workers.
    pub fn workers(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, |cores| cores.get());
        self.workers.map_or_else(cores, usize::from)
    }

    /// Whether a module prints to standard output, so that nothing else may.
    pub fn stdout_is_taken(&self) -> bool {
        self.module.iter().any(|module| is_printed(module) || module.starts_with("exec="))
    }

    /// Which links of a page are followed.
    pub fn bounds(&self) -> Result<Scope, String> {
        let seeds = self.seeds()?;
        let FetchArgs { allow_private, ref resolve, .. } = self.fetch;
        let config = FetchConfig { allow_private, dns_overrides: resolve.clone(), ..FetchConfig::default() };
        Ok(rejecting_private(self.scope(&seeds)?, &config, &seeds))
    }

    /// The seeds as URLs. They are numbered in messages, and not repeated: there may be a password in them.
    fn seeds(&self) -> Result<Vec<Url>, String> {
        let seed = |(index, text): (usize, &String)| {
            values::seed(text).map_err(|error| match self.seeds.len() {
                1 => format!("the seed URL is not usable: {error}"),
                _ => format!("seed URL number {} is not usable: {error}", index + 1),
            })
        };
        self.seeds.iter().enumerate().map(seed).collect()
    }

    fn scope(&self, seeds: &[Url]) -> Result<Scope, String> {
        let scope = match self.scope {
            Bounds::Any => Scope::anywhere(),
            Bounds::Domain => Scope::domains(seeds),
            Bounds::Host => Scope::hosts(seeds),
            Bounds::Prefix => Scope::prefixes(&seeds.iter().map(without_credentials).collect::<Vec<_>>()),
        };
        scope
            .with_filters(&self.include, &self.exclude)
            .map_err(|_| "--include or --exclude: the patterns are too large together; give fewer".into())
    }

    fn page_rank(&self, config: &FetchConfig) -> Result<Option<Arc<PageRank>>, String> {
        let Some(text) = &self.pagerank_url else { return Ok(None) };
        let unusable = |error: &dyn std::fmt::Display| format!("--pagerank-url is not usable: {error}");
        let example = "give an absolute http or https URL";
        let url = Url::parse(text).map_err(|error| unusable(&format!("{error}; {example}")))?;
        let key = pagerank::ApiKey::from_variable(pagerank::KEY_VARIABLE);
        let settings = pagerank::PageRankConfig { key, ..pagerank::PageRankConfig::new(url) };
        let rank = PageRank::new(config, settings, Random::from_system());
        Ok(Some(Arc::new(rank.map_err(|error| unusable(&format!("{error}; {example}")))?)))
    }

    /// Where the crawl is taken up again may be elsewhere.
    fn with_absolute_paths(mut self) -> Result<CrawlOptions, String> {
        for module in &mut self.module {
            let name = module.split('=').next().unwrap_or_default().to_owned();
            if let Some(path) = target(module) {
                *module = format!("{name}={}", absolute("--module", &path)?.display());
            }
        }
        for (option, path) in [
            ("--summary", &mut self.summary),
            ("--ca-file", &mut self.fetch.ca_file),
            ("--state", &mut self.state),
        ] {
            if let Some(path) = path {
                *path = absolute(option, path)?;
            }
        }
        Ok(self)
    }

    /// No two may want the same place.
    fn check_outputs(&self) -> Result<(), String> {
        let printed: Vec<&String> = self.module.iter().filter(|module| is_printed(module)).collect();
        if let [first, second, ..] = printed[..] {
            return Err(format!(
                "--module {first} and --module {second} would mix on standard output; give one of them a file"
            ));
        }
        if let Some(summary) = &self.summary
            && let Some(module) = self.module.iter().find(|module| target(module).as_ref() == Some(summary))
        {
            return Err(format!("--summary and --module {module} name the same file; give two"));
        }
        Ok(())
    }
}

/// The file or directory that a module writes to.
pub fn target(module: &str) -> Option<PathBuf> {
    match registry::parse(module) {
        Ok(RegisteredModule::Output(spec)) => match spec.target {
            Target::File(path) | Target::Directory(path) => Some(path),
        },
        _ => None,
    }
}

/// Whether a module writes pages to standard output.
fn is_printed(module: &str) -> bool {
    matches!(module.split_once('='), Some(("jsonl" | "edges", "-")))
}

/// A path that means the same wherever the command runs.
pub fn absolute(option: &str, path: &Path) -> Result<PathBuf, String> {
    std::path::absolute(path).map_err(|error| format!("{option} '{}': {error}", path.display()))
}

/// Passwords are written nowhere.
fn seeds_without_credentials<S: Serializer>(seeds: &[String], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(seeds.iter().map(|seed| stripped(seed)))
}

fn url_without_credentials<S: Serializer>(url: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    url.as_deref().map(stripped).serialize(serializer)
}

fn stripped(url: &str) -> String {
    Url::parse(url).map_or_else(|_| String::new(), |url| without_credentials(&url).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use serde_json::Value;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        options: CrawlOptions,
    }

    fn read(arguments: &str) -> CrawlOptions {
        let arguments = std::iter::once("crawl").chain(arguments.split_whitespace());
        let options = Alone::try_parse_from(arguments).map_err(|error| error.to_string()).unwrap().options;
        options.with_absolute_paths().unwrap()
    }

    #[test]
    fn options_can_be_written_down_and_read_again() {
        let all = "http://a.test/ http://b.test/ --module words=3 --module exec=cat --similarity 0.5 --scope host \
                   --include x --exclude y --max-depth 3 --max-time 90s --max-pages-per-host 7 --workers 3 \
                   --pagerank-url http://ranks.test/ --progress json --summary s.json --resolve *.a.test=::1 \
                   --ca-file ca.pem --delay 250ms --user-agent me --contact https://a.test/ -v --overwrite --state s";
        for options in ["http://a.test/", all].map(read) {
            let text = serde_json::to_string(&options).unwrap();
            assert_eq!(serde_json::from_str::<CrawlOptions>(&text).unwrap(), options, "{text}");
        }
    }

    #[test]
    fn each_key_is_the_name_of_an_option() {
        let written = serde_json::to_value(read("http://a.test/")).unwrap();
        let Value::Object(written) = written else { panic!("{written}") };
        let command = <Alone as clap::CommandFactory>::command();
        for key in written.keys().filter(|key| *key != "seeds") {
            assert!(command.get_arguments().any(|option| option.get_long() == Some(key)), "{key}");
        }
    }

    #[test]
    fn paths_are_absolute_and_passwords_are_not_written_down() {
        let options =
            read("http://me:secret@a.test/ --module jsonl=a=b --module pages=d --summary s --ca-file c");
        let here = std::env::current_dir().unwrap();
        let in_here = |name: &str| here.join(name).display().to_string();
        assert_eq!(options.module, [format!("jsonl={}", in_here("a=b")), format!("pages={}", in_here("d"))]);
        assert_eq!(
            (options.summary.clone(), options.fetch.ca_file.clone()),
            (Some(here.join("s")), Some(here.join("c")))
        );
        let written = serde_json::to_string(&options).unwrap();
        assert!(written.contains("http://a.test/") && !written.contains("secret"), "{written}");
        let kept = read("http://a.test/ --module jsonl=- --module exec=a/b --module words");
        assert_eq!(kept.module, ["jsonl=-", "exec=a/b", "words"]);
    }
}
