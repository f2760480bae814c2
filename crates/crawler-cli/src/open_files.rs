//! Makes room for the connections of a crawl among the files that this process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What is open besides one connection for each request in flight: standard streams, the page directory and a page,
/// the runtime's own, name look-ups, and connections that are just being closed.
const BESIDES: u64 = 64;

/// How many connections can be kept open beside so many requests in flight, of the number that is wanted. Raises the
/// limit as far as that needs it and the system lets it.
pub fn spare(requests: usize, wanted: usize) -> usize {
    let needed = requests as u64 + BESIDES;
    let limit = getrlimit(Resource::Nofile);
    let goal = needed + wanted as u64;
    let most = limit.maximum.map_or(goal, |maximum| maximum.min(goal));
    let is_enough = limit.current.is_none_or(|current| current >= goal);
    let raised = is_enough || setrlimit(Resource::Nofile, Rlimit { current: Some(most), ..limit }).is_ok();
    let granted = if is_enough {
        goal
    } else if raised {
        most
    } else {
        limit.current.unwrap_or(goal)
    };
    usize::try_from(granted.saturating_sub(needed)).unwrap_or(wanted).min(wanted)
}

/// Raises the limit as far as so many requests in flight need it. An error names the option that asked for them and the
/// remedy: a crawl that ran out of files could neither connect nor write.
pub fn make_room(requests: usize, option: &str) -> Result<(), String> {
    let needed = requests as u64 + BESIDES;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(needed), ..limit }).map_err(|_| {
        format!(
            "{option} needs {needed} open files, more than the system allows; give a smaller one, or raise the limit (ulimit -n)"
        )
    })
}
