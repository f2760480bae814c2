//! The scripts, one for each move, each with what it stands on before it.

use std::sync::LazyLock;

use redis::Script;

macro_rules! scripts {
    ($($name:ident = $($file:literal),+;)*) => {
        $(pub(super) static $name: LazyLock<Script> =
            LazyLock::new(|| Script::new(concat!(include_str!("common.lua"), $(include_str!($file)),+)));)*

        /// All of them.
        pub(super) fn all() -> impl Iterator<Item = &'static Script> {
            [$(&*$name),*].into_iter()
        }
    };
}

scripts! {
    BEGIN = "begin.lua";
    OPEN = "partition.lua", "open.lua";
    ADMIT = "partition.lua", "admit.lua";
    INCOMING = "partition.lua", "incoming.lua";
    FILE = "partition.lua", "file.lua";
    ROUTE = "partition.lua", "route.lua";
    LEASE = "partition.lua", "lease.lua";
    CHECK = "partition.lua", "check.lua";
    FINISH = "partition.lua", "finish.lua";
    PACE = "partition.lua", "pace.lua";
    LEAVE = "partition.lua", "leave.lua";
    LOOK = "partition.lua", "look.lua";
    SNAPSHOT = "partition.lua", "snapshot.lua";
    WROTE = "partition.lua", "wrote.lua";
    RESERVE = "budget.lua", "reserve.lua";
    SETTLE = "budget.lua", "settle.lua";
    GIVE_BACK = "budget.lua", "give_back.lua";
    SPENT = "budget.lua", "spent.lua";
    STORE = "store.lua";
    DISCARD = "discard.lua";
    CLAIM = "claim.lua";
    BANDS = "bands.lua";
    STORED = "stored.lua";
}
