//! The scripts that run on Redis, for what no single command does in one step.

use std::sync::LazyLock;

use redis::Script;

/// A script.
pub(super) struct Lua {
    pub(super) text: &'static str,
    pub(super) script: Script,
}

macro_rules! scripts {
    ($($name:ident = $($part:expr),+;)*) => {
        $(pub(super) static $name: LazyLock<Lua> = LazyLock::new(|| {
            let text = concat!($($part),+);
            Lua { text, script: Script::new(text) }
        });)*
    };
}

macro_rules! file {
    ($name:literal) => {
        include_str!(concat!("scripts/", $name))
    };
}

scripts! {
    WRITE_IF = file!("write_if.lua");
    JOIN = file!("members.lua"), file!("join.lua");
    // Heartbeats get through when memory is full: otherwise the frontier declares the workers dead that wait for memory. They
    // overwrite what they wrote before, so they need no more of it.
    HEARTBEAT = "#!lua flags=allow-oom\n", file!("members.lua"), file!("heartbeat.lua");
    LIST_MEMBERS = file!("members.lua"), file!("list_members.lua");
    SET_PHASE = file!("members.lua"), file!("set_phase.lua");
    STORE_STATISTICS = file!("members.lua"), file!("store_statistics.lua");
}
