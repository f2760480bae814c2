//! Asks robots.txt, once per origin and day, and obeys it.

pub mod rules;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio::time::Instant;
use url::Url;

use self::rules::Rules;
use super::http::BodyPolicy;
use super::polite_client::{FetchBudget, PoliteClient};
use crate::backend::HostDelay;
use crate::config::{MAX_CRAWL_DELAY, PRODUCT_TOKEN};
use crate::domain::Domain;
use crate::html;
use crate::origin::Origin;
use crate::outcome::Outcome;

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

/// How many bytes the rules that are remembered take at most, but for the last file of either half: half a megabyte of
/// short rules takes some ten megabytes when read.
const REMEMBERED_BYTES: usize = 16 * 1024 * 1024;

/// The robots.txt of the origins met lately.
#[derive(Default)]
pub struct Robots {
    origins: Mutex<Origins>,
}

#[derive(Default)]
struct Origins {
    young: HashMap<Origin, Arc<Entry>>,
    /// What the rules of the young take.
    young_bytes: usize,
    old: HashMap<Origin, Arc<Entry>>,
}

struct Entry {
    since: Instant,
    /// What the rules take, as soon as they are there.
    bytes: AtomicUsize,
    /// The rules, or why there are none. Filled by the first who asks; the others wait for it.
    rules: OnceCell<Result<Rules, String>>,
}

impl Robots {
    /// Whether a URL may be asked for; if not, the outcome says why.
    pub async fn check(
        &self,
        url: &Url,
        ask: &PoliteClient,
        budget: &impl FetchBudget,
    ) -> Result<(), Outcome> {
        let origin = Origin::from_url(url);
        let (entry, start) = (self.origins().entry(&origin), Start(budget));
        let learn = async {
            let rules = rules_of(&origin, ask, &start).await;
            self.origins().count(&origin, &entry, rules.as_ref().map_or(0, bytes_of));
            rules
        };
        match entry.rules.get_or_try_init(|| learn).await? {
            Ok(rules) => {
                // Again each time: the pace forgets a host that has been quiet for long.
                keep_delay(&origin, rules, ask, &start).await;
                if rules.allows(url) { Ok(()) } else { Err(Outcome::RobotsDisallowed) }
            }
            Err(cause) => Err(Outcome::RobotsUnavailable { cause: cause.clone() }),
        }
    }

