//! Waits while a proxy fails. That is no failure of the hosts behind it: their URLs do not fail, and if the proxy does not
//! recover, the crawl ends and they stay pending.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::log;
use crate::time_text::time_text;

/// The pause after the first failure. It doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// How long a proxy may fail that has never worked. It is probably configured wrongly, and the user waits for the result.
const FIRST_CONTACT_TIMEOUT: Duration = Duration::from_secs(10);

/// The health of the proxies, as the requests of all workers of the process show it. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct ProxyHealth(Arc<ProxyHealthShared>);

#[derive(Debug)]
struct ProxyHealthShared {
    proxies: Mutex<HashMap<String, Health>>,
    status: watch::Sender<ProxyStatus>,
}

impl Default for ProxyHealthShared {
    fn default() -> ProxyHealthShared {
        ProxyHealthShared { proxies: Mutex::default(), status: watch::Sender::new(ProxyStatus::Working) }
    }
}

#[derive(Debug, Default)]
struct Health {
    last_response: Option<Instant>,
    failing: Option<Failing>,
}

#[derive(Debug)]
struct Failing {
    since: Instant,
    /// No request is sent before this time.
    until: Instant,
    next_pause: Duration,
}

/// What requests wait for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ProxyStatus {
    Working,
    Failing(ProxyOutage),
    /// The crawl cannot continue, for this reason.
    GivenUp(String),
}

/// A proxy that fails. `Display` says what it does, and for how long requests wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyOutage {
    proxy: String,
    cause: String,
    since: Instant,
    timeout: Duration,
}

/// What a failure of a proxy says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProxyFailureSource {
    /// The proxy responded for other hosts meanwhile: it fails for this one.
    Host,
    /// The proxy failed. The request can be sent again.
    Proxy,
}

impl ProxyHealth {
    /// The proxy that fails, if one does.
    pub fn outage(&self) -> Option<ProxyOutage> {
        match &*self.0.status.borrow() {
            ProxyStatus::Failing(outage) => Some(outage.clone()),
            ProxyStatus::Working | ProxyStatus::GivenUp(_) => None,
        }
    }

