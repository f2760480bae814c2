//! Begins a crawl, or joins one: who joins must mean the same by it.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::BackendError;
use super::RedisCrawl;
use super::connection::{Call, Connection, Kind, Persistence};
use super::keys::{self, Keys};
use super::moves::{Moves, milliseconds};
use super::scripts;
use crate::backend::local::{BackendConfig, HostLimits, secret};
use crate::error::StorageErrorKind::{Damaged, NotFound, SettingsDiffer};
use crate::prioritizer::PriorityQueues;
use crate::similarity::{HashKey, Threshold};
use crate::strip_query::StripQuery;
use crate::time_text::time_text;

/// The layout of the keys; changed whenever an older version could not go on with what a newer one left.
const LAYOUT: u32 = 3;

/// What may be raised by who opens a crawl again.
const BUDGETS: [&str; 4] = ["--max-pages", "--max-bytes", "--max-pages-per-host", "--max-pages-per-site"];

/// The end of the name of a setting that is a time.
const IN_MILLISECONDS: &str = " in milliseconds";

const SECRET: &str = "secret";
const PARTITIONS: &str = "partitions";

pub(super) async fn open(place: RedisCrawl, settings: BackendConfig) -> Result<Moves, BackendError> {
    let connection = place.connect().await?;
    let RedisCrawl { crawl, partitions, replicas, delay, .. } = place;
    let suits = match connection.server().await?.kind {
        Kind::Cluster => keys::CLUSTER_PARTITIONS,
        Kind::Plain | Kind::Sentinel => keys::PARTITIONS,
    };
    // Every partition has at least one place in every queue, and all together no more than the queue may hold.
    let most = u16::try_from(settings.queue_size.max(1)).unwrap_or(u16::MAX);
    let partitions = partitions.unwrap_or(suits).clamp(1, most);
    let mut ours = described(&settings);
    ours.insert("--delay in milliseconds", milliseconds(delay).to_string());
    ours.insert(PARTITIONS, partitions.to_string());
    ours.insert(SECRET, format!("{:032x}", secret()));
    let nowhere = Keys::new(&crawl, 1);
    let opening = Moves::new(connection.clone(), nowhere, settings.clone(), HashKey::new(0), delay);
    let mut begin = opening.script(&scripts::BEGIN, &Keys::settings(&crawl));
    begin.arg(ours.len());
    for (name, value) in &ours {
        begin.arg(*name).arg(value).arg(match *name {
            // Whoever begins the crawl decides.
            SECRET | PARTITIONS => "first",
            name if BUDGETS.contains(&name) => "budget",
            _ => "fixed",
        });
    }
    let theirs: BTreeMap<String, String> = connection.one(begin).await?;
    agree(&crawl, connection.address(), &ours, &theirs)?;
    let mut moves = joined(connection, &crawl, settings, &theirs, delay)?;
    moves.replicas = match replicas {
        Some(replicas) => replicas.into(),
        None => moves.connection.replicas().await?.min(1),
    };
    moves.begin_partitions().await?;
    Ok(moves)
}

impl Moves {
    /// What of the crawl the server may lose, in words, if anything.
    pub(super) async fn risk(&self) -> Result<Option<String>, BackendError> {
        let address = self.connection.address();
        Ok(match self.connection.persistence().await? {
            Persistence::AppendOnlyFile | Persistence::Unknown => None,
            Persistence::Nothing => Some(format!(
                "Redis at {address} has neither an append-only file nor snapshots: if Redis stops, the crawl is lost; set \
                 appendonly to yes"
            )),
            Persistence::Snapshots => Some(format!(
                "Redis at {address} has no append-only file (appendonly is no): if Redis stops, what the crawl did since \
                 the last snapshot is lost; set appendonly to yes"
            )),
        })
    }
}

/// Looks at a crawl that was begun, without joining it.
pub(super) async fn look(place: RedisCrawl) -> Result<Moves, BackendError> {
    let connection = place.connect().await?;
    let RedisCrawl { crawl, delay, .. } = place;
    let mut read = Call::plain("HGETALL");
    read.arg(format!("{}settings", Keys::settings(&crawl)));
    let theirs: BTreeMap<String, String> = connection.one(read).await?;
    if theirs.is_empty() {
        let address = connection.address();
        return Err(BackendError::redis(NotFound, no_such_crawl_at(&crawl, address)));
    }
    let settings = settings_of(&theirs).ok_or_else(|| damaged(&connection, &crawl))?;
    joined(connection, &crawl, settings, &theirs, delay)
}

/// The error for a crawl that was never started, or was purged.
pub fn no_such_crawl(place: &RedisCrawl) -> String {
    no_such_crawl_at(&place.crawl, &place.address)
}

fn no_such_crawl_at(crawl: &str, address: impl std::fmt::Display) -> String {
    format!("there is no crawl '{crawl}' on Redis at {address}; start it, or give the name of another one")
}

/// What a crawl's URLs are moved with, by what it was begun with.
fn joined(
    connection: Connection,
    crawl: &str,
    settings: BackendConfig,
    theirs: &BTreeMap<String, String>,
    delay: Duration,
) -> Result<Moves, BackendError> {
    let secret = theirs.get(SECRET).and_then(|secret| u128::from_str_radix(secret, 16).ok());
    let partitions = theirs.get(PARTITIONS).and_then(|number| number.parse::<u16>().ok());
    let (Some(secret), Some(partitions)) = (secret, partitions) else {
        return Err(damaged(&connection, crawl));
    };
    let keys = Keys::new(crawl, partitions.max(1));
    Ok(Moves::new(connection, keys, settings, HashKey::new(secret), delay))
}

