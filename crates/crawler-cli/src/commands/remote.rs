//! Looks at and steers a crawl on Redis from outside: `crawler submit`, `status`, `stop`, `purge`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crawler::Error;
use crawler::internal::backend::redis::{Phase, RedisBackend, Role};
use crawler::internal::distributed::SharedCrawl;
use crawler::internal::distributed::remote::{CrawlInfo, CrawlStatus, RemoteCrawl};
use crawler::internal::pipeline::ResumeStatus;

use crate::args::{CrawlOptions, PurgeOptions, RedisArgs, StatusOptions};
use crate::commands::crawl::json;
use crate::commands::crawl::saved_options::SavedOptions;
use crate::commands::crawl::status_of;
use crate::printable::{print_error, print_stdout, printable};
use crate::summary::{bytes, row};
use crate::{EXIT_FAILED, EXIT_USAGE};

/// How long those who work on a crawl may take to go before it is removed under their hands.
const PATIENCE: Duration = Duration::from_secs(20);

/// How often it is looked whether they have gone.
const LOOK: Duration = Duration::from_millis(100);

/// What stands in the way: a message, and the exit status it leads to.
struct CommandError(String, u8);

impl From<Error> for CommandError {
    fn from(error: Error) -> CommandError {
        CommandError(error.to_string(), status_of(&error))
    }
}

impl From<String> for CommandError {
    fn from(wrong: String) -> CommandError {
        CommandError(wrong, EXIT_USAGE)
    }
}

fn exit_code(answer: Result<u8, CommandError>) -> u8 {
    answer.unwrap_or_else(|CommandError(message, status)| {
        print_error(&message);
        status
    })
}

/// Gives URLs to a crawl.
pub async fn submit(options: CrawlOptions) -> u8 {
    exit_code(try_submit(options).await)
}

async fn try_submit(options: CrawlOptions) -> Result<u8, CommandError> {
    let mut sharing = options.shared(Arc::new(print_error))?.ok_or_else(|| "give --redis".to_owned())?;
    // Somebody waits for the answer.
    sharing.redis.manner.endures = false;
    let given = options.seeds.len();
    let is_quiet = options.fetch.quiet;
    // What is wrong with them is told before anything is changed.
    let fresh = options.clone().validate()?;
    let begun = RemoteCrawl::info(&sharing).await?;
    let (options, note) = match &begun {
        None => (options.clone(), SavedOptions::shared(&options).to_bytes()),
        Some(begun) => {
            let before = SavedOptions::read(&begun.note, &sharing.redis.crawl)?;
            let is_covered = before.covers(&options);
            let options = options.over(before)?;
            // Whoever is at work need not begin anew for what it knows already.
            let note = if is_covered { Vec::new() } else { SavedOptions::shared(&options).to_bytes() };
            (options, note)
        }
    };
    let job = options.clone().validate()?;
    let remote = RemoteCrawl::open(job.crawler, &sharing).await?;
    let admitted = remote.submit(&note, fresh.crawler.seeds()).await?;
    if !is_quiet {
        let (name, what) = (&sharing.redis.crawl, if given == 1 { "URL" } else { "URLs" });
        let begins = match begun {
            None => "begun with",
            Some(CrawlInfo { state: before, .. }) if matches!(before.phase, Phase::Over(_)) => {
                "opened again with"
            }
            Some(_) => "given",
        };
        print_stdout(&format!(
            "the crawl '{name}' was {begins} {given} {what}: {} new, {} known already\n",
            admitted.new, admitted.seen
        ));
    }
    Ok(0)
}

/// A crawl on Redis, as it was begun.
async fn open(sharing: &SharedCrawl) -> Result<(RemoteCrawl, CrawlOptions), CommandError> {
    let name = &sharing.redis.crawl;
    let Some(begun) = RemoteCrawl::info(sharing).await? else {
        return Err(CommandError(
            format!("there is no crawl '{name}' on Redis; 'crawler submit' begins one"),
            EXIT_FAILED,
        ));
    };
    Ok((RemoteCrawl::attach(sharing).await?, SavedOptions::read(&begun.note, name)?))
}

/// Ends a crawl.
pub async fn stop(place: RedisArgs) -> u8 {
    exit_code(try_stop(place).await)
}

async fn try_stop(place: RedisArgs) -> Result<u8, CommandError> {
    let sharing = place.validate()?;
    let (remote, _) = open(&sharing).await?;
    let name = &sharing.redis.crawl;
    let text = match remote.stop().await? {
        true => {
            format!("the crawl '{name}' ends; 'crawler submit' or the same 'crawler crawl' goes on with it\n")
        }
        false => format!("the crawl '{name}' is over already\n"),
    };
    Ok(if print_stdout(&text) { 0 } else { EXIT_FAILED })
}

/// Tells how a crawl stands.
pub async fn status(options: StatusOptions) -> u8 {
    exit_code(try_status(options).await)
}

