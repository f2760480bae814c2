//! The sites whose URLs wait because robots.txt could not be fetched yet, for progress displays.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::backend::{MAX_WAITING_HOSTS, WaitReason, WaitingHost};
use crate::log;
use crate::origin::{Origin, throttle_key};
use crate::outcome::Outcome;

/// How often [`RobotsWaits::report`] checks whether a site waits.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The time between two messages of [`RobotsWaits::report`]. A crawl may have thousands of sites that wait.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// A URL that returns to the queue until the pause of its site is over is expected back this long after that. If none comes, the
/// site's URLs are blocked, or another worker has them.
const RETURN_TIMEOUT: Duration = Duration::from_secs(10);

/// The sites whose URLs wait for a robots.txt. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct RobotsWaits(Arc<Mutex<BTreeMap<String, SiteWait>>>);

/// Why a site waits.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SiteWait {
    cause: String,
    /// It waits until then at the latest.
    until: Option<Instant>,
}

/// Some URLs wait for a robots.txt. `Display` names one of the sites, and why its robots.txt could not be fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RobotsWait {
    /// The number of sites.
    pub sites: usize,
    /// One of the sites: scheme, host and port.
    pub site: String,
    /// Why its robots.txt could not be fetched.
    pub cause: String,
}

/// One site that waits, until this is dropped.
pub(super) struct WaitingSite {
    waits: RobotsWaits,
    site: String,
}

impl RobotsWaits {
    /// The sites that wait now; `None` if there are none.
    pub fn current(&self) -> Option<RobotsWait> {
        let waits = self.lock();
        let mut sites = current(&waits);
        let (site, cause) = sites.next()?;
        Some(RobotsWait { sites: 1 + sites.count(), site: site.clone(), cause: cause.clone() })
    }

    /// The waits of these sites, each with why its robots.txt could not be fetched.
    pub(crate) fn from_sites(sites: BTreeMap<String, String>) -> RobotsWaits {
        let waits = sites.into_iter().map(|(site, cause)| (site, SiteWait { cause, until: None }));
        RobotsWaits(Arc::new(Mutex::new(waits.collect())))
    }

    /// Up to `max` sites that wait now, each with why its robots.txt could not be fetched.
    pub(crate) fn sites(&self, max: usize) -> BTreeMap<String, String> {
        let waits = self.lock();
        current(&waits).take(max).map(|(site, cause)| (site.clone(), cause.clone())).collect()
    }

    /// Why the robots.txt of a host, by its throttle key, could not be fetched yet; `None` if no URL waits for it.
    pub(crate) fn cause_of(&self, host: &str) -> Option<String> {
        let (waits, now) = (self.lock(), Instant::now());
        let sites = ["http://", "https://"].map(|scheme| format!("{scheme}{host}"));
        let wait = sites.iter().find_map(|site| waits.get(site)).filter(|wait| wait.is_current(now))?;
        Some(wait.cause.clone())
    }

    /// Names robots.txt as the reason for which hosts wait. A host whose only URL waits for it is listed too.
    pub(crate) fn add_to(&self, waiting_hosts: &mut Vec<WaitingHost>) {
        for host in waiting_hosts.iter_mut() {
            if let Some(cause) = self.cause_of(&host.host) {
                host.why = WaitReason::RobotsTxt(cause);
            }
        }
        for (site, cause) in self.sites(MAX_WAITING_HOSTS) {
            let why = WaitReason::RobotsTxt(cause);
            WaitingHost::add_unlisted(waiting_hosts, throttle_key(&site), why);
        }
    }

    /// Reports waiting sites to a function, at most once per minute.
    pub async fn report(&self, notice: impl Fn(&str)) -> Infallible {
        loop {
            sleep(POLL_INTERVAL).await;
            if let Some(wait) = self.current() {
                log::warned(&notice, &wait.to_string());
                sleep(REPORT_INTERVAL).await;
            }
        }
    }

