//! The arguments of the classic crawl: `crawler seedURL pageDirectory maxDepth`.

use std::path::{Path, PathBuf};

use clap::{Args as _, FromArgMatches as _};
use crawler::CookieJar;
use crawler::internal::classic::ClassicCrawl;
use crawler::internal::classic::ClassicInternals as _;
use crawler::internal::modules::registry::{self, RegisteredModule};
use crawler::internal::task::Depth;
use url::Url;

use super::crawl::complete_seed;
use super::fetch::ARCHIVE;
use super::settings::shown;
use super::{DashboardArgs, FetchArgs, Verbosity};
use crate::commands::crawl::plan;
use crate::commands::crawl::summary_file::is_stdout;
use crate::dashboard::DashboardConfig;
use crate::report::file::report_path;
use crate::report::given_options::GivenOptions;
use crate::values;

/// The arguments as parsed.
#[derive(clap::Args)]
pub struct ClassicArgs {
    /// URL to start from (http or https)
    #[arg(value_name = "seedURL", required = true)]
    seed: Option<String>,
    /// Existing directory to save the pages in
    #[arg(value_name = "pageDirectory", required = true)]
    directory: Option<PathBuf>,
    /// Maximum number of links to follow from the seed; 0 fetches the seed alone
    #[arg(value_name = "maxDepth", required = true, allow_negative_numbers = true, value_parser = values::depth)]
    max_depth: Option<Depth>,

    /// Delete the numbered files of an earlier crawl in pageDirectory first, and replace the files of --urls and --warc
    #[arg(long)]
    overwrite: bool,
    /// Follow only links below this URL prefix [default: the seed's scheme, host and port]
    #[arg(long, value_name = "PREFIX", help_heading = "Scope")]
    internal: Option<String>,

    /// Maximum requests in flight; if more than 1, the delay applies between request starts
    #[arg(long, value_name = "N", default_value = "1", value_parser = values::concurrency, help_heading = "Politeness", display_order = 2)]
    concurrency: usize,

    #[command(flatten)]
    fetch: FetchArgs,
    #[command(flatten)]
    dashboard: DashboardArgs,

    /// Write every URL with its outcome to this file: CSV if FILE ends with .csv, otherwise JSON lines; '-' is standard
    /// output
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    urls: Option<PathBuf>,
    /// Write all requests and responses to a web archive, in files FILE-00001.warc.gz, ...
    #[arg(long, value_name = "FILE", help_heading = ARCHIVE)]
    warc: Option<String>,
    /// Also write the summary to this file, as JSON; '-' is standard output
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    summary: Option<PathBuf>,
    /// Also write a report on the crawl to this file when it ends: HTML with charts (.html) or Markdown (.md)
    #[arg(long, value_name = "FILE", value_parser = report_path, help_heading = "Output")]
    report: Option<PathBuf>,
}

/// Gives an option that the classic crawl shares with `crawl` its own default: pages are saved whole.
pub fn adapt(option: clap::Arg) -> clap::Arg {
    match option.get_id().as_str() {
        "max_page_bytes" | "max_file_bytes" => option.default_value("50MB"),
        _ => option,
    }
}

/// A checked classic crawl.
pub struct ClassicJob {
    /// The crawl.
    pub crawl: ClassicCrawl,
    /// The seed URL.
    pub seed: Url,
    /// Maximum requests in flight.
    pub concurrency: usize,
    /// What the crawl will do, in one line.
    pub plan: String,
    /// The directory of the pages.
    pub directory: PathBuf,
    /// The file of `--summary`.
    pub summary: Option<PathBuf>,
    /// The file of `--report`.
    pub report: Option<PathBuf>,
    /// The seed and the given options, if there is a report.
    pub given: GivenOptions,
    /// The file of `--urls`.
    pub urls: Option<PathBuf>,
    /// The file of `--warc`.
    pub warc: Option<PathBuf>,
    /// Whether a WACZ file is made of it.
    pub makes_wacz: bool,
    /// Whether rows or the JSON summary are written to standard output, so that nothing else may be.
    pub is_stdout_taken: bool,
    /// How much is printed.
    pub verbosity: Verbosity,
    /// The options of the dashboard.
    pub dashboard: DashboardConfig,
    /// The cookies of the crawl.
    pub cookies: Option<CookieJar>,
    /// The file for them.
    pub save_cookies: Option<PathBuf>,
    /// The warning about an option that makes the crawl insecure.
    pub warning: Option<&'static str>,
}

