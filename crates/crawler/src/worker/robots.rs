//! Asks robots.txt, once per origin and day, and obeys it.

pub mod rules;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio::time::Instant;
use url::Url;

use self::rules::Rules;
use super::ask::{Allowance, Ask};
use super::download::Want;
use super::links;
use crate::config::{MAX_CRAWL_DELAY, PRODUCT_TOKEN};
use crate::origin::Origin;
use crate::outcome::Outcome;
use crate::resources::Pacing;

/// How long a robots.txt is used before it is asked for again.
const LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// How much of a robots.txt is read; the standard asks for 500 KiB at least.
const MAX_BYTES: usize = 512 * 1024;

/// Redirects followed from a robots.txt; after more, the standard lets it count as missing.
const MAX_REDIRECTS: usize = 5;

/// How often a server in trouble is asked before its robots.txt counts as unavailable.
const TRIES: usize = 3;

/// How many robots.txt are remembered: of those, half are of the origins asked last. One that is forgotten is fetched
/// again when it is needed.
const REMEMBERED: usize = 20_000;

/// The robots.txt of the origins met lately.
#[derive(Default)]
pub struct Robots {
    origins: Mutex<Origins>,
}

#[derive(Default)]
struct Origins {
    young: HashMap<Origin, Arc<Entry>>,
    old: HashMap<Origin, Arc<Entry>>,
}

struct Entry {
    since: Instant,
    /// The rules, or why there are none. Filled by the first who asks; the others wait for it.
    rules: OnceCell<Result<Rules, String>>,
}

impl Robots {
    /// Whether a URL may be asked for; if not, the outcome says why.
    pub async fn check(&self, url: &Url, ask: &Ask, allowance: &impl Allowance) -> Result<(), Outcome> {
        let origin = Origin::of(url);
        let (entry, start) = (self.entry(&origin), Start(allowance));
        match entry.rules.get_or_try_init(|| rules_of(&origin, ask, &start)).await? {
            Ok(rules) if rules.allows(url) => Ok(()),
            Ok(_) => Err(Outcome::Disallowed),
            Err(cause) => Err(Outcome::RobotsUnavailable { cause: cause.clone() }),
        }
    }

    fn entry(&self, origin: &Origin) -> Arc<Entry> {
        let mut origins = self.origins.lock().unwrap_or_else(PoisonError::into_inner);
        let Origins { young, old } = &mut *origins;
        let known = young.get(origin).map(Arc::clone).or_else(|| old.remove(origin));
        let entry = known
            .filter(|entry| entry.since.elapsed() < LIFETIME)
            .unwrap_or_else(|| Arc::new(Entry { since: Instant::now(), rules: OnceCell::new() }));
        if young.len() >= REMEMBERED / 2 && !young.contains_key(origin) {
            *old = std::mem::take(young);
        }
        young.insert(origin.clone(), Arc::clone(&entry));
        entry
    }
}

/// What a robots.txt may read, whoever fetches it; what it leads to is told to the one whose page comes next.
struct Start<'a, A>(&'a A);

impl<A: Allowance> Allowance for Start<'_, A> {
    async fn waits(&self) {}

    async fn want(&self) -> Result<Option<Want>, Outcome> {
        Ok(Some(Want::Start(MAX_BYTES)))
    }

    fn used(&self, _: u64) {}

    async fn slowed(&self, host: &str, pacing: Pacing) {
        self.0.slowed(host, pacing).await;
    }
}

/// Fetches an origin's rules. The outer error means that the crawl is ending, and nothing was learnt.
async fn rules_of(
    origin: &Origin,
    ask: &Ask,
    allowance: &impl Allowance,
) -> Result<Result<Rules, String>, Outcome> {
    let mut cause = String::new();
    for _ in 0..TRIES {
        match fetch(origin, ask, allowance).await {
            Ok(rules) => {
                if let Some(delay) = rules.crawl_delay() {
                    slow_down(&origin.paced_host(), delay.min(MAX_CRAWL_DELAY), ask, allowance).await;
                }
                return Ok(Ok(rules));
            }
            Err(Outcome::NotReached) => return Err(Outcome::NotReached),
            Err(failure) => {
                cause = failure.to_string();
                if failure.asks_for_too_long() {
                    break;
                }
            }
        }
    }
    Ok(Err(cause))
}

async fn slow_down(host: &str, delay: Duration, ask: &Ask, allowance: &impl Allowance) {
    if ask.pace.slow_down(host, delay)
        && let Some(pacing) = ask.pace.pacing(host)
    {
        allowance.slowed(host, pacing).await;
    }
}

/// One try, redirects followed.
async fn fetch(origin: &Origin, ask: &Ask, allowance: &impl Allowance) -> Result<Rules, Outcome> {
    let root =
        Url::parse(&origin.to_string()).map_err(|error| Outcome::Malformed { cause: error.to_string() })?;
    let mut url = links::resolve(&root, "/robots.txt").unwrap_or(root);
    for _ in 0..=MAX_REDIRECTS {
        let answer = ask.once(&url, allowance).await?;
        match (answer.status, answer.redirect) {
            (_, Some(location)) => match links::resolve(&url, &location) {
                Ok(target) => url = target,
                Err(_) => break,
            },
            (200..=299, None) => return Ok(Rules::parse(whole_lines(&answer.body), PRODUCT_TOKEN)),
            // An overloaded server is not a missing file, although its status is among the 4xx.
            (status @ (429 | 500..), None) => {
                return Err(Outcome::Status { code: status, retry_after: answer.retry_after });
            }
            _ => break,
        }
    }
    Ok(Rules::allow_all())
}

/// Drops a last line that the size limit may have cut in two.
fn whole_lines(body: &[u8]) -> &[u8] {
    if body.len() < MAX_BYTES {
        return body;
    }
    let end = body.iter().rposition(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or(0);
    &body[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_cut_by_the_limit_is_not_read() {
        assert_eq!(whole_lines(b"Disallow: /a"), b"Disallow: /a");
        let mut long = vec![b'#'; MAX_BYTES - 13];
        long.extend_from_slice(b"\nDisallow: /a");
        assert_eq!(whole_lines(&long).last(), Some(&b'#'));
    }
}
