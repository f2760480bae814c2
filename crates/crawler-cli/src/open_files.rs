//! Raises the limit of open files, so that a crawl can open its connections.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files that are open in addition to one connection per request in flight: standard streams, the page directory and a page, the
/// runtime's own, DNS lookups, and connections that are being closed.
const OTHER_FILES: u64 = 64;

/// How many of the `wanted` idle connections can stay open next to this many requests in flight. Raises the limit as far as
/// needed and permitted.
pub fn spare(requests: usize, wanted: usize) -> usize {
    let needed = requests as u64 + OTHER_FILES;
    let limit = getrlimit(Resource::Nofile);
    let goal = needed + wanted as u64;
    let max = limit.maximum.map_or(goal, |maximum| maximum.min(goal));
    let is_enough = limit.current.is_none_or(|current| current >= goal);
    let is_raised = is_enough || setrlimit(Resource::Nofile, Rlimit { current: Some(max), ..limit }).is_ok();
    let granted = if is_enough {
        goal
    } else if is_raised {
        max
    } else {
        limit.current.unwrap_or(goal)
    };
    usize::try_from(granted.saturating_sub(needed)).unwrap_or(wanted).min(wanted)
}

/// Raises the limit as far as this many requests in flight need it. A crawl that runs out of files can neither connect nor
/// write, so the error names the option to lower.
pub fn make_room(requests: usize, option: &str) -> Result<(), String> {
    let needed = requests as u64 + OTHER_FILES;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(needed), ..limit }).map_err(|_| {
        format!(
            "{option} needs {needed} open files, more than the system allows; use a smaller value, or raise the limit \
             (ulimit -n)"
        )
    })
}
