//! Identifies the processes of a crawl, and detects that one on this machine has exited.

use std::fs;
use std::path::Path;

use crate::backend::local::secret;

/// A process of a crawl.
#[derive(Debug, Clone)]
pub(super) struct ProcessIdentity {
    /// Differs from the token of any other process, also of one with the same PID on another machine or at
    /// another time.
    pub(super) token: String,
    /// Its PID and host name, for messages.
    pub(super) location: String,
}

impl ProcessIdentity {
    /// A new identity for this process.
    pub(super) fn new() -> ProcessIdentity {
        let pid = std::process::id();
        let started = start_time(pid).unwrap_or_default();
        let token = format!("{}/{pid}/{started}/{:x}", namespace().unwrap_or_default(), secret());
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let host = if host.trim().is_empty() { "unknown" } else { host.trim() };
        ProcessIdentity { token, location: format!("pid {pid} on host {host}") }
    }
}

/// Whether the process of a token has certainly exited: it ran in our PID namespace, where we see all
/// processes, and no longer exists. `false` means that this is not known.
pub(super) fn is_surely_dead(token: &str) -> bool {
    let mut parts = token.splitn(4, '/');
    let (Some(their_namespace), Some(pid), Some(their_start), Some(_)) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    let Ok(pid) = pid.parse() else { return false };
    let is_local = namespace().is_some_and(|namespace| namespace == their_namespace);
    // If /proc hides the processes of other users, they look as if they had exited.
    let sees_all = start_time(1).is_some();
    is_local
        && sees_all
        && !their_start.is_empty()
        && start_time(pid).is_none_or(|start| start != their_start)
}

/// The boot ID and the PID namespace of this process.
fn namespace() -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let pids = fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{} {}", boot.trim(), pids.display()))
}

/// When a process started, in clock ticks since boot. `None` if it does not exist or is a zombie.
fn start_time(pid: u32) -> Option<String> {
    let path = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(Path::new(&path)).ok()?;
    // The second field is the program's name in brackets, which may contain any character.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let is_alive = !matches!(fields.next()?, "Z" | "X");
    is_alive.then(|| fields.nth(18).map(str::to_owned)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn process_is_dead_once_it_has_exited() {
        let mut child = Command::new("sleep").arg("100").spawn().unwrap();
        let token = format!("{}/{}/{}/0", namespace().unwrap(), child.id(), start_time(child.id()).unwrap());
        assert!(!is_surely_dead(&token) && !is_surely_dead(&ProcessIdentity::new().token));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(is_surely_dead(&token));
    }

    #[test]
    fn process_elsewhere_is_not_known_to_be_dead() {
        let elsewhere = ProcessIdentity::new().token.replacen('/', "x/", 1);
        for token in [elsewhere.as_str(), "", "a/b", "a/b/c/d", "a/1/2/3"] {
            assert!(!is_surely_dead(token), "{token}");
        }
    }
}
