//! The worker: leases URLs from its own queue, visits them host by host, and does with each page what is to be done.

pub mod ask;
pub mod content;
pub mod download;
mod hosts;
pub mod links;
pub mod pace;
mod reservation;
pub mod robots;
pub mod similarity;
pub mod visit;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use url::Url;

use self::content::Content;
use self::download::Download;
use self::hosts::Hosts;
use self::reservation::Reservation;
use self::visit::{Visit, Visitor};
use crate::config::MAX_REDIRECTS;
use crate::domain::Domain;
use crate::installed::Installed;
use crate::outcome::Outcome;
use crate::resources::{Completed, Completion, Found, Lease, Remembered, Resources, Trouble, WorkerId};
use crate::scope::{Refusal, Scope};
use crate::stop::Stop;
use crate::task::Depth;

/// How long a worker waits for leases before it looks again by itself.
const WAIT: Duration = Duration::from_millis(500);

/// How many leases are taken at a time.
const BATCH: usize = 256;

/// What every worker of a crawl goes by.
pub struct Orders<R> {
    /// Where the URLs are.
    pub resources: Arc<R>,
    /// What is done with pages.
    pub installed: Arc<Installed>,
    /// Where the crawl stays.
    pub scope: Scope,
    /// How deep it goes.
    pub max_depth: Depth,
    /// The largest page where the budget does not matter.
    pub max_page_bytes: usize,
    /// Whether pages that are like others are dropped.
    pub compare: bool,
    /// The most leases a worker has in hand: as many as its queue holds.
    pub in_hand: usize,
    /// Ends it.
    pub stop: Stop,
}

/// One worker.
pub struct Worker<R> {
    id: WorkerId,
    visitor: Visitor,
    orders: Arc<Orders<R>>,
}

impl<R: Resources> Worker<R> {
    /// A worker with a visitor of its own: nobody else asks the hosts it asks.
    pub fn new(id: WorkerId, visitor: Visitor, orders: Arc<Orders<R>>) -> Worker<R> {
        Worker { id, visitor, orders }
    }

    /// Works until told to stop; what is in flight then is finished.
    ///
    /// Leases wait per host, one of each host is being served at any time, and whichever host may be asked next is
    /// asked next: no host's delay, timeout or outage holds up another.
    pub async fn run(self: Arc<Self>) -> Result<(), Trouble> {
        let Orders { resources, stop, in_hand, .. } = &*self.orders;
        let mut hosts = Hosts::default();
        let mut visits = JoinSet::new();
        loop {
            let room = in_hand.saturating_sub(hosts.in_hand());
            tokio::select! {
                biased;
                () = stop.asked() => break,
                Some(served) = visits.join_next() => {
                    let host: String = joined(served)?;
                    hosts.served(&host);
                }
                leases = resources.lease(self.id, room.min(BATCH), WAIT), if room > 0 => hosts.add(leases?),
            }
            while let Some((host, lease)) = hosts.next() {
                let worker = Arc::clone(&self);
                visits.spawn(async move { worker.serve(lease).await.map(|()| host) });
            }
        }
        while let Some(served) = visits.join_next().await {
            joined(served)?;
        }
        Ok(())
    }

    /// A lease's whole life.
    async fn serve(&self, lease: Lease) -> Result<(), Trouble> {
        let Ok(url) = Url::parse(&lease.url) else { return Ok(()) };
        let allowance = Reservation::new(&*self.orders.resources, &lease, &self.orders.stop);
        let visit = self.visitor.visit(&url, &allowance).await;
        let mut done = Completion::of(&lease);
        done.outcome = match visit {
            // The crawl has ended; the URL stays outstanding.
            Err(Outcome::NotReached) => return Ok(()),
            Err(outcome) => outcome,
            Ok(Visit::Redirect(location)) => self.redirect(&url, &lease, &location, &mut done.children),
            Ok(Visit::Page(download)) => return self.keep(url, &lease, download, allowance.read()).await,
        };
        done.bytes = allowance.read();
        if let Outcome::TooLarge { limit } = done.outcome
            && limit < self.orders.max_page_bytes
        {
            // It would have fit, had more been left: that is the end of the budget.
            done.bytes = limit as u64;
        }
        self.complete(done).await?;
        Ok(())
    }