    /// Reports to a function that a proxy fails, and that it works again.
    pub async fn report(&self, notice: impl Fn(&str)) -> Infallible {
        let (mut status, mut reported) = (self.0.status.subscribe(), None::<ProxyOutage>);
        loop {
            let current = status.borrow_and_update().clone();
            match (current, &reported) {
                (ProxyStatus::Failing(outage), reported_before)
                    if reported_before.as_ref().is_none_or(|before| before.proxy != outage.proxy) =>
                {
                    log::warned(&notice, &outage.to_string());
                    reported = Some(outage);
                }
                (ProxyStatus::Working, Some(before)) => {
                    log::informed(&notice, &format!("the proxy {} works again", before.proxy));
                    reported = None;
                }
                _ => {}
            }
            if status.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Completes when a proxy has failed for too long, with the reason.
    pub(crate) async fn given_up(&self) -> String {
        let mut status = self.0.status.subscribe();
        loop {
            if let ProxyStatus::GivenUp(reason) = &*status.borrow_and_update() {
                return reason.clone();
            }
            if status.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Waits while requests pause because a proxy fails.
    pub(super) async fn ready(&self) {
        while let Some(until) = self.paused_until() {
            sleep_until(until).await;
        }
    }

    fn paused_until(&self) -> Option<Instant> {
        // Without an outage, which is almost always, nothing is locked for long.
        if *self.0.status.borrow() == ProxyStatus::Working {
            return None;
        }
        let (proxies, now) = (self.proxies(), Instant::now());
        proxies
            .values()
            .filter_map(|health| Some(health.failing.as_ref()?.until))
            .filter(|until| *until > now)
            .max()
    }

    /// A response came through a proxy.
    pub(super) fn responded(&self, proxy: &str) {
        let mut proxies = self.proxies();
        let health = match proxies.get_mut(proxy) {
            Some(health) => health,
            None => proxies.entry(proxy.to_owned()).or_default(),
        };
        health.last_response = Some(Instant::now());
        if health.failing.take().is_some() {
            drop(proxies);
            self.0.status.send_if_modified(|status| {
                let is_this = matches!(status, ProxyStatus::Failing(outage) if outage.proxy == proxy);
                if is_this {
                    *status = ProxyStatus::Working;
                }
                is_this
            });
        }
    }

    /// A proxy failed for a request whose first try started to connect at `connecting`. Waits until the request can be sent
    /// again; for ever, if the proxy fails for longer than `max_wait`. Then the crawl ends.
    pub(super) async fn failed(
        &self,
        proxy: &str,
        cause: &str,
        connecting: Instant,
        max_wait: Duration,
    ) -> ProxyFailureSource {
        let until = {
            let (mut proxies, now) = (self.proxies(), Instant::now());
            let health = proxies.entry(proxy.to_owned()).or_default();
            if health.last_response.is_some_and(|time| time > connecting) {
                return ProxyFailureSource::Host;
            }
            let has_worked = health.last_response.is_some();
            let timeout = if has_worked { max_wait } else { max_wait.min(FIRST_CONTACT_TIMEOUT) };
            let failing =
                health.failing.get_or_insert(Failing { since: now, until: now, next_pause: FIRST_PAUSE });
            // The requests that were in flight fail together. The pause is the same for all of them.
            if now >= failing.until {
                let left = timeout.saturating_sub(now - failing.since);
                if left.is_zero() {
                    self.0.status.send_replace(ProxyStatus::GivenUp(cause.to_owned()));
                } else {
                    failing.until = now + failing.next_pause.min(left);
                    failing.next_pause = (2 * failing.next_pause).min(MAX_PAUSE);
                }
            }
            self.announce(proxy, cause, failing.since, timeout);
            failing.until
        };
        sleep_until(until).await;
        if matches!(*self.0.status.borrow(), ProxyStatus::GivenUp(_)) {
            std::future::pending::<()>().await;
        }
        ProxyFailureSource::Proxy
    }

    fn announce(&self, proxy: &str, cause: &str, since: Instant, timeout: Duration) {
        self.0.status.send_if_modified(|status| {
            let is_new = *status == ProxyStatus::Working;
            if is_new {
                let (proxy, cause) = (proxy.to_owned(), cause.to_owned());
                *status = ProxyStatus::Failing(ProxyOutage { proxy, cause, since, timeout });
            }
            is_new
        });
    }

    fn proxies(&self) -> MutexGuard<'_, HashMap<String, Health>> {
        self.0.proxies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ProxyOutage {
    /// For how long the proxy has failed.
    pub fn duration(&self) -> Duration {
        self.since.elapsed()
    }

    /// The proxy, without user name and password.
    pub fn proxy(&self) -> &str {
        &self.proxy
    }
}

impl fmt::Display for ProxyOutage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ProxyOutage { cause, timeout, .. } = self;
        write!(f, "{cause}; requests wait for it, for up to {}", time_text(*timeout))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::timeout;

    const PROXY: &str = "http://p.test:3128";
    const CAUSE: &str = "the proxy http://p.test:3128 cannot be reached: connection refused";
    const MAX_WAIT: Duration = Duration::from_secs(600);

    #[tokio::test(start_paused = true)]
    async fn requests_wait_longer_with_each_failure_and_until_the_proxy_works() {
        let (health, started) = (ProxyHealth::default(), Instant::now());
        health.responded(PROXY);
        assert_eq!(health.outage(), None);
        let mut times = Vec::new();
        for _ in 0..7 {
            tokio::time::advance(Duration::from_millis(1)).await;
            let failed = health.failed(PROXY, CAUSE, Instant::now(), MAX_WAIT);
            assert_eq!(failed.await, ProxyFailureSource::Proxy);
            times.push(started.elapsed().as_secs());
        }
        assert_eq!(times, [1, 3, 7, 15, 31, 61, 91]);
        let text = health.outage().unwrap().to_string();
        assert_eq!(text, format!("{CAUSE}; requests wait for it, for up to 10m"));
        health.responded(PROXY);
        assert_eq!(health.outage(), None);
        assert!(timeout(Duration::from_secs(1), health.ready()).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn requests_that_fail_together_wait_together_and_others_wait_too() {
        let health = ProxyHealth::default();
        let (connecting, started) = (Instant::now(), Instant::now());
        let failed = || health.failed(PROXY, CAUSE, connecting, MAX_WAIT);
        tokio::join!(failed(), failed(), failed(), async {
            tokio::task::yield_now().await;
            health.ready().await;
        });
        assert_eq!(started.elapsed().as_secs(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn proxy_that_works_for_other_hosts_does_not_delay_them() {
        let health = ProxyHealth::default();
        let connecting = Instant::now();
        tokio::time::advance(Duration::from_secs(1)).await;
        health.responded(PROXY);
        assert_eq!(health.failed(PROXY, CAUSE, connecting, MAX_WAIT).await, ProxyFailureSource::Host);
        // Another proxy says nothing about this one.
        let failed = health.failed("http://other.test:1", CAUSE, connecting, MAX_WAIT).await;
        assert_eq!(failed, ProxyFailureSource::Proxy);
    }

    #[tokio::test(start_paused = true)]
    async fn proxy_is_given_up_after_the_timeout_and_sooner_if_it_never_worked() {
        for (has_worked, seconds) in [(false, 10), (true, 600)] {
            let (health, started) = (ProxyHealth::default(), Instant::now());
            if has_worked {
                health.responded(PROXY);
                tokio::time::advance(Duration::from_millis(1)).await;
            }
            let failing = async {
                loop {
                    health.failed(PROXY, CAUSE, Instant::now(), MAX_WAIT).await;
                }
            };
            let reason = tokio::select! {
                reason = health.given_up() => reason,
                () = failing => unreachable!("it fails for ever"),
            };
            assert_eq!((reason.as_str(), started.elapsed().as_secs()), (CAUSE, seconds));
            assert_eq!(health.outage(), None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn outage_and_recovery_are_reported_once() {
        let (health, messages) = (ProxyHealth::default(), Mutex::new(Vec::new()));
        let notice = |message: &str| messages.lock().unwrap().push(message.to_owned());
        let crawl = async {
            for _ in 0..3 {
                health.failed(PROXY, CAUSE, Instant::now(), MAX_WAIT).await;
            }
            health.responded(PROXY);
        };
        let both = async { tokio::join!(crawl, health.report(notice)) };
        assert!(timeout(Duration::from_secs(60), both).await.is_err());
        let messages = messages.into_inner().unwrap();
        assert_eq!(messages.len(), 2, "{messages:?}");
        assert_eq!(messages[1], "the proxy http://p.test:3128 works again");
    }
}
