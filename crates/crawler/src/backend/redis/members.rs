//! The processes that take part in a crawl, their heartbeats, and the phase of the crawl.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::{BackendError, WorkerId};
use super::RedisCrawl;
use super::Result;
use super::connection::Call;
use super::control::DistributedCrawl;
use super::data::CrawlData;
use super::scripts::{self, Lua};
use super::standbys::{self, Standby};
use super::write_if::WriteIf;
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

    pub(super) fn named(name: &str) -> Option<Role> {
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
    /// Whether an observer reads its statistics.
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
        process_of(&self.token)
    }
}

/// The process id in a token.
pub(super) fn process_of(token: &str) -> Option<u32> {
    token.split('/').nth(1)?.parse().ok()
}

/// The processes of a crawl, and its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Processes {
    /// Those that take part in it.
    pub members: Vec<Member>,
    /// Those that wait for the role of a member.
    pub standbys: Vec<Standby>,
    /// The state of the crawl.
    pub state: CrawlState,
}

/// The result of joining a crawl.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JoinResult {
    /// The process has this role, since a time by Redis's clock.
    Joined(Role, u64),
    /// Another process has the role, or the URLs of one that died are being requeued.
    Taken(Member),
    /// Redis does not have the crawl, or not any more.
    NoCrawl,
}

/// The state of a crawl as the scripts return it.
type CrawlStateReply = (String, String, u64, u64, u64, bool, u64, bool);

impl DistributedCrawl {
    /// Takes a role, or that of a worker whose number is free; waits as a standby for one that is taken. The member `dead` is known to be dead, unless it has sent a
    /// heartbeat since.
    pub async fn join(
        &self,
        role: Option<Role>,
        token: &str,
        location: &str,
        dead: Option<&Member>,
    ) -> Result<JoinResult> {
        let (dead, heartbeat) = dead.map_or(("-", 0), |dead| (&*dead.token, dead.last_heartbeat));
        let name = role.map_or_else(String::new, Role::name);
        loop {
            let call = self.member_script(&scripts::JOIN).arg((&name, token, location, dead, heartbeat));
            let call = call.arg(standbys::LIMITS);
            let (role, joined): (String, u64) = self.ask(call).await?;
            if role.is_empty() {
                return Ok(JoinResult::NoCrawl);
            }
            let role = Role::named(&role).ok_or_else(|| {
                BackendError::redis(Damaged, format!("the crawl has a member with an unknown role: {role:?}"))
            })?;
            if joined > 0 {
                return Ok(JoinResult::Joined(role, joined));
            }
            let (members, _) = self.members().await?;
            // If it is not there, it has just left.
            if let Some(member) = members.into_iter().find(|member| member.role == role) {
                return Ok(JoinResult::Taken(member));
            }
        }
    }

    /// Sends the heartbeat of a member, with the crawl time since its last one, if it counts that. Returns whether the
    /// process still is a member, and the state of the crawl.
    pub async fn heartbeat(&self, role: Role, token: &str, elapsed: Duration) -> Result<(bool, CrawlState)> {
        let call = self.member_script(&scripts::HEARTBEAT);
        let (is_member, state) = self.ask(call.arg((role.name(), token, elapsed.as_millis() as u64))).await?;
        Ok((is_member, crawl_state(state)))
    }

    /// The members, and the state of the crawl.
    pub async fn members(&self) -> Result<(Vec<Member>, CrawlState)> {
        let Processes { members, state, .. } = self.processes().await?;
        Ok((members, state))
    }

    /// The members and those that wait for a role, each in a constant order, and the state of the crawl.
    pub async fn processes(&self) -> Result<Processes> {
        list_processes(&self.shared.data).await
    }

    /// Declares a member dead, unless it has sent a heartbeat since. Returns whether it is.
    pub async fn declare_dead(&self, member: &Member) -> Result<bool> {
        let (name, heartbeat, heartbeats) =
            (member.role.name(), member.last_heartbeat, self.key("heartbeats"));
        // The heartbeat of a dead member is negative.
        let dead = format!("-{heartbeat}");
        let write = self.if_member(&name, &member.token).condition(("HGET", &heartbeats, &name), heartbeat);
        self.write_if(write.write(("HSET", &heartbeats, &name, &dead))).await?;
        Ok(self.ask::<Option<String>>(Call::new("HGET", heartbeats).arg(name)).await? == Some(dead))
    }