async fn try_status(options: StatusOptions) -> Result<u8, CommandError> {
    let sharing = options.place.validate()?;
    if options.ready {
        // A role that waits for its crawl to begin is in good health.
        RemoteCrawl::info(&sharing).await?;
        return Ok(0);
    }
    let (remote, begun) = open(&sharing).await?;
    let status = remote.status().await?;
    // What is left of a crawl that is over is its result.
    let report = remote.report(ResumeStatus::Yes).await?;
    let snapshot = report.as_ref().map_or(&status.snapshot, |report| &report.snapshot);
    if options.quiet {
        return Ok(0);
    }
    let text = if options.json {
        let object = json::CrawlStatusJson::of(&sharing.redis.crawl, &status, report.as_ref());
        serde_json::to_string(&object).map_err(|error| error.to_string())? + "\n"
    } else {
        table(&sharing.redis.crawl, &status, snapshot, &begun)
    };
    Ok(if print_stdout(&text) { 0 } else { EXIT_FAILED })
}

fn table(
    name: &str,
    status: &CrawlStatus,
    snapshot: &crawler::internal::backend::Snapshot,
    begun: &CrawlOptions,
) -> String {
    let elapsed = status.state.elapsed.as_secs_f64();
    let mut text = format!("crawl '{name}': {}, after {elapsed:.1} s\n", phase(&status.state.phase));
    text += &row(0, "pages kept", snapshot.pages);
    text += &format!("{:>12}  bytes read, of {}\n", bytes(snapshot.bytes), bytes(begun.max_bytes));
    text += &row(0, "URLs admitted", json::admitted(snapshot));
    text += &row(2, "outstanding", snapshot.outstanding());
    text += &row(2, "failed", json::failed(snapshot));
    let neither = json::admitted(snapshot)
        .saturating_sub(snapshot.outstanding() + snapshot.pages + json::failed(snapshot));
    text += &row(2, "neither kept nor failed: redirects, duplicates, disallowed and the like", neither);
    let waiting =
        snapshot.url_queue.0 + snapshot.url_queue.1 + snapshot.priority_queues.iter().sum::<usize>();
    text += &row(0, "URLs on their way to a worker", (waiting + snapshot.parked) as u64);
    if status.members.is_empty() {
        text += "nobody works on it\n";
    }
    for member in &status.members {
        let load = match member.role {
            Role::Worker(id) => {
                let (queued, on_loan) = snapshot.workers.get(usize::from(id.0)).copied().unwrap_or((0, 0));
                let domains = member.domains.map_or_else(String::new, |some| format!(" of {some} domains"));
                format!(", {queued} URLs queued, {on_loan} in hand{domains}")
            }
            Role::Frontier => String::new(),
        };
        let heard = if member.is_dead {
            "is dead".to_owned()
        } else {
            format!("heard of {:.1} s ago", member.silent.as_secs_f64())
        };
        text += &format!("{}: {}, {heard}{load}\n", member.role, printable(&member.place));
    }
    text
}

fn phase(phase: &Phase) -> String {
    match phase {
        Phase::Unknown => "not begun".into(),
        Phase::Purged => "purged".into(),
        Phase::Opening => "beginning".into(),
        Phase::Running => "under way".into(),
        Phase::Over(how) => format!("over, because {}", crawler::internal::distributed::end_of(how)),
    }
}

/// Removes a crawl.
pub async fn purge(options: PurgeOptions) -> u8 {
    exit_code(try_purge(options).await)
}

async fn try_purge(options: PurgeOptions) -> Result<u8, CommandError> {
    let sharing = options.place.validate()?;
    let name = &sharing.redis.crawl;
    let members = at_work(&sharing).await?;
    if members > 0 {
        if !options.force {
            let are = if members == 1 { "process is" } else { "processes are" };
            return Err(CommandError(
                format!(
                    "{members} {are} at work on the crawl '{name}'; end it first with 'crawler stop', or give --force"
                ),
                EXIT_FAILED,
            ));
        }
        end(&sharing).await?;
    }
    let keys = RedisBackend::purge(&sharing.redis).await.map_err(Error::from)?;
    let text = match keys {
        0 => format!("there is nothing of a crawl '{name}'\n"),
        keys => format!("the crawl '{name}' is removed: {keys} keys\n"),
    };
    Ok(if print_stdout(&text) { 0 } else { EXIT_FAILED })
}

/// How many processes work on a crawl. Those that are dead, and that nobody is there to bury, do not.
async fn at_work(sharing: &SharedCrawl) -> Result<usize, CommandError> {
    let members = RemoteCrawl::info(sharing).await?.map_or(0, |begun| begun.members);
    if members == 0 {
        return Ok(0);
    }
    // Of a crawl that cannot be opened nothing more is known.
    let Ok((remote, begun)) = open(sharing).await else { return Ok(members) };
    let sharing = SharedCrawl { dead_after: begun.sharing.dead_after, ..sharing.clone() };
    let (members, _) = remote.members().await?;
    Ok(members.iter().filter(|member| RemoteCrawl::is_alive(member, &sharing)).count())
}

/// Ends a crawl, and waits for those who work on it to go: what they still do would stay.
async fn end(sharing: &SharedCrawl) -> Result<(), CommandError> {
    let (remote, _) = open(sharing).await?;
    remote.stop().await?;
    let begun = Instant::now();
    while at_work(sharing).await? > 0 && begun.elapsed() < PATIENCE {
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}
