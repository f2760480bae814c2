//! Runs one process of a distributed crawl: `crawler frontier` and `crawler worker`.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use crawler::internal::backend::redis::Phase;
use crawler::internal::distributed::RunRole as _;
use crawler::internal::distributed::remote::RemoteCrawl;
use crawler::internal::distributed::{Notice, RoleExit, SharedCrawl};
use crawler::internal::fetch::proxy_health::ProxyHealth;
use crawler::internal::log;
use crawler::internal::modules::stdout::STDOUT_CLOSED;
use crawler::internal::pipeline::CrawlEnd;
use crawler::internal::pipeline::CrawlerInternals as _;
use crawler::internal::stop::StopHandle;
use crawler::internal::stop::StopHandleInternals as _;
use crawler::{CookieJar, Error};

use crate::args::{CrawlJob, CrawlOptions, RoleKind, RoleOptions, Verbosity};
use crate::commands::cookie_file::CookieFile;
use crate::commands::crawl::outcome_log::OutcomeLog;
use crate::commands::crawl::resume_hints::missing_logins;
use crate::commands::crawl::saved_options::SavedOptions;
use crate::commands::crawl::stdout_reader::StdoutReader;
use crate::commands::crawl::{SpareConnections, status_of};
use crate::commands::{hint, with_hint};
use crate::dashboard::{AnnouncementForm, Dashboard, Mode, ProcessSource, RedisSource, Source};
use crate::live::disk_space::DiskSpace;
use crate::printable::{print_error, print_message, print_stderr};
use crate::{EXIT_FAILED, EXIT_NOT_WRITTEN, EXIT_PROXY, EXIT_USAGE, signals};

/// How often a role checks whether its crawl has started.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// How long a role waits for a Redis that it has reached before. Practically unlimited, but small enough for clock
/// arithmetic.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(1 << 32);

/// Runs a role until the crawl has ended, and returns the exit status.
pub async fn run(kind: RoleKind, role: RoleOptions) -> u8 {
    let is_quiet = role.options.fetch.verbosity() == Verbosity::Quiet;
    let notice: Notice = Arc::new(move |message: &str| {
        if !is_quiet {
            print_message(&format!("{message}{}", hint(message)));
        }
    });
    let mut shared = match role.options.shared_crawl(Arc::clone(&notice)) {
        Ok(Some(shared)) => shared,
        // Clap requires the option.
        Ok(None) => return usage_error("--redis is missing"),
        Err(error) => return usage_error(&error),
    };
    let _size_limit = signals::survive_the_file_size_limit();
    let (stop, signal_status) = (StopHandle::new(), Cell::new(None));
    shared.redis.connect_options.stop = stop.clone();
    let print = |message: &str| notice(message);
    let mut cookies = WorkerCookies::default();
    let name = shared.redis.crawl.clone();
    let observed = ProcessSource::new(
        name,
        Mode::Redis,
        kind != RoleKind::Frontier,
        ProxyHealth::default(),
        DiskSpace::default(),
    );
    let (needed, process) = (shared.clone(), observed.clone());
    let source = || Source::Role(process, RedisSource::new(needed));
    let dashboard = match Dashboard::start(&role.options.dashboard.role_config(), source, |_| {}) {
        Ok(dashboard) => dashboard,
        Err(error) => return usage_error(&error),
    };
    if let Some(dashboard) = &dashboard {
        let form = if is_quiet { AnnouncementForm::Quiet } else { AnnouncementForm::Text };
        dashboard.announce(form, |line| print_stderr(&format!("{line}\n")));
    }
    let status = tokio::select! {
        status = run_role(kind, &role, shared, &stop, &mut cookies, &observed) => signal_status.get().unwrap_or(status),
        never = signals::watch(&stop, &signal_status, || stop.requests_in_flight(), print) => match never {},
    };
    cookies.file.map_or(status, |file| file.write(status))
}

/// The cookies of a worker, which keeps them when it joins the crawl again.
#[derive(Default)]
struct WorkerCookies {
    jar: Option<CookieJar>,
    file: Option<CookieFile>,
}

impl WorkerCookies {
    /// Lets the crawl use these cookies instead of its new ones, if it uses any.
    fn keep(&mut self, job: CrawlJob) -> Result<CrawlJob, String> {
        let Some(new) = job.cookies else { return Ok(job) };
        let jar = self.jar.get_or_insert(new).clone();
        if self.file.is_none() {
            self.file = CookieFile::new(job.options.fetch.login.save_cookies(), Some(jar.clone()))?;
        }
        let crawler = job.crawler.configure(|config| config.requests.cookies = Some(jar.clone()));
        Ok(CrawlJob { crawler, cookies: Some(jar), ..job })
    }
}

fn usage_error(message: &str) -> u8 {
    print_error(message);
    EXIT_USAGE
}