    fn origins(&self) -> MutexGuard<'_, Origins> {
        self.origins.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Origins {
    /// What is known of an origin, or an entry for what will be. It is among the young then.
    fn entry(&mut self, origin: &Origin) -> Arc<Entry> {
        let is_fresh = |entry: &Arc<Entry>| entry.since.elapsed() < LIFETIME;
        if let Some(entry) = self.young.get(origin) {
            if is_fresh(entry) {
                return Arc::clone(entry);
            }
            self.young_bytes -= self.young.remove(origin).map_or(0, |entry| entry.bytes());
        }
        let known = self.old.remove(origin).filter(is_fresh);
        let entry = known.unwrap_or_else(|| {
            Arc::new(Entry { since: Instant::now(), bytes: AtomicUsize::new(0), rules: OnceCell::new() })
        });
        self.remember(origin, &entry);
        entry
    }

    /// Takes into account what the rules of an entry take, unless it has been forgotten meanwhile.
    fn count(&mut self, origin: &Origin, entry: &Arc<Entry>, bytes: usize) {
        let is_it = |known: Option<&Arc<Entry>>| known.is_some_and(|known| Arc::ptr_eq(known, entry));
        if is_it(self.young.get(origin)) {
            self.young.remove(origin);
        } else if is_it(self.old.get(origin)) {
            self.old.remove(origin);
        } else {
            return;
        }
        entry.bytes.store(bytes, Ordering::Relaxed);
        self.remember(origin, entry);
    }

    /// Puts an entry among the young, for which they grow old where it needs the room.
    fn remember(&mut self, origin: &Origin, entry: &Arc<Entry>) {
        let bytes = self.young_bytes + entry.bytes();
        if self.young.len() >= REMEMBERED / 2 || bytes > REMEMBERED_BYTES / 2 {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += entry.bytes();
        self.young.insert(origin.clone(), Arc::clone(entry));
    }
}

impl Entry {
    fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

fn bytes_of(rules: &Result<Rules, String>) -> usize {
    match rules {
        Ok(rules) => rules.bytes(),
        Err(cause) => cause.len(),
    }
}

/// What a robots.txt may read, whoever fetches it; what it leads to is told to the one whose page comes next. Its bytes
/// do not count against a budget: it is asked for on behalf of the host, and read up to a limit of its own.
struct Start<'a, A>(&'a A);

impl<A: FetchBudget> FetchBudget for Start<'_, A> {
    async fn before_wait(&self) {}

    async fn body_policy(&self) -> Result<Option<BodyPolicy>, Outcome> {
        Ok(Some(BodyPolicy::Start(MAX_BYTES)))
    }

    fn record_bytes(&self, _: u64) {}

    async fn host_slowed(&self, host: &str, host_delay: HostDelay) {
        self.0.host_slowed(host, host_delay).await;
    }
}

/// Fetches an origin's rules. The outer error means that the crawl is ending, and nothing was learnt.
async fn rules_of(
    origin: &Origin,
    ask: &PoliteClient,
    budget: &impl FetchBudget,
) -> Result<Result<Rules, String>, Outcome> {
    let mut cause = String::new();
    for _ in 0..TRIES {
        match fetch(origin, ask, budget).await {
            Ok(rules) => {
                keep_delay(origin, &rules, ask, budget).await;
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

/// Sees to it that the host is asked no faster than the rules want.
async fn keep_delay(origin: &Origin, rules: &Rules, ask: &PoliteClient, budget: &impl FetchBudget) {
    let Some(delay) = rules.crawl_delay() else { return };
    let host = origin.throttle_key();
    if ask.pace.slow_down(&host, delay.min(MAX_CRAWL_DELAY))
        && let Some(host_delay) = ask.pace.host_delay(&host)
    {
        budget.host_slowed(&host, host_delay).await;
    }
}

/// One try, redirects followed.
async fn fetch(origin: &Origin, ask: &PoliteClient, budget: &impl FetchBudget) -> Result<Rules, Outcome> {
    let root = Url::parse(&origin.to_string())
        .map_err(|error| Outcome::InvalidResponse { cause: error.to_string() })?;
    let mut url = html::resolve(&root, "/robots.txt").unwrap_or(root);
    for _ in 0..=MAX_REDIRECTS {
        let answer = ask.send(&url, budget).await?;
        match (answer.status, answer.redirect) {
            (_, Some(location)) => match html::resolve(&url, &location) {
                // Another domain may be somebody else's to ask.
                Ok(target) if ask.has_liveness() && Domain::from_url(&target) != Domain::from_url(&url) => {
                    break;
                }
                Ok(target) => url = target,
                Err(_) => break,
            },
            (200..=299, None) => return Ok(Rules::parse(whole_lines(&answer.body), PRODUCT_TOKEN)),
            // An overloaded server is not a missing file, although its status is among the 4xx.
            (status @ (429 | 500..), None) => {
                return Err(Outcome::HttpStatus { code: status, retry_after: answer.retry_after });
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
    use crate::fetch::http::Downloader;
    use crate::fetch::throttle::HostThrottle;
    use crate::stop::StopHandle;

    #[test]
    fn a_line_cut_by_the_limit_is_not_read() {
        assert_eq!(whole_lines(b"Disallow: /a"), b"Disallow: /a");
        let mut long = vec![b'#'; MAX_BYTES - 13];
        long.extend_from_slice(b"\nDisallow: /a");
        assert_eq!(whole_lines(&long).last(), Some(&b'#'));
    }

    fn origin(number: usize) -> Origin {
        Origin { https: false, host: format!("h{number}.test"), port: 80 }
    }

    /// What all that is remembered takes.
    fn bytes_in(origins: &Origins) -> usize {
        origins.young.values().chain(origins.old.values()).map(|entry| entry.bytes()).sum()
    }

    #[test]
    fn long_rules_of_many_hosts_are_remembered_up_to_a_size_and_those_asked_last() {
        let mut origins = Origins::default();
        let bytes = REMEMBERED_BYTES / 100;
        for number in 0..1_000 {
            let entry = origins.entry(&origin(number));
            origins.count(&origin(number), &entry, bytes);
            assert!(bytes_in(&origins) <= REMEMBERED_BYTES);
        }
        assert!(origins.young.len() + origins.old.len() > 50);
        assert_eq!(origins.entry(&origin(999)).bytes(), bytes);
        assert_eq!(origins.entry(&origin(0)).bytes(), 0, "it is fetched anew");
    }

    #[tokio::test(start_paused = true)]
    async fn a_crawl_delay_comes_back_when_the_pace_has_forgotten_the_host() {
        let robots = Robots::default();
        let rules = Rules::parse(b"User-agent: *\nCrawl-delay: 20\nDisallow: /no", PRODUCT_TOKEN);
        robots.origins().entry(&origin(0)).rules.set(Ok(rules)).unwrap();
        for path in ["/yes", "/no"] {
            let pace = Arc::new(HostThrottle::new(Duration::from_secs(1), 1));
            let downloader = Downloader::new(Arc::default(), &[]).unwrap();
            let ask = PoliteClient::new(Arc::clone(&pace), 1, downloader, StopHandle::new());
            let url = Url::parse(&format!("http://h0.test{path}")).unwrap();
            let checked = robots.check(&url, &ask, &BodyPolicy::Page(1)).await;
            assert_eq!(checked.is_ok(), path == "/yes");
            let host_delay = pace.host_delay("h0.test").expect("the host is known again");
            assert_eq!(host_delay.delay, Duration::from_secs(20));
        }
    }

    #[test]
    fn hosts_with_short_rules_are_remembered_up_to_a_number() {
        let mut origins = Origins::default();
        for number in 0..3 * REMEMBERED {
            let entry = origins.entry(&origin(number));
            origins.count(&origin(number), &entry, 1);
        }
        let count = origins.young.len() + origins.old.len();
        assert!((REMEMBERED / 2..=REMEMBERED).contains(&count), "{count}");
    }

    #[test]
    fn rules_that_come_when_their_origin_has_been_forgotten_are_not_remembered() {
        let mut origins = Origins::default();
        let slow = origins.entry(&origin(0));
        for number in 1..=REMEMBERED {
            origins.entry(&origin(number));
        }
        origins.count(&origin(0), &slow, 1_000);
        assert_eq!((bytes_in(&origins), origins.young_bytes), (0, 0));
    }
}
