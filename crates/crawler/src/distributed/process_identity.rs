//! What tells a process from all others, and whether one of them can be known to be dead.

use std::fs;
use std::path::Path;

use crate::backend::local::secret;

/// A process of a crawl.
#[derive(Debug, Clone)]
pub(super) struct ProcessIdentity {
    /// Unlike that of any other process, also of one with the same number on another machine or at another time.
    pub(super) token: String,
    /// Where it runs, for people.
    pub(super) place: String,
}

impl ProcessIdentity {
    /// Of this process. A new one each time.
    pub(super) fn new() -> ProcessIdentity {
        let process = std::process::id();
        let born = born(process).unwrap_or_default();
        let token = format!("{}/{process}/{born}/{:x}", namespace().unwrap_or_default(), secret());
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let host = if host.trim().is_empty() { "this machine" } else { host.trim() };
        ProcessIdentity { token, place: format!("process {process} on {host}") }
    }
}

/// Whether the process of a token is known to be dead: it ran where we can see all processes, and is there no more.
pub(super) fn is_surely_dead(token: &str) -> bool {
    let mut parts = token.splitn(4, '/');
    let (Some(theirs), Some(process), Some(their_birth), Some(_)) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    let Ok(process) = process.parse() else { return false };
    let is_here = namespace().is_some_and(|ours| ours == theirs);
    // Where others' processes are hidden from us, they look like none.
    let sees_all = born(1).is_some();
    is_here && sees_all && !their_birth.is_empty() && born(process).is_none_or(|born| born != their_birth)
}

/// The system's start and the set of processes that this one sees.
fn namespace() -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let processes = fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{} {}", boot.trim(), processes.display()))
}

/// When a process began, by the system's count; nothing if there is no such process. One that has ended, and whose
/// parent has not looked yet, is no more.
fn born(process: u32) -> Option<String> {
    let path = format!("/proc/{process}/stat");
    let status = fs::read_to_string(Path::new(&path)).ok()?;
    // The name of the program comes second, in brackets, and may have anything in it.
    let mut fields = status.rsplit_once(") ")?.1.split(' ');
    let is_alive = !matches!(fields.next()?, "Z" | "X");
    is_alive.then(|| fields.nth(18).map(str::to_owned)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_is_dead_when_it_has_ended_and_not_before() {
        let mut child = Command::new("sleep").arg("100").spawn().unwrap();
        let token = format!("{}/{}/{}/0", namespace().unwrap(), child.id(), born(child.id()).unwrap());
        assert!(!is_surely_dead(&token) && !is_surely_dead(&ProcessIdentity::new().token));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(is_surely_dead(&token));
    }

    #[test]
    fn of_a_process_elsewhere_nothing_is_known() {
        let elsewhere = ProcessIdentity::new().token.replacen('/', "x/", 1);
        for token in [elsewhere.as_str(), "", "a/b", "a/b/c/d", "a/1/2/3"] {
            assert!(!is_surely_dead(token), "{token}");
        }
    }
}
