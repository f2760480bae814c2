//! Who works on a crawl: places in its crew, signs of life, and how far the crawl is.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::{BackendError, TransferTarget, WorkerId};
use super::completion::CONFIRMATION;
use super::connection::Call;
use super::home::Home;
use super::keys::Keys;
use super::moves::{Moves, milliseconds};
use super::scripts::{self, Lua};
use super::{RedisBackend, RedisCrawl};
use crate::error::StorageErrorKind::Damaged;

/// A place in the crew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// It gives every URL its priority and its worker; there is one.
    Frontier,
    /// It visits URLs.
    Worker(WorkerId),
}

impl Role {
    fn name(self) -> String {
        match self {
            Role::Frontier => "frontier".into(),
            Role::Worker(WorkerId(id)) => id.to_string(),
        }
    }

    fn named(name: &str) -> Option<Role> {
        match name {
            "frontier" => Some(Role::Frontier),
            id => id.parse().ok().map(|id| Role::Worker(WorkerId(id))),
        }
    }
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Role::Frontier => f.write_str("the frontier"),
            Role::Worker(WorkerId(id)) => write!(f, "worker {id}"),
        }
    }
}

/// The phase of a crawl's lifecycle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// The crawl was never started, or Redis has lost it.
    Unknown,
    /// The crawl was purged recently.
    Purged,
    /// The seeds are being admitted.
    Seeding,
    /// The crawl is running.
    Running,
    /// The crawl has ended, for this reason.
    Ended(String),
}

/// The state of a crawl.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrawlState {
    /// The phase.
    pub phase: Phase,
    /// The number of the current run. Each start or resume is a new run.
    pub run: u64,
    /// The version of the settings.
    pub version: u64,
    /// The active crawl time of all runs.
    pub elapsed: Duration,
    /// Whether the crawl is archived, or about to be.
    pub is_archived: bool,
}

/// A process that takes part in a crawl.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The role of the process.
    pub role: Role,
    /// Identifies the process.
    pub token: String,
    /// The process id and host, for people.
    pub location: String,
    /// The member is declared dead, and its URLs are being reassigned.
    pub is_dead: bool,
    /// The time of the last heartbeat by Redis's clock, in milliseconds. Compare it only with other values of this field.
    pub last_heartbeat: u64,
    /// The time since the last heartbeat.
    pub since_heartbeat: Duration,
    /// The number of domains of which a worker has leases. `None` for a worker that accepts no more URLs.
    pub domains: Option<usize>,
}

impl Member {
    /// The process id.
    pub fn process(&self) -> Option<u32> {
        self.token.split('/').nth(1)?.parse().ok()
    }
}

/// The reply to a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeartbeatReply {
    /// Whether the process still is a member.
    pub is_member: bool,
    /// The state of the crawl.
    pub state: CrawlState,
    /// The workers to which it should transfer domains.
    pub transfer_targets: Vec<TransferTarget>,
}

/// The result of joining a crawl.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JoinResult {
    /// The process has joined in a free role, at this time by Redis's clock.
    New(Role, u64),
    /// The process has taken over the role of a dead process, at this time.
    TookOver(Role, u64),
    /// Somebody is there, or what a dead one had is on its way back.
    Taken(Member),
}

/// As the scripts tell it.
type CourseAnswer = (String, String, u64, u64, u64, u8);

impl RedisBackend {
    /// Takes a place in the crew: this one, or a worker's that is free. Of `dead` it is known that it lives no more, unless it
    /// was heard of since.
    pub async fn join(
        &self,
        role: Option<Role>,
        token: &str,
        place: &str,
        dead: Option<&Member>,
    ) -> Result<JoinResult, BackendError> {
        let mut call = self.of_crew(&scripts::JOIN);
        call.arg(role.map_or_else(String::new, Role::name)).arg(token).arg(place);
        call.arg(dead.map_or("-", |dead| &dead.token)).arg(dead.map_or(0, |dead| dead.last_heartbeat));
        let (what, name, where_, token, heard): (String, String, String, String, u64) =
            self.ask(call).await?;
        let role = Role::named(&name)
            .ok_or_else(|| BackendError::redis(Damaged, format!("the crew has a strange place: {name:?}")))?;
        Ok(match what.as_str() {
            "new" => JoinResult::New(role, heard),
            "again" => JoinResult::TookOver(role, heard),
            what => JoinResult::Taken(Member {
                role,
                token,
                location: where_,
                is_dead: what == "leaving",
                last_heartbeat: heard,
                since_heartbeat: Duration::ZERO,
                domains: None,
            }),
        })
    }

