//! The scripts, one for each move, each with what it stands on before it.

use std::sync::LazyLock;

use redis::Script;

/// A script.
pub(super) struct Lua {
    pub(super) text: &'static str,
    pub(super) script: Script,
    /// It remembers what it answered until that has arrived, so that it is made once.
    pub(super) is_once: bool,
}

macro_rules! scripts {
    ($($name:ident = $($once:ident)? $($file:literal),+;)*) => {
        $(pub(super) static $name: LazyLock<Lua> = LazyLock::new(|| Lua {
            text: concat!(include_str!("scripts/common.lua"), $(include_str!(concat!("scripts/", $file))),+),
            script: Script::new(concat!(include_str!("scripts/common.lua"), $(include_str!(concat!("scripts/", $file))),+)),
            is_once: !stringify!($($once)?).is_empty(),
        });)*

        /// All of them.
        pub(super) fn all() -> impl Iterator<Item = &'static Lua> {
            [$(&*$name),*].into_iter()
        }
    };
}

scripts! {
    BEGIN = "begin.lua";
    OPEN = "partition.lua", "open.lua";
    ADMIT = once "clock.lua", "partition.lua", "links.lua", "urls.lua", "admit.lua";
    INCOMING = once "partition.lua", "urls.lua", "incoming.lua";
    FILE = "partition.lua", "urls.lua", "file.lua";
    ROUTE = "clock.lua", "partition.lua", "domains.lua", "route.lua";
    LEASE = once "clock.lua", "partition.lua", "domains.lua", "loans.lua", "hosts.lua", "lease.lua";
    PASS_ON = once "clock.lua", "partition.lua", "domains.lua", "loans.lua", "hosts.lua", "pass_on.lua";
    QUEUED = "partition.lua", "queued.lua";
    CHECK = "partition.lua", "loans.lua", "check.lua";
    PREPARE = "partition.lua", "loans.lua", "prepare.lua";
    ENDING = "partition.lua", "loans.lua", "ending.lua";
    FINISH = once "clock.lua", "partition.lua", "links.lua", "urls.lua", "domains.lua", "loans.lua", "hosts.lua",
        "ends.lua", "finish.lua";
    COMPLETE = once "clock.lua", "partition.lua", "links.lua", "urls.lua", "domains.lua", "loans.lua", "hosts.lua",
        "ends.lua", "budget.lua", "complete.lua";
    RECOUNT = once "recount.lua";
    PACE = "clock.lua", "partition.lua", "hosts.lua", "pace.lua";
    LEAVE = once "clock.lua", "partition.lua", "loans.lua", "hosts.lua", "lost.lua", "leave.lua";
    ENTER = "partition.lua", "enter.lua";
    REJOIN = once "clock.lua", "partition.lua", "loans.lua", "hosts.lua", "lost.lua", "rejoin.lua";
    RESYNC = once "clock.lua", "partition.lua", "loans.lua", "hosts.lua", "lost.lua", "resync.lua";
    CLOSE = "clock.lua", "partition.lua", "hosts.lua", "names.lua", "close.lua";
    OPENED = "opened.lua";
    REOPEN = "partition.lua", "names.lua", "reopen.lua";
    REOPEN_BUDGET = "reopen_budget.lua";
    SWEEP = "sweep.lua";
    NODE = "node.lua";
    WHY = "clock.lua", "partition.lua", "links.lua", "why.lua";
    LOOK = "look.lua";
    SNAPSHOT = "clock.lua", "partition.lua", "urls.lua", "snapshot.lua";
    // Where there is nothing to count it may be made twice, and its answer need not be remembered.
    RESERVE = "budget.lua", "reserve.lua";
    RESERVE_AGAIN = once "budget.lua", "reserve.lua";
    RELEASE = once "budget.lua", "release.lua";
    SETTLE = once "budget.lua", "settle.lua";
    GIVE_BACK = "budget.lua", "give_back.lua";
    SPENT = "budget.lua", "spent.lua";
    REMEMBER = "clock.lua", "remember.lua";
    DISCARD = "clock.lua", "discard.lua";
    STORED = "clock.lua", "stored.lua";
    JOIN = once "clock.lua", "crew.lua", "join.lua";
    BEAT = "clock.lua", "crew.lua", "beat.lua";
    CREW_LOOK = "clock.lua", "crew.lua", "crew_look.lua";
    DEAD = "clock.lua", "crew.lua", "dead.lua";
    RELIEVE = "crew.lua", "relieve.lua";
    PART = "crew.lua", "part.lua";
    RESULT = "crew.lua", "result.lua";
    STEER = once "crew.lua", "steer.lua";
}