    /// Adds a site whose robots.txt could not be fetched.
    pub(super) fn add(&self, origin: &Origin, outcome: &Outcome) -> WaitingSite {
        let site = origin.to_string();
        let cause = match outcome {
            Outcome::RobotsUnavailable { cause } => cause.clone(),
            outcome => outcome.to_string(),
        };
        self.lock().insert(site.clone(), SiteWait { cause, until: None });
        WaitingSite { waits: self.clone(), site }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, SiteWait>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SiteWait {
    fn is_current(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| now < until)
    }
}

/// The sites that wait now, and why.
fn current(waits: &BTreeMap<String, SiteWait>) -> impl Iterator<Item = (&String, &String)> {
    let now = Instant::now();
    waits.iter().filter(move |(_, wait)| wait.is_current(now)).map(|(site, wait)| (site, &wait.cause))
}

impl WaitingSite {
    /// The URLs of the site are returned to the queue for this time.
    pub(super) fn postpone(&self, time: Duration) {
        if let Some(wait) = self.waits.lock().get_mut(&self.site) {
            wait.until = Some(Instant::now() + time + RETURN_TIMEOUT);
        }
    }
}

impl Drop for WaitingSite {
    fn drop(&mut self) {
        self.waits.lock().remove(&self.site);
    }
}

impl fmt::Display for RobotsWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RobotsWait { sites, site, cause } = self;
        write!(f, "waiting for robots.txt of {site} ({cause})")?;
        match sites - 1 {
            0 => Ok(()),
            1 => f.write_str(" and of 1 other site"),
            others => write!(f, " and of {others} other sites"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::timeout;

    #[tokio::test(start_paused = true)]
    async fn waiting_sites_are_reported_once_per_minute() {
        let (waits, messages) = (RobotsWaits::default(), Mutex::new(Vec::new()));
        let notice = |message: &str| messages.lock().unwrap().push(message.to_owned());
        let outcome = Outcome::RobotsUnavailable { cause: "HTTP 503".into() };
        let origin = |n: u32| Origin { https: false, host: format!("h{n:04}.test"), port: 80 };
        let sites: Vec<WaitingSite> = (0..2_000).map(|n| waits.add(&origin(n), &outcome)).collect();
        assert!(timeout(Duration::from_secs(100), waits.report(notice)).await.is_err());
        drop(sites);
        assert!(timeout(Duration::from_secs(100), waits.report(notice)).await.is_err());
        let message = "waiting for robots.txt of http://h0000.test (HTTP 503) and of 1999 other sites";
        assert_eq!(*messages.lock().unwrap(), [message, message]);
    }

    #[tokio::test(start_paused = true)]
    async fn site_whose_urls_do_not_come_back_waits_no_longer() {
        let waits = RobotsWaits::default();
        let origin = Origin { https: false, host: "a.test".into(), port: 80 };
        let outcome = Outcome::RobotsUnavailable { cause: "HTTP 503".into() };
        let site = waits.add(&origin, &outcome);
        site.postpone(Duration::from_secs(60));
        let names = || waits.sites(10).into_keys().collect::<Vec<_>>();
        sleep(Duration::from_secs(61)).await;
        assert_eq!(names(), ["http://a.test"], "its URLs come back soon");
        sleep(RETURN_TIMEOUT).await;
        assert_eq!((names().len(), waits.current(), waits.cause_of("a.test")), (0, None, None));
        // They come back, and robots.txt fails again.
        drop(site);
        let _site = waits.add(&origin, &outcome);
        assert_eq!(names(), ["http://a.test"]);
    }

    #[test]
    fn waiting_sites_are_counted_and_one_is_named() {
        let waits = RobotsWaits::default();
        let origin = |host: &str| Origin { https: true, host: host.into(), port: 443 };
        let unavailable = Outcome::RobotsUnavailable { cause: "HTTP 503".into() };
        assert_eq!(waits.current(), None);
        let first = waits.add(&origin("a.test"), &unavailable);
        let text = || waits.current().unwrap().to_string();
        assert_eq!(text(), "waiting for robots.txt of https://a.test (HTTP 503)");
        let second = waits.add(&origin("b.test"), &unavailable);
        assert_eq!(text(), "waiting for robots.txt of https://a.test (HTTP 503) and of 1 other site");
        drop(first);
        assert_eq!(text(), "waiting for robots.txt of https://b.test (HTTP 503)");
        drop(second);
        assert_eq!(waits.current(), None);
    }
}
