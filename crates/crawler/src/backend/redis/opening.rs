//! Begins a crawl, or joins one. All its processes must agree on its settings.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::BackendError;
use super::RedisCrawl;
use super::Result;
use super::connection::{Call, Confirmation, RedisConnection};
use super::control::OpenedCrawl;
use super::data::CrawlData;
use super::write_if::WriteIf;
use crate::backend::local::{BackendConfig, HostLimits, secret};
use crate::error::StorageErrorKind::{Damaged, NotFound, SettingsDiffer, Unsupported};
use crate::format;
use crate::prioritizer::PriorityQueues;
use crate::similarity::{HashKey, Threshold};
use crate::strip_query::StripQuery;
use crate::time_text::time_text;
use crate::visit::VisitSettings;

/// The layout of the keys. A crawl of another layout is refused.
const LAYOUT: u32 = 13;

/// What may be raised when a crawl is resumed.
const BUDGETS: [&str; 4] = ["max_pages", "max_bytes", "max_pages_per_host", "max_pages_per_site"];

/// How long replicas may take to confirm.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(1);

/// The end of the name of a setting that is a time.
const IN_MILLISECONDS: &str = "_ms";

/// The field of the layout.
const LAYOUT_FIELD: &str = "layout";

/// The secret key of a crawl's hashes, which the process that begins it chooses.
const SECRET: &str = "secret";

/// Joins the crawl of this name, or begins it if `may_begin`.
pub(super) async fn open(
    redis_crawl: RedisCrawl,
    settings: BackendConfig,
    may_begin: bool,
) -> Result<OpenedCrawl> {
    let data = redis_crawl.connect().await?;
    let (crawl, CrawlData { connection, keys }) = (&redis_crawl.crawl, &data);
    let mut ours = described(&settings);
    ours.insert("delay_ms", milliseconds(redis_crawl.delay).to_string());
    ours.insert(SECRET, format!("{:032x}", secret()));
    let hash = format!("{}settings", keys.settings);
    let theirs = loop {
        let theirs: BTreeMap<String, String> = connection.one(Call::new("HGETALL", &hash)).await?;
        if theirs.is_empty() && !may_begin {
            return Err(BackendError::redis(NotFound, no_such_crawl_at(crawl, connection.address())));
        }
        // Budgets that were raised. A crawl that begins has everything from here.
        let is_raised = |(name, our): &(&&str, &String)| match theirs.get(**name) {
            Some(their) => BUDGETS.contains(*name) && number(their) < number(our),
            None => theirs.is_empty(),
        };
        if !theirs.is_empty() {
            agree(crawl, connection.address(), &ours, &theirs)?;
        }
        let raised: Vec<_> = ours.iter().filter(is_raised).collect();
        if raised.is_empty() {
            break theirs;
        }
        let unchanged = raised.iter().fold(WriteIf::default(), |write, (name, _)| {
            write.condition(("HGET", &hash, **name), theirs.get(**name).map_or("", String::as_str))
        });
        let write = unchanged.write_rows(&hash, raised.into_iter().map(|(name, our)| (*name, our)));
        connection.one::<u8>(write.call(&keys.settings)).await?;
    };
    let key = hash_key(connection, crawl, &theirs)?;
    let confirmation = confirmation(&redis_crawl, connection).await?;
    Ok(OpenedCrawl { redis_crawl, data, settings, key, confirmation })
}

/// What confirms changes that no process can repeat: as many replicas as are required, or one if there is one.
async fn confirmation(redis_crawl: &RedisCrawl, connection: &RedisConnection) -> Result<Confirmation> {
    let replicas = match redis_crawl.replicas {
        Some(replicas) => replicas.into(),
        None => connection.replicas().await?.min(1),
    };
    Ok(Confirmation { replicas, timeout: CONFIRM_TIMEOUT })
}

/// Looks at a crawl that exists, without joining it, and may change it.
pub(super) async fn attach(redis_crawl: RedisCrawl) -> Result<OpenedCrawl> {
    let data = redis_crawl.connect().await?;
    let (crawl, CrawlData { connection, keys }) = (&redis_crawl.crawl, &data);
    let read = Call::new("HGETALL", format!("{}settings", keys.settings));
    let theirs: BTreeMap<String, String> = connection.one(read).await?;
    if theirs.is_empty() {
        return Err(BackendError::redis(NotFound, no_such_crawl_at(crawl, connection.address())));
    }
    let settings = settings_of(&theirs).ok_or_else(|| damaged(connection, crawl))?;
    let key = hash_key(connection, crawl, &theirs)?;
    let confirmation = confirmation(&redis_crawl, connection).await?;
    Ok(OpenedCrawl { redis_crawl, data, settings, key, confirmation })
}

/// The error for a crawl that was never started, or was purged.
pub fn no_such_crawl(redis_crawl: &RedisCrawl) -> String {
    no_such_crawl_at(&redis_crawl.crawl, &redis_crawl.address)
}

fn no_such_crawl_at(crawl: &str, address: impl std::fmt::Display) -> String {
    format!("there is no crawl '{crawl}' on Redis at {address}; start it, or give the name of another one")
}