    /// Gives up a role, after the URLs of its process were requeued.
    pub async fn leave(&self, role: Role, token: &str) -> Result<()> {
        let name = role.name();
        let hashes = ["members", "heartbeats", "locations"];
        let leave = |write: WriteIf, hash| write.write(("HDEL", self.key(hash), &name));
        self.write_if(hashes.into_iter().fold(self.if_member(&name, token), leave)).await.map(drop)
    }

    fn if_member(&self, name: &str, token: &str) -> WriteIf {
        WriteIf::default().condition(("HGET", self.key("members"), name), token)
    }

    /// Starts a run of the crawl, with metadata for its processes. It does not end before it is
    /// [running](DistributedCrawl::set_running).
    pub async fn set_seeding(&self, metadata: &[u8]) -> Result<CrawlState> {
        self.set_phase("seeding", "", 0, metadata, "").await
    }

    /// The same after the index of seeds was extended, of which the processes learn while they run. `has_new_settings` is whether
    /// the metadata differs in anything but seeds.
    pub(crate) async fn set_seeding_with_index(
        &self,
        metadata: &[u8],
        has_new_settings: bool,
    ) -> Result<CrawlState> {
        let change = if has_new_settings { "settings" } else { "seeds" };
        self.set_phase("seeding", "", 0, metadata, change).await
    }

    /// All seeds of a run are submitted.
    pub async fn set_running(&self, run: u64) -> Result<CrawlState> {
        self.set_phase("running", "", run, b"", "").await
    }

    /// Ends a run, unless another one was started meanwhile.
    pub async fn set_ended(&self, run: u64, end: &str) -> Result<CrawlState> {
        self.set_phase("ended", end, run, b"", "").await
    }

