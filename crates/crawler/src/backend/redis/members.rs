//! The processes that take part in a crawl, their heartbeats, and the phase of the crawl.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::{BackendError, WorkerId};
use super::RedisCrawl;
use super::connection::{Call, Connection};
use super::control::CrawlControl;
use super::keys::CrawlKeys;
use super::scripts::{self, Lua};
use crate::error::StorageErrorKind::Damaged;

/// What a process does for a crawl.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// Decides which URL is fetched next, and by whom. There is one.
    Frontier,
    /// Fetches URLs.
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
    /// The seeds are being submitted.
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
    /// The version of what was changed since it started.
    pub live: u64,
    /// Whether somebody looks at its statistics.
    pub is_watched: bool,
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
    /// The member is declared dead, and its URLs are being requeued.
    pub is_dead: bool,
    /// The time of the last heartbeat by Redis's clock, in milliseconds. Compare it only with other values of this field.
    pub last_heartbeat: u64,
    /// The time since the last heartbeat.
    pub since_heartbeat: Duration,
}

impl Member {
    /// The process id.
    pub fn process(&self) -> Option<u32> {
        self.token.split('/').nth(1)?.parse().ok()
    }
}

/// The result of joining a crawl.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JoinResult {
    /// The process has this role, since a time by Redis's clock.
    Joined(Role, u64),
    /// Another process has the role, or the URLs of one that died are being requeued.
    Taken(Member),
}

/// The state of a crawl as the scripts return it.
type StateReply = (String, String, u64, u64, u64, u8, u64, u8);

impl CrawlControl {
    /// Takes a role, or that of a worker whose number is free. The member `dead` is known to be dead, unless it has sent a
    /// heartbeat since.
    pub async fn join(
        &self,
        role: Option<Role>,
        token: &str,
        location: &str,
        dead: Option<&Member>,
    ) -> Result<JoinResult, BackendError> {
        let (dead, heartbeat) = dead.map_or(("-", 0), |dead| (&*dead.token, dead.last_heartbeat));
        let call = self.member_script(&scripts::JOIN).arg(role.map_or_else(String::new, Role::name));
        let call = call.arg(token).arg(location).arg(dead).arg(heartbeat);
        let (result, role, location, token, last_heartbeat): (String, String, String, String, u64) =
            self.ask(call).await?;
        let role = Role::named(&role).ok_or_else(|| {
            BackendError::redis(Damaged, format!("the crawl has a member with an unknown role: {role:?}"))
        })?;
        Ok(match result.as_str() {
            "joined" => JoinResult::Joined(role, last_heartbeat),
            result => JoinResult::Taken(Member {
                role,
                token,
                location,
                is_dead: result == "leaving",
                last_heartbeat,
                since_heartbeat: Duration::ZERO,
            }),
        })
    }

    /// Sends the heartbeat of a member, with the crawl time since its last one, if it counts that. Returns whether the
    /// process still is a member, and the state of the crawl.
    pub async fn heartbeat(
        &self,
        role: Role,
        token: &str,
        elapsed: Duration,
    ) -> Result<(bool, CrawlState), BackendError> {
        let call = self.member_script(&scripts::HEARTBEAT);
        let call = call.arg(role.name()).arg(token).arg(elapsed.as_millis() as u64);
        let (is_member, phase, end, run, version, elapsed, archived, live, watched): (
            u8,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
        ) = self.ask(call).await?;
        Ok((is_member == 1, crawl_state((phase, end, run, version, elapsed, archived, live, watched))))
    }

    /// The members, and the state of the crawl.
    pub async fn members(&self) -> Result<(Vec<Member>, CrawlState), BackendError> {
        list_members(&self.shared.connection, &self.shared.keys).await
    }

    /// Declares a member dead, unless it has sent a heartbeat since. Returns whether it is.
    pub async fn declare_dead(&self, member: &Member) -> Result<bool, BackendError> {
        let call = self.member_script(&scripts::DECLARE_DEAD);
        let call = call.arg(member.role.name()).arg(&member.token).arg(member.last_heartbeat);
        Ok(self.ask::<u8>(call).await? == 1)
    }