async fn run_role(
    kind: RoleKind,
    role: &RoleOptions,
    mut shared: SharedCrawl,
    stop: &StopHandle,
    cookies: &mut WorkerCookies,
    observed: &ProcessSource,
) -> u8 {
    loop {
        let saved = match wait_for_crawl(role, &mut shared, stop, observed).await {
            Ok(Some(saved)) => saved,
            Ok(None) => return 0,
            Err(status) => return status,
        };
        // All processes must use the same heartbeat timeout, or two of them would fetch from the same host.
        let dead_after = saved.distributed.dead_after;
        let job = role.options.clone().merged_over(saved).and_then(|options| {
            // The frontier sends requests to the PageRank service only.
            if kind != RoleKind::Frontier || options.pagerank_url.is_some() {
                options.check_proxy()?;
            }
            options.validate()
        });
        let job = job.and_then(|job| cookies.keep(job));
        let CrawlJob { crawler, options, .. } = match job {
            Ok(job) => job,
            Err(error) => return usage_error(&error),
        };
        if matches!(kind, RoleKind::Worker(_))
            && let Some(warning) = missing_logins(&options)
        {
            log::warned(&*shared.notice, &warning);
        }
        if let Some(warning) = options.fetch.warning()
            && kind != RoleKind::Frontier
        {
            log::warned(&*shared.notice, warning);
        }
        // The frontier writes no outputs.
        observed.writes_to(if kind == RoleKind::Frontier { Vec::new() } else { options.written_paths() });
        let (shared, notice) = (SharedCrawl { dead_after, ..shared.clone() }, Arc::clone(&shared.notice));
        let spare = match SpareConnections::for_workers(1, options.concurrency) {
            Ok(spare) => spare,
            Err(error) => return usage_error(&error),
        };
        let outcome_log = Arc::new(OutcomeLog::new(&options, StdoutReader::ignored()));
        let log = Arc::clone(&outcome_log);
        let crawler = crawler
            .configure(|config| spare.apply(config))
            .stop_handle(stop.clone())
            .proxy_health(observed.proxy_health())
            .on_status({
                let (observed, notice) = (observed.clone(), Arc::clone(&notice));
                move |view| observed.update(view).iter().for_each(|warning| notice(warning))
            })
            .on_outcome(move |url, outcome| log.record(url, outcome));
        let running = tokio::task::spawn_blocking(move || match kind {
            RoleKind::Frontier => crawler.run_frontier(&shared),
            RoleKind::Worker(id) => crawler.run_worker(&shared, id),
        });
        let ended = running.await;
        observed.left_crawl();
        for seed in outcome_log.take_redirected_seeds() {
            log::warned(&*notice, &seed);
        }
        match ended {
            Ok(Ok(RoleExit::Stopped)) => return 0,
            Ok(Ok(RoleExit::OutputClosed)) => {
                log::informed(&*notice, &format!("{STDOUT_CLOSED}; leaving the crawl"));
                return 0;
            }
            Ok(Ok(RoleExit::CrawlEnded(CrawlEnd::OutputFailed | CrawlEnd::ModuleFailed))) if !role.stay => {
                return EXIT_NOT_WRITTEN;
            }
            Ok(Ok(RoleExit::CrawlEnded(_))) if !role.stay => return 0,
            // It joins again as a new member, with the options that the crawl has then.
            Ok(Ok(_)) => tokio::time::sleep(POLL_INTERVAL).await,
            Ok(Err(error)) => {
                print_error(&with_hint(&error));
                return if let Error::Proxy(_) = error { EXIT_PROXY } else { status_of(&error) };
            }
            Err(failed) => match failed.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => return EXIT_FAILED,
            },
        }
    }
}

/// Waits until the crawl has started, and returns its options. `None` if the role is stopped, or the crawl has ended and the
/// role does not stay.
async fn wait_for_crawl(
    role: &RoleOptions,
    shared: &mut SharedCrawl,
    stop: &StopHandle,
    observed: &ProcessSource,
) -> Result<Option<CrawlOptions>, u8> {
    let (name, mut is_announced) = (shared.redis.crawl.clone(), false);
    loop {
        if stop.is_stop_requested() {
            return Ok(None);
        }
        let info = RemoteCrawl::info(shared).await.map_err(|error| {
            print_error(&with_hint(&error));
            status_of(&error)
        })?;
        // The address is right, so a later failure to connect is an outage.
        shared.redis.connect_options.connect_timeout = RECONNECT_TIMEOUT;
        let awaited = match info {
            None => {
                // It was purged after the role has left it.
                observed.forget_crawl();
                "start"
            }
            Some(info) => match info.state.phase {
                Phase::Ended(_) if info.has_result && role.stay => "be restarted",
                Phase::Ended(_) if info.has_result => {
                    let message = format!("the crawl '{name}' is finished; 'crawler submit' restarts it");
                    log::informed(&*shared.notice, &message);
                    return Ok(None);
                }
                _ => {
                    let options =
                        SavedOptions::read(&info.metadata, &name).map_err(|error| usage_error(&error))?;
                    return Ok(Some(options));
                }
            },
        };
        if !std::mem::replace(&mut is_announced, true) {
            let message = format!("waiting for the crawl '{name}' to {awaited}");
            log::informed(&*shared.notice, &message);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