impl ClassicArgs {
    /// Checks the arguments.
    pub fn validate(mut self) -> Result<ClassicJob, String> {
        self.fetch.resolve_logins()?;
        // Clap requires all three.
        let missing = |name| format!("missing <{name}>");
        let mut seed = self.seed.clone().ok_or_else(|| missing("seedURL"))?;
        complete_seed(&mut seed, self.fetch.verbosity() == Verbosity::Quiet);
        let seed = values::seed(&seed).map_err(|error| error.of("seedURL"))?;
        let directory = self.directory.clone().ok_or_else(|| missing("pageDirectory"))?;
        let max_depth = self.max_depth.ok_or_else(|| missing("maxDepth"))?;
        let internal = self.internal.as_deref().map(values::prefix).transpose();
        let internal = internal.map_err(|error| format!("--internal is invalid: {error}"))?;
        let config = self.fetch.config(std::slice::from_ref(&seed), self.concurrency, self.concurrency)?;
        let save_cookies = self.fetch.login.save_cookies().map(Path::to_owned);
        let cookies = config.requests.cookies.clone();
        let urls = self.urls.as_deref().map(|path| if is_stdout(path) { Path::new("-") } else { path });
        let plan = plan::classic(&seed, internal.as_ref(), &directory, max_depth, urls);
        let given = self.report.as_ref().map(|_| self.given(&seed, &directory, max_depth));
        let crawl =
            ClassicCrawl::new(seed.as_str(), &directory, max_depth).map_err(|error| error.to_string())?;
        let mut crawl = crawl.overwrite(self.overwrite).configure(|fetch| *fetch = config);
        if let Some(path) = urls {
            crawl = crawl.urls(path);
        }
        self.fetch.check_wacz(self.warc.as_deref().map(Path::new), "--warc FILE")?;
        if let Some(file) = self.warc.clone() {
            let output = move || match registry::parse(&format!("warc={file}")) {
                Ok(RegisteredModule::Output(output)) => Ok(output),
                Ok(RegisteredModule::Module(_)) => Err(String::new()),
                Err(error) => Err(error),
            };
            output().map_err(|_| "--warc needs a file with a name".to_owned())?;
            crawl = crawl.archive(move || output().expect("it was parsed before"));
        }
        if let Some(prefix) = &internal {
            crawl = crawl.internal_prefix(prefix).map_err(|error| format!("{error} (--internal)"))?;
        }
        let (concurrency, verbosity) = (self.concurrency, self.fetch.verbosity());
        let is_stdout_taken = [&self.urls, &self.summary].into_iter().flatten().any(|path| is_stdout(path));
        let job = ClassicJob {
            crawl,
            seed,
            concurrency,
            plan,
            directory,
            urls: self.urls.clone(),
            warc: self.warc.map(PathBuf::from),
            makes_wacz: self.fetch.wacz,
            is_stdout_taken,
            verbosity,
            cookies,
            save_cookies,
            warning: self.fetch.warning(),
            dashboard: self.dashboard.config(),
            summary: self.summary,
            report: self.report,
            given: given.unwrap_or_default(),
        };
        job.check_outputs()?;
        Ok(job)
    }

    /// The seed and the given options, for the report.
    fn given(&self, seed: &Url, directory: &Path, max_depth: Depth) -> GivenOptions {
        let named = |name: &str, value: &dyn std::fmt::Display| (name.to_owned(), value.to_string());
        let mut others = vec![named("pageDirectory", &directory.display()), named("maxDepth", &max_depth)];
        others
            .extend(self.internal.as_deref().map(|prefix| named("--internal", &shown("internal", prefix).0)));
        if self.concurrency > 1 {
            others.push(named("--concurrency", &self.concurrency));
        }
        let definition = ClassicArgs::augment_args(clap::Command::new("crawler")).mut_args(adapt);
        let matches = definition.try_get_matches_from(["crawler", "http://example.org/", "pages", "0"]);
        let defaults = matches.and_then(|matches| FetchArgs::from_arg_matches(&matches)).ok();
        GivenOptions::of_classic(seed, &self.fetch, defaults.as_ref(), others)
    }
}