    /// Gives up a role, after the URLs of its process were requeued.
    pub async fn leave(&self, role: Role, token: &str) -> Result<(), BackendError> {
        self.ask(self.member_script(&scripts::LEAVE).arg(role.name()).arg(token)).await
    }

    /// Starts a run of the crawl, with metadata for its processes. It does not end before it is
    /// [running](CrawlControl::set_running).
    pub async fn set_seeding(&self, metadata: &[u8]) -> Result<CrawlState, BackendError> {
        self.set_phase("seeding", "", 0, metadata, "").await
    }

    /// The same after the index of seeds was extended, of which the processes learn while they run. `has_new_settings` is whether
    /// the metadata differs in anything but seeds.
    pub(crate) async fn set_seeding_with_index(
        &self,
        metadata: &[u8],
        has_new_settings: bool,
    ) -> Result<CrawlState, BackendError> {
        let change = if has_new_settings { "settings" } else { "seeds" };
        self.set_phase("seeding", "", 0, metadata, change).await
    }

    /// All seeds of a run are submitted.
    pub async fn set_running(&self, run: u64) -> Result<CrawlState, BackendError> {
        self.set_phase("running", "", run, b"", "").await
    }

    /// Ends a run, unless another one was started meanwhile.
    pub async fn set_ended(&self, run: u64, end: &str) -> Result<CrawlState, BackendError> {
        self.set_phase("ended", end, run, b"", "").await
    }

    /// Lets everything of a crawl that has ended expire, unless another run was started meanwhile.
    pub async fn archive(&self, run: u64) -> Result<CrawlState, BackendError> {
        let state = self.set_phase("archived", "", run, b"", "").await?;
        if state.is_archived {
            self.let_expire().await?;
        }
        let (_, state) = self.members().await?;
        if state.run != run {
            self.keep().await?;
        }
        Ok(state)
    }

    /// Keeps everything of a crawl that is resumed.
    pub async fn unarchive(&self, state: &CrawlState) -> Result<(), BackendError> {
        // A frontier that was about to archive an earlier run may have been killed.
        self.keep().await?;
        if state.is_archived {
            self.set_phase("resumed", "", state.run, b"", "").await?;
        }
        Ok(())
    }

    async fn set_phase(
        &self,
        to: &'static str,
        end: &str,
        run: u64,
        metadata: &[u8],
        change: &'static str,
    ) -> Result<CrawlState, BackendError> {
        let call = self.member_script(&scripts::SET_PHASE).arg(to).arg(end).arg(run).arg(metadata);
        Ok(crawl_state(self.confirmed(call.arg(change)).await?))
    }

    /// Records that the frontier has written its state. If it is missing later, Redis has lost it.
    pub async fn set_begun(&self) -> Result<(), BackendError> {
        self.ask(self.member_call("HSET", "crawl").arg("begun").arg(1)).await
    }

    /// Stores the report of a member, by a name.
    pub async fn report(&self, name: &str, report: &str) -> Result<(), BackendError> {
        self.ask(self.member_call("HSET", "reports").arg(name).arg(report)).await
    }

    /// The reports of all members.
    pub async fn reports(&self) -> Result<BTreeMap<String, String>, BackendError> {
        self.ask(self.member_call("HGETALL", "reports")).await
    }

    /// Stores a field of the statistics for the process of this token. Returns false if the crawl does not take it.
    pub(crate) async fn store_statistics(
        &self,
        field: &str,
        token: &str,
        value: &[u8],
    ) -> Result<bool, BackendError> {
        let call = self.member_script(&scripts::STORE_STATISTICS).arg(field).arg(token).arg(value);
        Ok(self.ask::<u8>(call).await? == 1)
    }