    /// Tells that a member lives, by its count how much longer the crawl has been under way, and of how many domains it has
    /// URLs in hand, if it takes any.
    pub async fn heartbeat(
        &self,
        role: Role,
        token: &str,
        elapsed: Duration,
        domains: Option<usize>,
    ) -> Result<HeartbeatReply, BackendError> {
        let mut call = self.of_crew(&scripts::BEAT);
        call.arg(role.name()).arg(token).arg(milliseconds(elapsed));
        call.arg(domains.map_or_else(String::new, |domains| domains.to_string()));
        type Answer = (u8, Vec<(u16, usize)>, String, String, u64, u64, u64, u8);
        let (has_place, takers, phase, end, opening, version, elapsed, closed): Answer =
            self.ask(call).await?;
        let takers = takers.into_iter().map(|(id, has)| TransferTarget { id: WorkerId(id), load: has });
        let course = course((phase, end, opening, version, elapsed, closed));
        Ok(HeartbeatReply { is_member: has_place == 1, state: course, transfer_targets: takers.collect() })
    }

    /// Asks a member to pass on a part of what it has: it learns that with its next sign of life.
    pub async fn request_transfer(
        &self,
        member: &Member,
        takers: &[TransferTarget],
    ) -> Result<(), BackendError> {
        let mut call = self.of_crew(&scripts::RELIEVE);
        call.arg(member.role.name()).arg(&member.token).arg(takers.len());
        for taker in takers {
            call.arg(taker.id.0).arg(taker.load);
        }
        self.ask(call).await
    }

    /// Who is in the crew, and how the crawl is.
    pub async fn members(&self) -> Result<(Vec<Member>, CrawlState), BackendError> {
        type Row = (String, String, String, u8, u64, u64, i64);
        let (members, phase, end, opening, version, elapsed, closed): (Vec<Row>, _, _, _, _, _, _) =
            self.ask(self.of_crew(&scripts::CREW_LOOK)).await?;
        let mut members: Vec<Member> = members
            .into_iter()
            .filter_map(|(name, token, place, is_dead, heard, silent, domains)| {
                let (role, is_dead) = (Role::named(&name)?, is_dead == 1);
                let (silent, domains) = (Duration::from_millis(silent), usize::try_from(domains).ok());
                Some(Member {
                    role,
                    token,
                    location: place,
                    is_dead,
                    last_heartbeat: heard,
                    since_heartbeat: silent,
                    domains,
                })
            })
            .collect();
        members.sort_by_key(|member| member.role);
        Ok((members, course((phase, end, opening, version, elapsed, closed))))
    }

    /// Declares a member dead that was not heard of since; tells whether it is.
    pub async fn declare_dead(&self, member: &Member) -> Result<bool, BackendError> {
        let mut call = self.of_crew(&scripts::DEAD);
        call.arg(member.role.name()).arg(&member.token).arg(member.last_heartbeat);
        Ok(self.ask::<u8>(call).await? == 1)
    }

    /// Gives up a place, when all that its holder had is back.
    pub async fn leave(&self, role: Role, token: &str) -> Result<(), BackendError> {
        let mut call = self.of_crew(&scripts::PART);
        call.arg(role.name()).arg(token);
        self.ask(call).await
    }

    /// Opens the crawl, or opens it again, with a note for those who work on it; nobody ends it before it
    /// [runs](RedisBackend::set_running).
    pub async fn set_seeding(&self, note: &[u8]) -> Result<CrawlState, BackendError> {
        self.steer("opening", "", 0, note).await
    }

    /// All seeds of an opening are admitted.
    pub async fn set_running(&self, opening: u64) -> Result<CrawlState, BackendError> {
        self.steer("running", "", opening, b"").await
    }

    /// Ends the crawl, unless it was opened again meanwhile.
    pub async fn set_ended(&self, opening: u64, how: &str) -> Result<CrawlState, BackendError> {
        self.steer("over", how, opening, b"").await
    }

    /// What the crawl had is put away by now, if it is still over: whatever was to expire expires.
    pub async fn archive(&self, opening: u64) -> Result<CrawlState, BackendError> {
        let course = self.steer("closed", "", opening, b"").await?;
        if course.is_archived {
            self.close_opening(opening).await?;
        }
        let (_, course) = self.members().await?;
        if course.run != opening {
            // It was opened again meanwhile, perhaps before everything had been put away.
            self.reopen().await?;
        }
        Ok(course)
    }

    /// Gets back what was put away, if it was. Whoever is about to put away what earlier openings had comes too late then.
    pub async fn unarchive(&self, course: &CrawlState) -> Result<(), BackendError> {
        let opening = course.run;
        self.make(async move |moves| moves.note_opening(opening).await).await?;
        if course.is_archived {
            self.reopen().await?;
            self.steer("reopened", "", course.run, b"").await?;
        }
        Ok(())
    }

