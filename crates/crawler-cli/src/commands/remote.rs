//! Controls a distributed crawl from outside: `crawler submit`, `status`, `stop`, `purge`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crawler::internal::backend::WorkerLoad;
use crawler::internal::backend::redis::{DistributedCrawl, Member, Phase, Role, Standby, no_such_crawl};
use crawler::internal::crawl_view::{CrawlPhase, CrawlView};
use crawler::internal::distributed::remote::{CrawlInfo, CrawlStatus, NewMetadata, RemoteCrawl};
use crawler::internal::distributed::{SharedCrawl, end_of};
use crawler::internal::error::redis_error;
use crawler::internal::pipeline::CrawlReportInternals as _;
use crawler::internal::pipeline::CrawlerInternals as _;
use crawler::internal::pipeline::ResumeStatus;
use crawler::{Error, StorageErrorKind};

use super::watch::{self, Watched};
use crate::args::{CrawlJob, CrawlOptions, PurgeOptions, StatusOptions};
use crate::commands::crawl::json::CrawlStatusJson;
use crate::commands::crawl::saved_options::SavedOptions;
use crate::commands::crawl::{status_of, stop_reason};
use crate::commands::with_hint;
use crate::format::{counted, elapsed, number};
use crate::live::remaining::History;
use crate::live::status::LiveStatus;
use crate::live::warnings;
use crate::printable::{print_error, print_message, print_stdout, printable};
use crate::summary::{Counts, page_rank_line};
use crate::{EXIT_FAILED, EXIT_USAGE};

/// How long `purge --force` waits for the processes of the crawl to exit.
const EXIT_TIMEOUT: Duration = Duration::from_secs(20);

/// How often it checks whether they have.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Why a command failed: a message and the exit status.
struct CommandError(String, u8);

impl From<Error> for CommandError {
    fn from(error: Error) -> CommandError {
        CommandError(with_hint(&error), status_of(&error))
    }
}

impl From<String> for CommandError {
    fn from(message: String) -> CommandError {
        CommandError(message, EXIT_USAGE)
    }
}

fn exit_code(result: Result<u8, CommandError>) -> u8 {
    result.unwrap_or_else(|CommandError(message, status)| {
        print_error(&message);
        status
    })
}

fn print_result(text: &str) -> u8 {
    if print_stdout(text) { 0 } else { EXIT_FAILED }
}

/// Adds URLs to a crawl, and starts it if needed.
pub async fn submit(options: CrawlOptions) -> u8 {
    exit_code(try_submit(options).await)
}

