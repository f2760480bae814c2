//! The role of the frontier: gives every URL its priority and its worker, finds the dead, and ends the crawl.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::rebalancer::{Rebalancer, WorkerLoad};
use super::{
    CrawlLossDetector, FailureDetector, MemberReport, Membership, RoleExit, SharedCrawl, StoredReport,
    end_of, is_absent, word,
};
use crate::backend::redis::{CrawlState, HeartbeatReply, Member, Phase, Role};
use crate::backend::{Backend, BackendError, Snapshot, WorkerId};
use crate::distributed::process_identity::is_surely_dead;
use crate::error::Error;
use crate::frontier;
use crate::pipeline::{CrawlEnd, Crawler, block_on};
use crate::prioritizer::Random;

/// What the token of a place begins with that nobody has.
const NOBODY: &str = "nobody";

/// Nothing is passed on by or to a worker that was not heard of for this part of the time after which it counts as dead.
const SILENT: u32 = 3;

/// Workers that something was sent to although nobody has their place: what one who was taken for dead still asked for came
/// after all that it had was given to others.
fn ghosts(snapshot: &Snapshot, members: &[Member]) -> Vec<Member> {
    let workers = snapshot.workers.iter().zip(0..);
    let has_something = workers.filter(|((queued, on_loan), _)| queued + on_loan > 0);
    let roles = has_something.map(|(_, id)| Role::Worker(WorkerId(id)));
    let roles = roles.filter(|role| members.iter().all(|member| member.role != *role));
    let ghost = |role| Member {
        role,
        token: format!("{NOBODY} {role}"),
        place: String::new(),
        is_dead: false,
        heard: 0,
        silent: Duration::ZERO,
        domains: None,
    };
    roles.map(ghost).collect()
}

/// The frontier at its work.
struct FrontierRole<'a> {
    crawler: &'a Crawler,
    sharing: &'a SharedCrawl,
    membership: Membership,
    deaths: FailureDetector,
    absence: CrawlLossDetector,
    balance: Rebalancer,
    /// How the crawl was when it was last looked at.
    course: CrawlState,
    /// Which opening's seeds are waited for, and since when.
    seeds_since: Option<(u64, Instant)>,
}

impl Crawler {
    /// Is the frontier of this crawl, which was begun on Redis, until the crawl is over.
    pub fn run_frontier(mut self, sharing: &SharedCrawl) -> Result<RoleExit, Error> {
        self.derive_settings();
        block_on(async {
            let backend = Arc::new(self.shared_resources(sharing).await?);
            let taken = Membership::take(backend, Some(Role::Frontier), &self, sharing).await?;
            let (mut membership, _) = match taken {
                Ok(taken) => taken,
                Err(end) => return Ok(end),
            };
            let HeartbeatReply { course, .. } = membership.beat(None).await?;
            let (deaths, absence) =
                (FailureDetector::new(sharing.dead_after), CrawlLossDetector::new(sharing));
            let (crawler, balance) = (&self, Rebalancer::default());
            let mut office = FrontierRole {
                crawler,
                sharing,
                membership,
                deaths,
                absence,
                balance,
                course,
                seeds_since: None,
            };
            let end = office.work().await?;
            // Whoever is taken for dead has no place to give up.
            if end != RoleExit::Lost {
                office.membership.part().await?;
            }
            Ok::<_, BackendError>(end)
        })?
        .map_err(Error::from)
    }
}