    /// Lets everything of a crawl that has ended expire, unless another run was started meanwhile.
    pub async fn archive(&self, run: u64) -> Result<CrawlState> {
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
    pub async fn unarchive(&self, state: &CrawlState) -> Result<()> {
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
    ) -> Result<CrawlState> {
        let call = self.member_script(&scripts::SET_PHASE).arg((to, end, run, metadata, change));
        Ok(crawl_state(self.confirmed(call).await?))
    }

    /// Records that the frontier has written its state. If it is missing later, Redis has lost it.
    pub async fn set_begun(&self) -> Result<()> {
        self.ask(self.member_call("HSET", "crawl").arg("begun").arg(1)).await
    }

    /// Stores the report of a process under its token, while it is a member.
    pub async fn report_of_member(&self, role: Role, token: &str, report: &str) -> Result<()> {
        let write = self.if_member(&role.name(), token);
        self.write_if(write.write(("HSET", self.key("reports"), token, report))).await.map(drop)
    }

    /// Stores the report of a member, by a name.
    pub async fn report(&self, name: &str, report: &str) -> Result<()> {
        self.ask(self.member_call("HSET", "reports").arg(name).arg(report)).await
    }

    /// The reports of all members.
    pub async fn reports(&self) -> Result<BTreeMap<String, String>> {
        self.ask(self.member_call("HGETALL", "reports")).await
    }

    /// Stores a field of the statistics for the process of this token. Returns false if the crawl does not take it.
    pub(crate) async fn store_statistics(&self, field: &str, token: &str, value: &[u8]) -> Result<bool> {
        self.ask(self.member_script(&scripts::STORE_STATISTICS).arg((field, token, value))).await
    }

    /// Lets the processes of the crawl store their statistics more often for this time.
    pub(crate) async fn watch_statistics(&self, time: Duration) -> Result<()> {
        self.ask(self.member_call("SET", "watched").arg(1).arg("EX").arg(time.as_secs())).await
    }

    /// The statistics of all processes, by their tokens. Those that were merged with others are empty.
    pub(crate) async fn statistics(&self) -> Result<BTreeMap<String, Vec<u8>>> {
        self.ask(self.member_call("HGETALL", "statistics")).await
    }

    /// Replaces the `stored` statistics of processes that are gone by their sum with those that were merged before, unless another
    /// process has done that.
    pub(crate) async fn merge_statistics(
        &self,
        merged: &[u8],
        tokens: &[&String],
        stored: &BTreeMap<String, Vec<u8>>,
    ) -> Result<()> {
        let key = self.key("statistics");
        let unchanged =
            |write: WriteIf, token: &&String| write.condition(("HGET", &key, *token), &stored[*token]);
        let write = tokens.iter().fold(WriteIf::default(), unchanged).write(("HSET", &key, "merged", merged));
        let write = write.write_rows(&key, tokens.iter().map(|token| (*token, "")));
        self.write_if(write).await.map(drop)
    }

    /// Stores the result of a run, unless another one was started meanwhile.
    pub async fn store_result(&self, run: u64, result: &str) -> Result<()> {
        let write = self.if_crawl("phase", "ended").condition(("HGET", self.key("crawl"), "run"), run);
        self.write_if(write.write(("SET", self.key("result"), result))).await.map(drop)
    }

    /// Whether the result of the crawl is stored.
    pub async fn has_result(&self) -> Result<bool> {
        self.ask(self.member_call("EXISTS", "result")).await
    }

    /// The result of a crawl that has ended.
    pub async fn result(&self) -> Result<Option<String>> {
        self.ask(self.member_call("GET", "result")).await
    }

    pub(super) fn key(&self, name: &str) -> String {
        self.shared.data.keys.of_members(name)
    }

    pub(super) fn member_call(&self, command: &str, name: &str) -> Call {
        Call::new(command, self.key(name))
    }

    fn member_script(&self, script: &'static Lua) -> Call {
        Call::script(script, &self.shared.data.keys.members)
    }

    /// A condition on a field of the crawl.
    pub(super) fn if_crawl(&self, field: &str, value: &str) -> WriteIf {
        WriteIf::default().condition(("HGET", self.key("crawl"), field), value)
    }

    /// Returns the number of the condition that did not hold, or 0.
    pub(super) async fn write_if(&self, write: WriteIf) -> Result<u8> {
        self.ask(write.call(&self.shared.data.keys.members)).await
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
pub async fn crawl_info(redis_crawl: &RedisCrawl) -> Result<Option<CrawlInfo>> {
    let data = redis_crawl.connect().await?;
    let metadata = Call::new("HGET", data.keys.of_members("crawl")).arg("metadata");
    let Some(metadata) = data.connection.one(metadata).await? else { return Ok(None) };
    let has_result = data.connection.one(Call::new("EXISTS", data.keys.of_members("result"))).await?;
    let Processes { members, state, .. } = list_processes(&data).await?;
    Ok(Some(CrawlInfo { metadata, state, has_result, members: members.len() }))
}

async fn list_processes(data: &CrawlData) -> Result<Processes> {
    type Texts = BTreeMap<String, String>;
    type Reply = (Texts, BTreeMap<String, i64>, Texts, Texts, u64, CrawlStateReply);
    let (tokens, heartbeats, mut locations, standbys, now, state): Reply =
        data.connection.one(Call::script(&scripts::LIST_MEMBERS, &data.keys.members)).await?;
    let member = |(name, token): (String, String)| {
        let (role, heartbeat) = (Role::named(&name)?, *heartbeats.get(&name)?);
        let (location, last_heartbeat) = (locations.remove(&name)?, heartbeat.unsigned_abs());
        let since_heartbeat = Duration::from_millis(now.saturating_sub(last_heartbeat));
        Some(Member { role, token, location, is_dead: heartbeat < 0, last_heartbeat, since_heartbeat })
    };
    let mut members: Vec<Member> = tokens.into_iter().filter_map(member).collect();
    members.sort_by_key(|member| member.role);
    let standbys = standbys::from_records(standbys, now);
    Ok(Processes { members, standbys, state: crawl_state(state) })
}

fn crawl_state(
    (phase, end, run, version, elapsed, is_archived, live, is_watched): CrawlStateReply,
) -> CrawlState {
    let phase = match phase.as_str() {
        "seeding" => Phase::Seeding,
        "running" => Phase::Running,
        "ended" => Phase::Ended(end),
        "purged" => Phase::Purged,
        _ => Phase::Unknown,
    };
    let elapsed = Duration::from_millis(elapsed);
    CrawlState { phase, run, version, elapsed, is_archived, live, is_watched }
}