    /// Lets the processes of the crawl store their statistics more often for so long.
    pub(crate) async fn watch_statistics(&self, time: Duration) -> Result<(), BackendError> {
        self.ask(self.member_call("SET", "watched").arg(1).arg("EX").arg(time.as_secs())).await
    }

    /// The statistics of all processes, by their tokens. Those that were merged with others are empty.
    pub(crate) async fn statistics(&self) -> Result<BTreeMap<String, Vec<u8>>, BackendError> {
        self.ask(self.member_call("HGETALL", "statistics")).await
    }

    /// Replaces the statistics of processes that are gone by their sum with those that were merged before, unless another
    /// process has done that.
    pub(crate) async fn merge_statistics(
        &self,
        merged: &[u8],
        tokens: &[&String],
    ) -> Result<(), BackendError> {
        let mut call = self.member_script(&scripts::MERGE_STATISTICS).arg(merged);
        for token in tokens {
            call = call.arg(*token);
        }
        self.ask::<u8>(call).await.map(drop)
    }

    /// Stores the result of a run, unless another one was started meanwhile.
    pub async fn store_result(&self, run: u64, result: &str) -> Result<(), BackendError> {
        self.ask(self.member_script(&scripts::STORE_RESULT).arg(run).arg(result)).await
    }

    /// The result of a crawl that has ended.
    pub async fn result(&self) -> Result<Option<String>, BackendError> {
        self.ask(self.member_call("GET", "result")).await
    }

    pub(super) fn member_call(&self, command: &str, name: &str) -> Call {
        Call::new(command, self.shared.keys.of_members(name))
    }

    pub(super) fn member_script(&self, script: &'static Lua) -> Call {
        Call::script(script, &self.shared.keys.members)
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

/// What Redis has about a crawl apart from its settings; `None` if it was never started.
pub async fn crawl_info(place: &RedisCrawl) -> Result<Option<CrawlInfo>, BackendError> {
    let (connection, keys) = (place.connect().await?, CrawlKeys::new(&place.crawl));
    let metadata = Call::new("HGET", keys.of_members("crawl")).arg("metadata");
    let Some(metadata) = connection.one(metadata).await? else { return Ok(None) };
    let has_result = connection.one::<u8>(Call::new("EXISTS", keys.of_members("result"))).await? == 1;
    let (members, state) = list_members(&connection, &keys).await?;
    Ok(Some(CrawlInfo { metadata, state, has_result, members: members.len() }))
}

async fn list_members(
    connection: &Connection,
    keys: &CrawlKeys,
) -> Result<(Vec<Member>, CrawlState), BackendError> {
    type Row = (String, String, String, u8, u64, u64);
    let (rows, phase, end, run, version, elapsed, archived, live, watched): (
        Vec<Row>,
        _,
        _,
        _,
        _,
        _,
        _,
        _,
        _,
    ) = connection.one(Call::script(&scripts::LIST_MEMBERS, &keys.members)).await?;
    let member = |(role, token, location, is_dead, last_heartbeat, since_heartbeat): Row| {
        let (role, is_dead) = (Role::named(&role)?, is_dead == 1);
        let since_heartbeat = Duration::from_millis(since_heartbeat);
        Some(Member { role, token, location, is_dead, last_heartbeat, since_heartbeat })
    };
    let mut members: Vec<Member> = rows.into_iter().filter_map(member).collect();
    members.sort_by_key(|member| member.role);
    Ok((members, crawl_state((phase, end, run, version, elapsed, archived, live, watched))))
}

fn crawl_state((phase, end, run, version, elapsed, archived, live, watched): StateReply) -> CrawlState {
    let phase = match phase.as_str() {
        "seeding" => Phase::Seeding,
        "running" => Phase::Running,
        "ended" => Phase::Ended(end),
        "purged" => Phase::Purged,
        _ => Phase::Unknown,
    };
    let (elapsed, is_archived) = (Duration::from_millis(elapsed), archived == 1);
    CrawlState { phase, run, version, elapsed, is_archived, live, is_watched: watched == 1 }
}