fn damaged(connection: &Connection, crawl: &str) -> BackendError {
    let address = connection.address();
    let message = format!("the crawl '{crawl}' on Redis at {address} is damaged; use another name");
    BackendError::redis(Damaged, message)
}

/// What all who work on a crawl have to agree on.
fn described(settings: &BackendConfig) -> BTreeMap<&'static str, String> {
    let BackendConfig {
        queue_size,
        priority_queues,
        ttl,
        domain_ttl,
        keep_depths,
        similarity,
        strip_query,
        keep_content,
        ..
    } = settings;
    BTreeMap::from([
        ("layout", LAYOUT.to_string()),
        ("--queue-size", queue_size.to_string()),
        ("--priority-queues", priority_queues.count().to_string()),
        ("--ttl in milliseconds", milliseconds(*ttl).to_string()),
        ("--domain-ttl in milliseconds", milliseconds(*domain_ttl).to_string()),
        ("whether there is a --max-depth", keep_depths.to_string()),
        ("--similarity", similarity.map_or("none".to_owned(), |threshold| threshold.dice().to_string())),
        ("--strip-query", strip_query.patterns().join(" ")),
        ("whether pages are stored (not --no-content)", keep_content.to_string()),
        ("--max-pages", settings.max_pages.to_string()),
        ("--max-bytes", settings.max_bytes.to_string()),
        ("--max-page-bytes", settings.max_page_bytes.to_string()),
        ("--max-pages-per-host", settings.max_pages_per_host.to_string()),
        ("--max-pages-per-site", settings.max_pages_per_site.to_string()),
        ("--site-delay in milliseconds", milliseconds(settings.hosts.site_delay).to_string()),
    ])
}

/// What was described so; how many workers there are is nobody's concern.
fn settings_of(described: &BTreeMap<String, String>) -> Option<BackendConfig> {
    let text = |name: &str| described.get(name).map(String::as_str);
    let number = |name: &str| text(name)?.parse::<u64>().ok();
    let time = |name: &str| number(name).map(Duration::from_millis);
    let flag = |name: &str| text(name)?.parse::<bool>().ok();
    Some(BackendConfig {
        queue_size: usize::try_from(number("--queue-size")?).ok()?,
        priority_queues: PriorityQueues::new(text("--priority-queues")?.parse().ok()?)?,
        workers: 0,
        ttl: time("--ttl in milliseconds")?,
        domain_ttl: time("--domain-ttl in milliseconds")?,
        keep_depths: flag("whether there is a --max-depth")?,
        similarity: match text("--similarity")? {
            "none" => None,
            dice => Some(Threshold::new(dice.parse().ok()?)?),
        },
        strip_query: StripQuery::new(&text("--strip-query")?.split_whitespace().collect::<Vec<_>>()).ok()?,
        keep_content: flag("whether pages are stored (not --no-content)")?,
        max_pages: number("--max-pages")?,
        max_bytes: number("--max-bytes")?,
        max_page_bytes: number("--max-page-bytes")?,
        max_pages_per_host: number("--max-pages-per-host")?,
        max_pages_per_site: number("--max-pages-per-site")?,
        hosts: HostLimits { site_delay: time("--site-delay in milliseconds")?, ..HostLimits::default() },
    })
}

fn agree(
    crawl: &str,
    address: &str,
    ours: &BTreeMap<&'static str, String>,
    theirs: &BTreeMap<String, String>,
) -> Result<(), BackendError> {
    for (name, our) in ours.iter().filter(|(name, _)| ![SECRET, PARTITIONS].contains(*name)) {
        let their = theirs.get(*name).map_or("unknown", String::as_str);
        let number = |text: &str| text.parse().unwrap_or(u64::MAX);
        // One that is larger here was not raised because of something else, which is what is told.
        if BUDGETS.contains(name) && number(their) <= number(our) {
            continue;
        }
        if BUDGETS.contains(name) {
            let their = if their == u64::MAX.to_string() { "unlimited" } else { their };
            let message = format!(
                "{name} is {their} in the crawl '{crawl}' on Redis at {address} and {our} here; it can be raised, not \
                 lowered"
            );
            return Err(BackendError::redis(SettingsDiffer, message));
        }
        if their != our {
            let (name, their, our) = (setting(name), value(name, their), value(name, our));
            let message = format!(
                "the crawl '{crawl}' on Redis at {address} was started with another setting: {name} is {their} there \
                 and {our} here; use the same settings, or another name for this crawl"
            );
            return Err(BackendError::redis(SettingsDiffer, message));
        }
    }
    Ok(())
}

/// The name of a setting in messages.
fn setting(name: &str) -> &str {
    name.strip_suffix(IN_MILLISECONDS).unwrap_or(name)
}

/// The value of a setting as users write it.
fn value(name: &str, value: &str) -> String {
    match value.parse() {
        Ok(milliseconds) if name.ends_with(IN_MILLISECONDS) => time_text(Duration::from_millis(milliseconds)),
        _ => value.to_owned(),
    }
}