async fn try_submit(options: CrawlOptions) -> Result<u8, CommandError> {
    let shared = options.shared_crawl(Arc::new(print_message))?;
    let mut shared = shared.ok_or_else(|| "--redis is missing".to_owned())?;
    // A user waits for the result, so an outage is an error.
    shared.redis.connect_options.retry_forever = false;
    let is_quiet = options.fetch.quiet;
    // Invalid options are reported before anything changes.
    let new_seeds = options.clone().validate()?.crawler.seeds().to_vec();
    let (new_lists, new_sitemaps) = (options.sources.seed_files.clone(), options.sources.sitemap.clone());
    let info = RemoteCrawl::info(&shared).await?;
    let (options, is_covered) = match &info {
        None => (options.clone(), false),
        Some(info) => {
            let saved = SavedOptions::read(&info.metadata, &shared.redis.crawl)?;
            let is_covered = saved.covers(&options);
            (options.merged_over(saved)?, is_covered)
        }
    };
    let saved_options = SavedOptions::distributed(&options);
    let metadata_bytes = saved_options.to_bytes();
    let metadata = match &info {
        Some(_) if is_covered => NewMetadata::None,
        Some(info) if saved_options.adds_only_sources_to(&info.metadata) => {
            NewMetadata::Seeds(&metadata_bytes)
        }
        _ => NewMetadata::Settings(&metadata_bytes),
    };
    let CrawlJob { crawler, options, .. } = options.validate()?;
    let remote = RemoteCrawl::open(crawler, &shared).await?;
    let shared = SharedCrawl { dead_after: options.distributed.dead_after, ..shared };
    // What is submitted now, with the settings of the crawl: it may remove query parameters, for instance.
    let mut submitted = options.clone();
    // Sitemaps may be submitted alone. A list is that of this process, and read now.
    submitted.is_resumed = new_lists.is_empty();
    submitted.seeds = new_seeds.into_iter().map(String::from).collect();
    (submitted.sources.seed_files, submitted.sources.sitemap) = (new_lists, new_sitemaps);
    let (admitted, count) = remote.submit(metadata, submitted.validate()?.crawler, &shared).await?;
    if is_quiet {
        return Ok(0);
    }
    let new = admitted.map_or(count, |admitted| admitted.new);
    let (name, urls) = (&shared.redis.crawl, counted(new, "URL"));
    let mut text = match info {
        None => format!("started crawl '{name}' with {urls}"),
        Some(CrawlInfo { state, .. }) if matches!(state.phase, Phase::Ended(_)) => {
            format!("restarted crawl '{name}' and added {urls}")
        }
        Some(_) if admitted.is_none() => format!("queued {urls} for crawl '{name}'"),
        Some(_) => format!("added {urls} to crawl '{name}'"),
    };
    text += &match admitted.map_or(0, |admitted| admitted.seen) {
        0 => String::new(),
        1 => "; 1 was seen before".into(),
        seen => format!("; {} were seen before", number(seen)),
    };
    text.push('\n');
    text += &missing_processes(&remote.members().await?.0, &shared);
    Ok(print_result(&text))
}

/// A line that says which processes a crawl lacks, and how to start them. Empty if it lacks none.
fn missing_processes(members: &[Member], shared: &SharedCrawl) -> String {
    let alive = |member: &&Member| RemoteCrawl::is_alive(member, shared);
    let roles: Vec<Role> = members.iter().filter(alive).map(|member| member.role).collect();
    let has_frontier = roles.contains(&Role::Frontier);
    let has_worker = roles.iter().any(|role| matches!(role, Role::Worker(_)));
    match (has_frontier, has_worker) {
        (true, true) => "",
        (false, false) => "No process is running; start 'crawler frontier' and 'crawler worker'.\n",
        (false, true) => "No frontier is running; start 'crawler frontier'.\n",
        (true, false) => "No worker is running; start 'crawler worker'.\n",
    }
    .into()
}

/// Connects to a crawl, and reads its options.
async fn open(shared: &SharedCrawl) -> Result<(RemoteCrawl, CrawlOptions), CommandError> {
    let name = &shared.redis.crawl;
    let Some(info) = RemoteCrawl::info(shared).await? else {
        return Err(redis_error(StorageErrorKind::NotFound, no_such_crawl(&shared.redis)).into());
    };
    Ok((RemoteCrawl::attach(shared).await?, SavedOptions::read(&info.metadata, name)?))
}

/// Stops a crawl. Returns what was done, in a line.
pub async fn stop(shared: &SharedCrawl) -> Result<String, Error> {
    let name = &shared.redis.crawl;
    if RemoteCrawl::info(shared).await?.is_none() {
        return Err(redis_error(StorageErrorKind::NotFound, no_such_crawl(&shared.redis)));
    }
    let remote = RemoteCrawl::attach(shared).await?;
    Ok(match remote.stop().await? {
        true => format!(
            "stopping crawl '{name}'; to resume it, use 'crawler submit' or run the same 'crawler crawl' again"
        ),
        false => format!("crawl '{name}' is already finished"),
    })
}

/// Shows the status of a crawl.
pub async fn status(options: StatusOptions) -> u8 {
    exit_code(try_status(options).await)
}