    async fn steer(
        &self,
        to: &'static str,
        how: &str,
        opening: u64,
        note: &[u8],
    ) -> Result<CrawlState, BackendError> {
        let mut call = self.of_crew(&scripts::STEER);
        call.arg(to).arg(how).arg(opening).arg(note);
        // Rare as they are, these are what nobody could do again.
        let steered = self.make(async move |moves: std::sync::Arc<Moves>| {
            let steered =
                moves.connection.all_confirmed(vec![call], moves.replicas, CONFIRMATION).await?.pop();
            moves.connection.read::<CourseAnswer>(steered.unwrap_or_default())
        });
        Ok(course(steered.await?))
    }

    /// Leaves word of a member at its end, for whoever sums up.
    pub async fn report(&self, token: &str, word: &str) -> Result<(), BackendError> {
        let mut call = self.plain_of_crew("HSET", "reports");
        call.arg(token).arg(word);
        self.ask(call).await
    }

    /// The words that members left at their end.
    pub async fn reports(&self) -> Result<BTreeMap<String, String>, BackendError> {
        self.ask(self.plain_of_crew("HGETALL", "reports")).await
    }

    /// Keeps the result of a crawl that is over, unless it was opened again meanwhile.
    pub async fn store_result(&self, opening: u64, result: &str) -> Result<(), BackendError> {
        let mut call = self.of_crew(&scripts::RESULT);
        call.arg(opening).arg(result);
        self.ask(call).await
    }

    /// The result of a crawl that is over.
    pub async fn result(&self) -> Result<Option<String>, BackendError> {
        self.ask(self.plain_of_crew("GET", "result")).await
    }

    fn plain_of_crew(&self, command: &str, name: &str) -> Call {
        let mut call = Call::plain(command);
        call.arg(format!("{}{name}", self.moves.keys.crew));
        call
    }

    fn of_crew(&self, script: &Lua) -> Call {
        self.moves.script(script, &self.moves.keys.crew)
    }

    async fn ask<T: redis::FromRedisValue + Send + 'static>(&self, call: Call) -> Result<T, BackendError> {
        self.make(async move |moves: std::sync::Arc<Moves>| moves.connection.one(call).await).await
    }
}

/// What Redis has about a crawl apart from its settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrawlInfo {
    /// Settings for the crawl's processes.
    pub metadata: Vec<u8>,
    /// The phase.
    pub state: CrawlState,
    /// Whether the crawl has ended and its report is stored.
    pub has_result: bool,
    /// How many processes take part in it.
    pub members: usize,
}

impl CrawlInfo {
    /// Whether the crawl has ended with no URL left.
    pub fn is_finished(&self) -> bool {
        self.state.phase == Phase::Ended("done".into())
    }
}

/// What is known of a crawl without its settings; nothing if nobody has begun it.
pub async fn crawl_info(place: &RedisCrawl) -> Result<Option<CrawlInfo>, BackendError> {
    let home = Home::new()?;
    let place = place.clone();
    let look = async move {
        let connection = place.connect().await?;
        let base = Keys::crew(&place.crawl);
        let plain = |command: &str, name: &str| {
            let mut call = Call::plain(command);
            call.arg(format!("{base}{name}"));
            call
        };
        let mut state = plain("HMGET", "crawl");
        state.arg(&["note", "phase", "end", "openings", "version", "elapsed", "closed"]);
        let looks = vec![state, plain("EXISTS", "result"), plain("HLEN", "members")];
        let mut answers = connection.all(looks).await?.into_iter();
        let mut next = || answers.next().unwrap_or_default();
        type Number = Option<u64>;
        type State = (Option<Vec<u8>>, Option<String>, Option<String>, Number, Number, Number, Option<u8>);
        let (note, phase, end, opening, version, elapsed, closed): State = connection.read(next())?;
        let (has_result, members) = (connection.read::<u8>(next())? == 1, connection.read(next())?);
        let Some(note) = note else { return Ok(None) };
        let of = |number: Option<u64>| number.unwrap_or(0);
        let (phase, end) = (phase.unwrap_or_default(), end.unwrap_or_default());
        let course = course((phase, end, of(opening), of(version), of(elapsed), closed.unwrap_or(0)));
        Ok(Some(CrawlInfo { metadata: note, state: course, has_result, members }))
    };
    home.run(look).await
}

fn course((phase, end, opening, version, elapsed, closed): CourseAnswer) -> CrawlState {
    let phase = match phase.as_str() {
        "opening" => Phase::Seeding,
        "running" => Phase::Running,
        "over" => Phase::Ended(end),
        "purged" => Phase::Purged,
        _ => Phase::Unknown,
    };
    CrawlState {
        phase,
        run: opening,
        version,
        elapsed: Duration::from_millis(elapsed),
        is_archived: closed == 1,
    }
}