    /// Content, modules, links: what is done with a page that was downloaded.
    async fn keep(&self, url: Url, lease: &Lease, download: Download, bytes: u64) -> Result<(), Trouble> {
        let orders = &*self.orders;
        let content = Content::of(orders.resources.key(), url, lease.depth, download, orders.compare);
        let mut done = Completion { bytes, ..Completion::of(lease) };
        let remembered = match lease.again {
            true => Remembered::New,
            false => orders.resources.remember(&lease.url, &content.fingerprint, &content.page.body).await?,
        };
        done.outcome = match remembered {
            Remembered::New => Outcome::Kept,
            Remembered::Same(of) => Outcome::Duplicate { of },
            Remembered::Similar(of) => Outcome::NearDuplicate { of },
        };
        let kept = done.outcome == Outcome::Kept;
        if kept && lease.depth < orders.max_depth {
            (done.children, done.refused) = self.children(&content, lease.depth + 1);
            done.linked = linked_domains(&content.page.links);
        }
        if kept && !lease.again {
            orders.installed.see(&content.page);
            done.output = orders.installed.render(&content.page);
        }
        let output = done.output.clone();
        if let Completed::Done { id: Some(id), .. } = self.complete(done).await? {
            orders.installed.write(id, output);
        }
        Ok(())
    }

    async fn complete(&self, done: Completion) -> Result<Completed, Trouble> {
        self.orders.installed.count(&done.outcome, &done.lease);
        let completed = self.orders.resources.complete(vec![done]).await?;
        Ok(completed.into_iter().next().unwrap_or(Completed::Refused))
    }

    /// The links to be admitted, and how many are not, by reason.
    fn children(&self, content: &Content, depth: Depth) -> (Vec<Found>, BTreeMap<&'static str, u64>) {
        let mut refused = BTreeMap::new();
        let mut refuse = |why: Refusal| *refused.entry(why.label()).or_default() += 1;
        let mut children = Vec::with_capacity(content.page.links.len());
        for url in &content.page.links {
            match self.orders.scope.check(url) {
                Ok(()) => children.push(Found { url: url.clone(), depth, redirects: 0 }),
                Err(why) => refuse(why),
            }
        }
        for bad in &content.bad_links {
            refuse(Refusal::Bad(*bad));
        }
        (children, refused)
    }

    /// A redirect's target is checked like a link, and has the depth of the link that led to it.
    fn redirect(&self, url: &Url, lease: &Lease, location: &str, children: &mut Vec<Found>) -> Outcome {
        if lease.redirects >= MAX_REDIRECTS {
            return Outcome::TooManyRedirects;
        }
        let to = match links::resolve(url, location) {
            Ok(to) => String::from(to),
            Err(bad) => return Outcome::RedirectRefused { to: String::new(), why: Refusal::Bad(bad) },
        };
        match self.orders.scope.check(&to) {
            Ok(()) => {
                let (depth, redirects) = (lease.depth, lease.redirects + 1);
                children.push(Found { url: to.clone(), depth, redirects });
                Outcome::Redirected { to }
            }
            Err(why) => Outcome::RedirectRefused { to, why },
        }
    }
}

/// The domains that a page links to, each once. Most links of a page share a host, so hosts are compared first.
fn linked_domains(links: &[String]) -> Vec<Domain> {
    let mut hosts: Vec<&str> = Vec::new();
    for link in links {
        let host = link.split('/').nth(2).unwrap_or("");
        if !hosts.contains(&host) {
            hosts.push(host);
        }
    }
    let mut domains: Vec<Domain> =
        hosts.iter().map(|host| Domain::of_text(&format!("http://{host}/"))).collect();
    domains.sort();
    domains.dedup();
    domains
}

/// A task that panicked takes the crawl with it: going on without its page would lose it silently.
fn joined<T>(served: Result<Result<T, Trouble>, tokio::task::JoinError>) -> Result<T, Trouble> {
    match served {
        Ok(served) => served,
        Err(failed) => std::panic::resume_unwind(failed.into_panic()),
    }
}