async fn try_status(options: StatusOptions) -> Result<u8, CommandError> {
    let shared = options.redis.validate()?;
    if options.ready {
        // A role that waits for its crawl to start is healthy.
        RemoteCrawl::info(&shared).await?;
        return Ok(0);
    }
    let mut crawl = WatchedCrawl::open(shared, &options).await?;
    if let Some(interval) = options.interval {
        let describe = |CommandError(message, _): &CommandError| message.clone();
        return watch::watch(interval, options.json, async || crawl.read().await, describe).await;
    }
    let status = crawl.read().await?;
    Ok(if options.quiet { 0 } else { print_result(&status.text) })
}

/// A crawl whose status is read once or repeatedly.
struct WatchedCrawl {
    remote: RemoteCrawl,
    shared: SharedCrawl,
    saved: CrawlOptions,
    is_json: bool,
    is_verbose: bool,
    /// Set when the status was read.
    history: Option<History>,
}

impl WatchedCrawl {
    async fn open(shared: SharedCrawl, options: &StatusOptions) -> Result<WatchedCrawl, CommandError> {
        let (remote, saved) = open(&shared).await?;
        let shared = SharedCrawl { dead_after: saved.distributed.dead_after, ..shared };
        let (is_json, is_verbose) = (options.json, options.verbose);
        Ok(WatchedCrawl { remote, shared, saved, is_json, is_verbose, history: None })
    }

    async fn read(&mut self) -> Result<Watched, CommandError> {
        let status = self.remote.status().await?;
        // Only the result is left of a crawl that is over.
        let report = self.remote.report(ResumeStatus::Resumed).await?;
        let snapshot = report.as_ref().map_or(&status.snapshot, |report| &report.snapshot);
        let is_over = match status.state.phase {
            Phase::Ended(_) => report.is_some(),
            Phase::Seeding | Phase::Running => false,
            Phase::Unknown | Phase::Purged => true,
        };
        let counts = match status.state.phase {
            Phase::Ended(_) => Counts::of_ended(snapshot),
            _ => Counts::of_running(snapshot),
        };
        let view = status.view();
        let history = self.history.get_or_insert_with(|| History::from_view(&view));
        let mut live = LiveStatus::new(&view, history);
        let missing = match status.state.phase {
            Phase::Seeding | Phase::Running => missing_processes(&status.members, &self.shared),
            _ => String::new(),
        };
        live.warnings.extend(warnings::of_distributed(&status));
        let members = status.members.iter().map(|member| describe_member(member, &status));
        let members: Vec<String> = members.chain(status.standbys.iter().map(describe_standby)).collect();
        let heading = self.heading(&status, &view, !missing.is_empty());
        let text = if self.is_json {
            let redis = report.as_ref().and_then(|report| report.redis_traffic());
            let object = CrawlStatusJson::new(&self.shared.redis.crawl, &status, snapshot, counts, redis);
            serde_json::to_string(&object).map_err(|error| error.to_string())? + "\n"
        } else {
            let live = if is_over { String::new() } else { live.text(self.is_verbose) };
            let page_rank = page_rank_line(snapshot).map_or_else(String::new, |line| line + "\n");
            let members: String = members.iter().map(|member| format!("{member}\n")).collect();
            let table = counts.table(status.state.elapsed);
            format!("{heading}\n{live}{table}{page_rank}{members}{missing}")
        };
        let details = members.into_iter().chain(missing.lines().map(str::to_owned)).collect();
        Ok(Watched { heading, live, is_verbose: self.is_verbose, details, text, is_over })
    }

    /// The crawl, and whether it runs.
    fn heading(&self, status: &CrawlStatus, view: &CrawlView, is_waiting: bool) -> String {
        let state = match is_waiting {
            true => "waiting for processes".into(),
            false if view.phase == CrawlPhase::Paused => "paused".into(),
            false if view.phase == CrawlPhase::Stopping => "stopping".into(),
            false => describe(&status.state.phase, &self.saved),
        };
        format!("Crawl '{}': {state}", self.shared.redis.crawl)
    }
}

