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

/// How far a crawl is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// Nobody has begun it, or Redis has lost it.
    Unknown,
    /// It was purged a moment ago.
    Purged,
    /// Its seeds are being admitted.
    Opening,
    /// It is under way.
    Running,
    /// It has ended, for this reason.
    Over(String),
}

/// How a crawl is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrawlState {
    /// How far it is.
    pub phase: Phase,
    /// How often it was opened: an end is the end of one opening.
    pub opening: u64,
    /// The version of its settings.
    pub version: u64,
    /// How long it has been under way, all its openings together.
    pub elapsed: Duration,
    /// Whether what it had was put away, or is about to be.
    pub is_closed: bool,
}

/// A member of the crew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its place.
    pub role: Role,
    /// What tells its process from all others.
    pub token: String,
    /// Where it runs.
    pub place: String,
    /// It was found dead, and what it had is on its way back.
    pub is_dead: bool,
    /// When it was last heard of, by Redis's clock, in milliseconds: only good to be compared.
    pub heard: u64,
    /// How long ago that is.
    pub silent: Duration,
    /// Of how many domains a worker had URLs in hand then; nothing of one that takes no more.
    pub domains: Option<usize>,
}

impl Member {
    /// The number of its process, where it runs.
    pub fn process(&self) -> Option<u32> {
        self.token.split('/').nth(1)?.parse().ok()
    }
}

/// What a member learns when it tells that it lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeartbeatReply {
    /// It still has its place.
    pub is_member: bool,
    /// How the crawl is.
    pub state: CrawlState,
    /// To whom it is to pass on a part of what it has.
    pub transfer_targets: Vec<TransferTarget>,
}

/// What came of asking for a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JoinResult {
    /// It is there, where nobody was, since then by Redis's clock.
    New(Role, u64),
    /// It is there, in the place of somebody who is dead, since then.
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
        call.arg(dead.map_or("-", |dead| &dead.token)).arg(dead.map_or(0, |dead| dead.heard));
        let (what, name, where_, token, heard): (String, String, String, String, u64) =
            self.ask(call).await?;
        let role = Role::named(&name)
            .ok_or_else(|| BackendError(format!("the crew has a strange place: {name:?}")))?;
        Ok(match what.as_str() {
            "new" => JoinResult::New(role, heard),
            "again" => JoinResult::TookOver(role, heard),
            what => JoinResult::Taken(Member {
                role,
                token,
                place: where_,
                is_dead: what == "leaving",
                heard,
                silent: Duration::ZERO,
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
                Some(Member { role, token, place, is_dead, heard, silent, domains })
            })
            .collect();
        members.sort_by_key(|member| member.role);
        Ok((members, course((phase, end, opening, version, elapsed, closed))))
    }

    /// Declares a member dead that was not heard of since; tells whether it is.
    pub async fn declare_dead(&self, member: &Member) -> Result<bool, BackendError> {
        let mut call = self.of_crew(&scripts::DEAD);
        call.arg(member.role.name()).arg(&member.token).arg(member.heard);
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
    pub async fn set_opening(&self, note: &[u8]) -> Result<CrawlState, BackendError> {
        self.steer("opening", "", 0, note).await
    }

    /// All seeds of an opening are admitted.
    pub async fn set_running(&self, opening: u64) -> Result<CrawlState, BackendError> {
        self.steer("running", "", opening, b"").await
    }

    /// Ends the crawl, unless it was opened again meanwhile.
    pub async fn set_over(&self, opening: u64, how: &str) -> Result<CrawlState, BackendError> {
        self.steer("over", how, opening, b"").await
    }

    /// What the crawl had is put away by now, if it is still over: whatever was to expire expires.
    pub async fn archive(&self, opening: u64) -> Result<CrawlState, BackendError> {
        let course = self.steer("closed", "", opening, b"").await?;
        if course.is_closed {
            self.close_opening(opening).await?;
        }
        let (_, course) = self.members().await?;
        if course.opening != opening {
            // It was opened again meanwhile, perhaps before everything had been put away.
            self.reopen().await?;
        }
        Ok(course)
    }

    /// Gets back what was put away, if it was. Whoever is about to put away what earlier openings had comes too late then.
    pub async fn unarchive(&self, course: &CrawlState) -> Result<(), BackendError> {
        let opening = course.opening;
        self.make(async move |moves| moves.note_opening(opening).await).await?;
        if course.is_closed {
            self.reopen().await?;
            self.steer("reopened", "", course.opening, b"").await?;
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

/// What is known of a crawl without its settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrawlInfo {
    /// What those who began it noted for those who work on it.
    pub note: Vec<u8>,
    /// How far it is.
    pub state: CrawlState,
    /// Whether it is known what it came to.
    pub has_result: bool,
    /// How many processes are at work on it.
    pub members: usize,
}

impl CrawlInfo {
    /// Whether nothing was left to do.
    pub fn is_finished(&self) -> bool {
        self.state.phase == Phase::Over("done".into())
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
        Ok(Some(CrawlInfo { note, state: course, has_result, members }))
    };
    home.run(look).await
}

fn course((phase, end, opening, version, elapsed, closed): CourseAnswer) -> CrawlState {
    let phase = match phase.as_str() {
        "opening" => Phase::Opening,
        "running" => Phase::Running,
        "over" => Phase::Over(end),
        "purged" => Phase::Purged,
        _ => Phase::Unknown,
    };
    CrawlState { phase, opening, version, elapsed: Duration::from_millis(elapsed), is_closed: closed == 1 }
}