/// The key of all hashes of a crawl.
fn hash_key(connection: &RedisConnection, crawl: &str, theirs: &BTreeMap<String, String>) -> Result<HashKey> {
    let secret = theirs.get(SECRET).and_then(|secret| u128::from_str_radix(secret, 16).ok());
    secret.map(HashKey::new).ok_or_else(|| damaged(connection, crawl))
}

fn milliseconds(time: Duration) -> u64 {
    // Lua counts exactly up to there.
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).min(1 << 50)
}

fn damaged(connection: &RedisConnection, crawl: &str) -> BackendError {
    let address = connection.address();
    let message = format!("the crawl '{crawl}' on Redis at {address} is damaged; use another name");
    BackendError::redis(Damaged, message)
}

/// What all processes of a crawl have to agree on.
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
        (LAYOUT_FIELD, LAYOUT.to_string()),
        ("queue_size", queue_size.to_string()),
        ("priority_queues", priority_queues.count().to_string()),
        ("ttl_ms", milliseconds(*ttl).to_string()),
        ("domain_ttl_ms", milliseconds(*domain_ttl).to_string()),
        ("max_depth", given(*keep_depths).to_owned()),
        ("similarity", similarity.map_or("none".to_owned(), |threshold| threshold.dice().to_string())),
        ("strip_query", strip_query.patterns().join(" ")),
        ("no_content", given(!*keep_content).to_owned()),
        ("max_pages", settings.max_pages.to_string()),
        ("max_bytes", settings.max_bytes.to_string()),
        ("max_page_bytes", settings.max_page_bytes.to_string()),
        ("max_pages_per_host", settings.max_pages_per_host.to_string()),
        ("max_pages_per_site", settings.max_pages_per_site.to_string()),
        ("site_delay_ms", milliseconds(settings.hosts.site_delay).to_string()),
    ])
}

/// The settings that were described so. The number of workers is not described.
fn settings_of(described: &BTreeMap<String, String>) -> Option<BackendConfig> {
    let text = |name: &str| described.get(name).map(String::as_str);
    let number = |name: &str| text(name)?.parse::<u64>().ok();
    let time = |name: &str| number(name).map(Duration::from_millis);
    let is_given = |name: &str| Some(text(name)? == given(true));
    Some(BackendConfig {
        queue_size: usize::try_from(number("queue_size")?).ok()?,
        priority_queues: PriorityQueues::new(text("priority_queues")?.parse().ok()?)?,
        workers: 0,
        ttl: time("ttl_ms")?,
        domain_ttl: time("domain_ttl_ms")?,
        keep_depths: is_given("max_depth")?,
        keep_discovery: false,
        similarity: match text("similarity")? {
            "none" => None,
            dice => Some(Threshold::new(dice.parse().ok()?)?),
        },
        strip_query: StripQuery::new(&text("strip_query")?.split_whitespace().collect::<Vec<_>>()).ok()?,
        keep_content: !is_given("no_content")?,
        max_pages: number("max_pages")?,
        max_bytes: number("max_bytes")?,
        max_page_bytes: number("max_page_bytes")?,
        visits: VisitSettings::default(),
        max_pages_per_host: number("max_pages_per_host")?,
        max_pages_per_site: number("max_pages_per_site")?,
        hosts: HostLimits { site_delay: time("site_delay_ms")?, ..HostLimits::default() },
    })
}

fn agree(
    crawl: &str,
    address: &str,
    ours: &BTreeMap<&'static str, String>,
    theirs: &BTreeMap<String, String>,
) -> Result<()> {
    let there = format!("the crawl '{crawl}' on Redis at {address}");
    if theirs.get(LAYOUT_FIELD) != ours.get(LAYOUT_FIELD) {
        let message = format!(
            "{there} was started by another version of crawler, which stores it differently; use that version, or \
             another name for this crawl"
        );
        return Err(BackendError::redis(Unsupported, message));
    }
    for (name, our) in ours.iter().filter(|(name, _)| **name != SECRET) {
        let their = theirs.get(*name).map_or("unknown", String::as_str);
        let is_budget = BUDGETS.contains(name);
        // A budget that is larger here was not raised because another setting differs, which is the error.
        if their == our || is_budget && number(their) <= number(our) {
            continue;
        }
        let remedy = match is_budget {
            true => "it can be raised, not lowered",
            false => "use the same settings, or another name for this crawl",
        };
        let (name, their, our) = (setting(name), value(name, their), value(name, our));
        let message = format!(
            "{there} was started with another setting: {name} is {their} there and {our} here; {remedy}"
        );
        return Err(BackendError::redis(SettingsDiffer, message));
    }
    Ok(())
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or(u64::MAX)
}

/// The name of a setting in messages.
fn setting(name: &str) -> String {
    name.strip_suffix(IN_MILLISECONDS).unwrap_or(name).replace('_', "-")
}

/// The value of a setting as users write it.
fn value(name: &str, value: &str) -> String {
    match value.parse::<u64>() {
        Ok(milliseconds) if name.ends_with(IN_MILLISECONDS) => time_text(Duration::from_millis(milliseconds)),
        Ok(u64::MAX) => "unlimited".into(),
        Ok(count) => format::number(count),
        Err(_) => value.to_owned(),
    }
}

/// The value of a setting of which only matters whether it was given.
fn given(is_given: bool) -> &'static str {
    if is_given { "given" } else { "not given" }
}