/// A process, when it sent its last heartbeat, and its load.
fn describe_member(member: &Member, status: &CrawlStatus) -> String {
    let load = match member.role {
        Role::Worker(id) => load(status.snapshot.workers.get(usize::from(id.0))),
        Role::Frontier => String::new(),
    };
    let heartbeat = match member.is_dead {
        true => "dead".to_owned(),
        false => format!("heartbeat {} ago", elapsed(member.since_heartbeat)),
    };
    format!("{}: {} · {heartbeat}{load}", role_name(member.role), printable(&member.location))
}

/// A process that takes a role over when its member leaves or dies.
fn describe_standby(standby: &Standby) -> String {
    let heartbeat = elapsed(standby.since_heartbeat);
    format!(
        "{}, standby: {} · heartbeat {heartbeat} ago",
        role_name(standby.role),
        printable(&standby.location)
    )
}

fn role_name(role: Role) -> String {
    match role {
        Role::Frontier => "Frontier".into(),
        Role::Worker(id) => format!("Worker {}", id.0),
    }
}

/// The URLs and domains of a worker.
fn load(load: Option<&WorkerLoad>) -> String {
    let WorkerLoad { domains, leased, .. } = load.copied().unwrap_or_default();
    format!(" · {} leased · {}", counted(leased as u64, "URL"), counted(domains as u64, "domain"))
}

fn describe(phase: &Phase, saved: &CrawlOptions) -> String {
    match phase {
        Phase::Unknown => "not started".into(),
        Phase::Purged => "purged".into(),
        Phase::Seeding => "starting".into(),
        Phase::Running => "running".into(),
        Phase::Ended(end) => match stop_reason(saved, end_of(end)) {
            None => "finished".into(),
            Some(reason) => format!("stopped, {reason}"),
        },
    }
}

/// Removes a crawl.
pub async fn purge(options: PurgeOptions) -> u8 {
    exit_code(try_purge(options).await)
}

async fn try_purge(options: PurgeOptions) -> Result<u8, CommandError> {
    let shared = options.redis.validate()?;
    let name = &shared.redis.crawl;
    let processes = running_processes(&shared).await?;
    if processes > 0 {
        if !options.force {
            let are_running =
                if processes == 1 { "1 process is".into() } else { format!("{processes} processes are") };
            return Err(CommandError(
                format!(
                    "cannot purge crawl '{name}': {are_running} running; stop it first with 'crawler stop', or use --force"
                ),
                EXIT_FAILED,
            ));
        }
        stop_and_wait(&shared).await?;
    }
    let purged = match processes {
        0 => DistributedCrawl::purge(&shared.redis).await,
        _ => DistributedCrawl::purge_stopped(&shared.redis).await,
    };
    let keys = purged.map_err(Error::from)?;
    let text = match keys {
        0 => format!("there is no crawl '{name}' to purge\n"),
        keys => format!("purged crawl '{name}': {} removed\n", counted(keys, "key")),
    };
    Ok(print_result(&text))
}

/// How many processes of a crawl are alive.
async fn running_processes(shared: &SharedCrawl) -> Result<usize, CommandError> {
    let members = RemoteCrawl::info(shared).await?.map_or(0, |info| info.members);
    if members == 0 {
        return Ok(0);
    }
    // Without its options the heartbeat timeout is unknown, so every member counts.
    let Ok((remote, saved)) = open(shared).await else { return Ok(members) };
    let shared = SharedCrawl { dead_after: saved.distributed.dead_after, ..shared.clone() };
    let (members, _) = remote.members().await?;
    Ok(members.iter().filter(|member| RemoteCrawl::is_alive(member, &shared)).count())
}

/// Stops a crawl and waits for its processes to exit: they could write keys after the purge.
async fn stop_and_wait(shared: &SharedCrawl) -> Result<(), CommandError> {
    let (remote, _) = open(shared).await?;
    remote.stop().await?;
    let started = Instant::now();
    while running_processes(shared).await? > 0 && started.elapsed() < EXIT_TIMEOUT {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(())
}
