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
            text: concat!(include_str!("common.lua"), $(include_str!($file)),+),
            script: Script::new(concat!(include_str!("common.lua"), $(include_str!($file)),+)),
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
    ADMIT = once "partition.lua", "admit.lua";
    INCOMING = once "partition.lua", "incoming.lua";
    FILE = "partition.lua", "file.lua";
    ROUTE = "partition.lua", "route.lua";
    LEASE = once "partition.lua", "lease.lua";
    CHECK = "partition.lua", "check.lua";
    PREPARE = "partition.lua", "prepare.lua";
    ENDING = "partition.lua", "ending.lua";
    FINISH = once "partition.lua", "finish.lua";
    PACE = "partition.lua", "pace.lua";
    LEAVE = once "partition.lua", "lost.lua", "leave.lua";
    REJOIN = once "partition.lua", "lost.lua", "rejoin.lua";
    CLOSE = "partition.lua", "names.lua", "close.lua";
    REOPEN = "partition.lua", "names.lua", "reopen.lua";
    REOPEN_BUDGET = "reopen_budget.lua";
    SWEEP = "sweep.lua";
    NODE = "node.lua";
    LOOK = "look.lua";
    SNAPSHOT = "partition.lua", "snapshot.lua";
    WROTE = "partition.lua", "wrote.lua";
    RESERVE = once "budget.lua", "reserve.lua";
    RELEASE = once "budget.lua", "release.lua";
    SETTLE = "budget.lua", "settle.lua";
    GIVE_BACK = "budget.lua", "give_back.lua";
    SPENT = "budget.lua", "spent.lua";
    STORE = "store.lua";
    DISCARD = "discard.lua";
    CLAIM = "claim.lua";
    BANDS = "bands.lua";
    STORED = "stored.lua";
}
