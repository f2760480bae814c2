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
    ($($name:ident = $([$shebang:literal])? $($how:ident)* $($file:literal),+;)*) => {
        $(pub(super) static $name: LazyLock<Lua> = LazyLock::new(|| {
            let text = concat!(
                $($shebang,)?
                include_str!("scripts/common.lua"),
                $(include_str!(concat!("scripts/", $file))),+
            );
            Lua { text, script: Script::new(text), is_once: [$(stringify!($how)),*].contains(&"once") }
        });)*

        /// All of them.
        pub(super) fn all() -> impl Iterator<Item = &'static Lua> {
            [$(&*$name),*].into_iter()
        }

        /// Those that every crawl needs. Each costs a server a good part of a millisecond to learn; the rare ones it learns
        /// when it is asked for one.
        pub(super) fn common() -> impl Iterator<Item = &'static Lua> {
            let all = [$((&$name, [$(stringify!($how)),*].contains(&"rare"))),*];
            all.into_iter().filter(|(_, is_rare)| !is_rare).map(|(lua, _)| &**lua)
        }
    };
}

scripts! {
    BEGIN = "begin.lua";
    OPEN = "partition.lua", "open.lua";
    ADMIT = once "partition.lua", "links.lua", "urls.lua", "admit.lua";
    INCOMING = once "partition.lua", "urls.lua", "incoming.lua";
    FILE = "partition.lua", "urls.lua", "file.lua";
    ROUTE = "clock.lua", "partition.lua", "domains.lua", "route.lua";
    LEASE = once "clock.lua", "partition.lua", "domains.lua", "loans.lua", "hosts.lua", "lease.lua";
    PASS_ON = rare once "clock.lua", "partition.lua", "domains.lua", "loans.lua", "hosts.lua", "pass_on.lua";
    QUEUED = rare "partition.lua", "queued.lua";
    CLAIM = rare "clock.lua", "partition.lua", "domains.lua", "claim.lua";
    CHECK = rare "partition.lua", "loans.lua", "check.lua";
    PREPARE = rare "partition.lua", "loans.lua", "prepare.lua";
    ENDING = rare "partition.lua", "loans.lua", "ending.lua";
    FINISH = rare once "clock.lua", "partition.lua", "links.lua", "urls.lua", "domains.lua", "loans.lua", "hosts.lua",
        "ends.lua", "finish.lua";
    COMPLETE = once "clock.lua", "partition.lua", "links.lua", "urls.lua", "domains.lua", "loans.lua", "hosts.lua",
        "ends.lua", "budget.lua", "complete.lua";
    RECOUNT = rare once "recount.lua";
    REQUESTS = rare once "requests.lua";
    PACE = rare "clock.lua", "partition.lua", "hosts.lua", "pace.lua";
    LEAVE = once "clock.lua", "partition.lua", "loans.lua", "hosts.lua", "lost.lua", "leave.lua";
    ENTER = "partition.lua", "enter.lua";
    REJOIN = rare once "clock.lua", "partition.lua", "loans.lua", "hosts.lua", "lost.lua", "rejoin.lua";
    RESYNC = rare once "clock.lua", "partition.lua", "loans.lua", "hosts.lua", "lost.lua", "resync.lua";
    CLOSE = "clock.lua", "partition.lua", "hosts.lua", "names.lua", "close.lua";
    OPENED = "opened.lua";
    REOPEN = rare "partition.lua", "names.lua", "reopen.lua";
    REOPEN_BUDGET = rare "reopen_budget.lua";
    SWEEP = rare "sweep.lua";
    NODE = rare "node.lua";
    WHY = rare "partition.lua", "links.lua", "why.lua";
    LOOK = rare "look.lua";
    SNAPSHOT = "clock.lua", "partition.lua", "urls.lua", "snapshot.lua";
    // Where there is nothing to count it may be made twice, and its answer need not be remembered.
    RESERVE = "budget.lua", "reserve.lua";
    RESERVE_AGAIN = rare once "budget.lua", "reserve.lua";
    RELEASE = rare once "budget.lua", "release.lua";
    SETTLE = rare once "budget.lua", "settle.lua";
    GIVE_BACK = rare "budget.lua", "give_back.lua";
    SPENT = "budget.lua", "spent.lua";
    PIN = rare "pin.lua";
    REMEMBER = "clock.lua", "remember.lua";
    STORED = "clock.lua", "stored.lua";
    JOIN = once "clock.lua", "crew.lua", "join.lua";
    // Heartbeats get through when memory is full: otherwise the frontier declares the workers dead that wait for memory. They
    // overwrite what they wrote before, so they need no more of it.
    BEAT = ["#!lua flags=allow-oom\n"] "clock.lua", "crew.lua", "beat.lua";
    CREW_LOOK = "clock.lua", "crew.lua", "crew_look.lua";
    DEAD = rare "clock.lua", "crew.lua", "dead.lua";
    RELIEVE = rare "crew.lua", "relieve.lua";
    PART = "crew.lua", "part.lua";
    RESULT = "crew.lua", "result.lua";
    STEER = once "crew.lua", "steer.lua";
}
