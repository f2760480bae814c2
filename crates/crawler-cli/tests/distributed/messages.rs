//! Fragments of the messages that the binary prints and that several tests look for.

/// A process has waited for Redis for a second.
pub const WAITING_FOR_REDIS: &str = "waiting for Redis at ";

/// Redis replies again after a process has printed that it waits.
pub const REDIS_REPLIES_AGAIN: &str = "replies again after";

/// The frontier has declared a worker dead; the seconds without a heartbeat follow.
pub const DECLARED_DEAD: &str = "is declared dead: no heartbeat for ";

/// The controller kills a process that sends no heartbeats.
pub const HANGS: &str = " hangs: it has sent no heartbeat; killing it";

/// The controller restarts a process that exited.
pub const RESTARTED: &str = "restarting it";

/// A process finds no crawl where there was one.
pub const CRAWL_UNKNOWN: &str = "no longer has the crawl 'crawl'; checking again for ";

/// A process finds the crawl again.
pub const CRAWL_FOUND_AGAIN: &str = "the crawl 'crawl' is back";

/// A process gives up a crawl that Redis has lost.
pub const CRAWL_LOST: &str = "has lost the crawl 'crawl'";

/// What an operator can do about a crawl that Redis has lost.
pub const CRAWL_LOST_REMEDY: &str = "('crawler purge')";

/// A process finds that the crawl was purged before it was over.
pub const CRAWL_PURGED_WHILE_RUNNING: &str = "the crawl 'crawl' is gone: it was purged while it was running";

/// A worker waits for another process that has its ID.
pub const ID_IN_USE: [&str; 2] = ["worker 3 is already running (pid", "waiting for it to exit"];

/// A worker waits for a process that has its part files, but is no member any more.
pub const WAITING_FOR_PARTS: &str = "waiting for the part files of worker 0: another process still has them";

/// The crawl was stopped by the stop command.
pub const STOPPED: &str = "Stopped: on request";

/// A role was started before its crawl.
pub const WAITING_FOR_CRAWL: &str = "waiting for the crawl 'crawl' to start";

/// What the lines of a controller and of its children start with, given the number of workers.
pub fn line_starts(workers: usize) -> Vec<String> {
    let workers = (0..workers).map(|id| format!("crawler: worker {id}: "));
    ["crawler: ".to_owned(), "crawler: the frontier: ".to_owned()].into_iter().chain(workers).collect()
}

/// Whether each of these processes has printed a line that starts with its prefix and `next`, and contains `also`.
pub fn all_print(output: &str, line_starts: &[String], next: &str, also: &str) -> bool {
    line_starts.iter().all(|start| prints(output, start, next, also))
}

/// Whether a process has printed a line that starts with `line_start` and `next`, and contains `also`.
pub fn prints(output: &str, line_start: &str, next: &str, also: &str) -> bool {
    output.lines().any(|line| line.starts_with(&format!("{line_start}{next}")) && line.contains(also))
}