impl FrontierRole<'_> {
    async fn work(&mut self) -> Result<RoleExit, BackendError> {
        let version = self.course.version;
        loop {
            match self.course.phase.clone() {
                Phase::Unknown | Phase::Purged => {
                    if let Some(end) = self.look_for_it().await? {
                        return Ok(end);
                    }
                }
                Phase::Over(how) => {
                    if let Some(end) = self.sum_up(&how).await? {
                        return Ok(end);
                    }
                }
                Phase::Opening | Phase::Running => {
                    if let Some(end) = self.route(version).await? {
                        return Ok(end);
                    }
                }
            }
        }
    }

    /// Looks for a crawl that Redis does not know, until it is there again or certainly gone.
    async fn look_for_it(&mut self) -> Result<Option<RoleExit>, BackendError> {
        loop {
            if self.absence.is_final(&self.course.phase) {
                (self.sharing.notice)(&self.absence.message(&self.course.phase));
                return Ok(Some(RoleExit::Gone));
            }
            tokio::select! {
                () = self.crawler.stop.stop_requested() => return Ok(Some(RoleExit::Stopped)),
                () = sleep_until(Instant::now() + self.membership.interval()) => {}
            }
            let has_place = self.look().await?;
            if !is_absent(&self.course.phase) {
                self.absence.is_final(&self.course.phase);
                // What it filed meanwhile was filed nowhere.
                self.membership.backend.doubt();
                return Ok((!has_place).then_some(RoleExit::Lost));
            }
        }
    }

    /// Routes until there is a reason not to, which may be one to end.
    async fn route(&mut self, version: u64) -> Result<Option<RoleExit>, BackendError> {
        let backend = Arc::clone(&self.membership.backend);
        // It was opened again while somebody put away what it had.
        backend.take_out(&self.course).await?;
        let (prioritize, stop) = (&*self.crawler.prioritizer, &self.crawler.stop);
        let mut routing =
            std::pin::pin!(async { frontier::run(&*backend, prioritize, Random::from_system(), stop).await });
        loop {
            let next_beat = Instant::now() + self.membership.interval();
            let over = tokio::select! {
                biased;
                over = &mut routing => Some(over?),
                () = sleep_until(next_beat) => None,
            };
            let has_place = self.look().await?;
            let is_under_way = self.course.phase == Phase::Running;
            match () {
                () if is_absent(&self.course.phase) => return Ok(None),
                () if !has_place => return Ok(Some(RoleExit::Lost)),
                () if over == Some(false) => return Ok(Some(RoleExit::Stopped)),
                () if self.course.version != version => return Ok(Some(RoleExit::Changed)),
                () if !matches!(self.course.phase, Phase::Opening | Phase::Running) => return Ok(None),
                // Asked once more, now that it is known which opening it is: seeds may have come since it was over.
                () if over == Some(true) && is_under_way => {
                    let opening = self.course.opening;
                    return match backend.outstanding().await? {
                        0 => self.end(opening, CrawlEnd::Finished).await,
                        _ => Ok(None),
                    };
                }
                // Its seeds are on their way.
                () if over == Some(true) => {
                    sleep_until(Instant::now() + self.membership.interval() / 4).await;
                    return Ok(None);
                }
                () => {}
            }
            let (alive, snapshot) = self.bury_the_dead().await?;
            self.relieve(&alive, &snapshot).await?;
            if is_under_way && let Some(end) = self.reason_to_end().await? {
                return self.end(self.course.opening, end).await;
            }
        }
    }

    /// Tells that the frontier lives, and learns how the crawl is; tells whether it still has its place. Seeds that have been
    /// on their way for as long as a process may be silent do not come.
    async fn look(&mut self) -> Result<bool, BackendError> {
        let HeartbeatReply { has_place, course, .. } = self.membership.beat(None).await?;
        self.course = course;
        if self.course.phase != Phase::Opening {
            self.seeds_since = None;
            return Ok(has_place);
        }
        let opening = self.course.opening;
        let since = match self.seeds_since {
            Some((awaited, since)) if awaited == opening => since,
            _ => self.seeds_since.insert((opening, Instant::now())).1,
        };
        if has_place && since.elapsed() > self.sharing.dead_after {
            self.course = self.membership.backend.set_running(opening).await?;
        }
        Ok(has_place)
    }

    async fn end(&mut self, opening: u64, end: CrawlEnd) -> Result<Option<RoleExit>, BackendError> {
        self.course = self.membership.backend.set_over(opening, word(end)).await?;
        Ok(None)
    }

    async fn reason_to_end(&self) -> Result<Option<CrawlEnd>, BackendError> {
        if self.crawler.max_time.is_some_and(|time| self.course.elapsed >= time) {
            return Ok(Some(CrawlEnd::TimeLimit));
        }
        Ok(self.membership.backend.exhausted_budget().await?.map(CrawlEnd::LimitReached))
    }

    /// Lets workers that have much to do pass on a part of it to those that have little.
    async fn relieve(&mut self, alive: &[Member], snapshot: &Snapshot) -> Result<(), BackendError> {
        let longest = self.sharing.dead_after / SILENT;
        let load = |member: &Member| {
            let Role::Worker(id) = member.role else { return None };
            // It may be dead already, or about to go.
            let domains = member.domains.filter(|_| member.silent <= longest)?;
            let (queued, on_loan) = snapshot.workers.get(usize::from(id.0)).copied().unwrap_or_default();
            Some(WorkerLoad { id, urls: queued + on_loan, domains })
        };
        let loads: Vec<WorkerLoad> = alive.iter().filter_map(load).collect();
        for (giver, takers) in self.balance.look(&loads) {
            let giver = alive.iter().find(|member| member.role == Role::Worker(giver));
            if let Some(giver) = giver {
                self.membership.backend.relieve(giver, &takers).await?;
            }
        }
        Ok(())
    }

    /// Gives to others what the dead had. Returns the workers that live, and how things stood before.
    async fn bury_the_dead(&mut self) -> Result<(Vec<Member>, Snapshot), BackendError> {
        let backend = &self.membership.backend;
        // In this order: whoever has something by now is a member since before.
        let snapshot = backend.snapshot().await?;
        let (mut members, _) = backend.crew().await?;
        let ghosts = ghosts(&snapshot, &members);
        members.extend(ghosts.iter().cloned());
        self.deaths.keep(&members);
        for ghost in ghosts.into_iter().filter(|ghost| self.deaths.is_dead(ghost)) {
            let Role::Worker(id) = ghost.role else { continue };
            backend.remove_worker(id).await?;
            (self.sharing.notice)(&format!(
                "nobody is {}; what was sent to it is given to others",
                ghost.role
            ));
        }
        members.retain(|member| !member.token.starts_with(NOBODY));
        let is_over = matches!(self.course.phase, Phase::Over(_));
        let mut alive = Vec::new();
        for member in members {
            let Role::Worker(id) = member.role else { continue };
            // When it is over nobody takes up the place of one that was killed, and nobody needs to wait for that.
            let seems_dead = self.deaths.is_dead(&member) || is_over && is_surely_dead(&member.token);
            let is_dead = member.is_dead || seems_dead && backend.declare_dead(&member).await?;
            if !is_dead {
                alive.push(member);
                continue;
            }
            backend.remove_worker(id).await?;
            backend.part(member.role, &member.token).await?;
            let (role, place, silent) = (member.role, &member.place, member.silent.as_secs());
            (self.sharing.notice)(&format!(
                "{role} ({place}) is dead: not heard of for {silent} s; what it had is given to others"
            ));
        }
        Ok((alive, snapshot))
    }

    /// Waits for the workers to be done with what they have in flight, and keeps what the crawl came to. That is the end,
    /// unless it was opened again meanwhile.
    async fn sum_up(&mut self, how: &str) -> Result<Option<RoleExit>, BackendError> {
        let opening = self.course.opening;
        while !self.bury_the_dead().await?.0.is_empty() {
            sleep_until(Instant::now() + self.membership.interval() / 4).await;
            let has_place = self.look().await?;
            match () {
                () if is_absent(&self.course.phase) => return Ok(None),
                () if !has_place => return Ok(Some(RoleExit::Lost)),
                () if self.crawler.stop.is_stop_requested() => return Ok(Some(RoleExit::Stopped)),
                () if self.course.opening != opening => return Ok(None),
                () => {}
            }
        }
        let backend = &self.membership.backend;
        let words: BTreeMap<String, String> = backend.reports().await?;
        let mut words: Vec<MemberReport> =
            words.values().filter_map(|word| serde_json::from_str(word).ok()).collect();
        words.push(MemberReport::of(backend));
        let sum = StoredReport {
            end: how.to_owned(),
            milliseconds: self.course.elapsed.as_millis().try_into().unwrap_or(u64::MAX),
            snapshot: backend.snapshot().await?,
            words,
        };
        let sum = serde_json::to_string(&sum).map_err(|error| BackendError(error.to_string()))?;
        backend.keep_result(opening, &sum).await?;
        self.course = backend.put_away(opening).await?;
        // Opened again meanwhile, it goes on with all that it had.
        Ok((self.course.opening == opening).then(|| RoleExit::Over(end_of(how))))
    }
}
