//! What can go wrong with Redis, whether it may pass, and what it is in words.

use std::fmt;

use super::super::super::BackendError;
use crate::error::{StorageError, StorageErrorKind};

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// There is no connection, or none any more: what was asked was done or not, nobody knows.
    Cut(String),
    /// The answer is an error: nothing was done.
    Refused {
        /// Its first word, by which errors are told apart.
        code: String,
        text: String,
    },
    /// Who is there is not whom we want to talk to.
    Foreign(String),
}

/// Errors that pass by themselves, or when somebody looks after the server.
const PASSING: [&str; 13] = [
    // A read that waited was interrupted: the server became a replica.
    "UNBLOCKED",
    "LOADING",
    "READONLY",
    "MASTERDOWN",
    "CLUSTERDOWN",
    "TRYAGAIN",
    "MOVED",
    // A slot on its way to another node. Our scripts find keys that they were not told of, and some of those may be
    // there already: so nothing is asked of it until it has arrived.
    "ASK",
    "BUSY",
    "OOM",
    "MISCONF",
    "NOREPLICAS",
    "NOSCRIPT",
];

/// Why there is no answer of somebody who is there.
const MUTE: [&str; 3] = ["no answer", "connection closed", "connection reset"];

impl Failure {
    /// The error that a server answered with, without its dash.
    pub(super) fn answered(line: &str) -> Failure {
        // A server that does not know AUTH, or calls it otherwise, repeats the password.
        let line = line.split(", with args beginning with").next().unwrap_or_default();
        let first = line.split(' ').next().unwrap_or_default();
        let is_code =
            first.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_') && !first.is_empty();
        let code = if is_code { first } else { "ERR" };
        Failure::Refused { code: code.to_owned(), text: line.to_owned() }
    }

    pub(super) fn is(&self, wanted: &str) -> bool {
        matches!(self, Failure::Refused { code, .. } if code == wanted)
    }

    /// Whether who was asked to wait for its replicas has become one itself.
    pub(super) fn is_of_a_replica(&self) -> bool {
        matches!(self, Failure::Refused { code, text }
            if code == "UNBLOCKED" || code == "READONLY" || text.contains("WAIT cannot be used with replica"))
    }

    /// Whether it may well go otherwise in a moment.
    pub(super) fn passes(&self) -> bool {
        match self {
            Failure::Cut(_) => true,
            Failure::Refused { code, text } => {
                PASSING.contains(&code.as_str()) || text.contains("max number of clients")
            }
            Failure::Foreign(_) => false,
        }
    }

    /// The same, with the node that it is about.
    pub(super) fn of(self, node: &impl fmt::Display) -> Failure {
        match self {
            Failure::Cut(why) => Failure::Cut(format!("{node}: {why}")),
            Failure::Refused { code, text } => Failure::Refused { code, text: format!("{node}: {text}") },
            Failure::Foreign(why) => Failure::Foreign(format!("{node}: {why}")),
        }
    }

    /// What went wrong, where, and what helps.
    pub(super) fn trouble(&self, address: &impl fmt::Display) -> BackendError {
        let code = match self {
            Failure::Refused { code, .. } => code.as_str(),
            _ => "",
        };
        let (what, remedy) = match (self, code) {
            // Who expects TLS, or does not, mostly says nothing or hangs up.
            (Failure::Cut(why), _) if MUTE.iter().any(|mute| why.contains(mute)) => (
                format!("cannot reach Redis at {address}"),
                "is it running, can it be reached from here, and does it want TLS (rediss://) or not (redis://)?",
            ),
            (Failure::Cut(_), _) => (
                format!("cannot reach Redis at {address}"),
                "is it running, and can it be reached from here?",
            ),
            (Failure::Foreign(_), _) => (
                format!("cannot talk to Redis at {address}"),
                "is it Redis, does it want TLS (rediss://) or not (redis://), and is its certificate trusted?",
            ),
            (_, "NOAUTH" | "WRONGPASS" | "NOPERM" | "DENIED") => return refusal(address, self),
            (Failure::Refused { text, .. }, _) if text.contains("ERR AUTH") => return refusal(address, self),
            (Failure::Refused { text, .. }, _) if text.contains("SELECT is not allowed in cluster mode") => {
                let message = format!(
                    "Redis at {address} is a cluster, which has no databases; give the address without one"
                );
                return BackendError::redis(StorageErrorKind::Unsupported, message);
            }
            (Failure::Refused { text, .. }, _) if text.contains("DB index is out of range") => {
                let message =
                    format!("Redis at {address} has no such database; give one that it has, like 0");
                return BackendError::redis(StorageErrorKind::Unsupported, message);
            }
            (_, "OOM") => (
                format!("the memory of Redis at {address} is full"),
                "give it more (maxmemory), or let links and pages live shorter",
            ),
            (_, "READONLY") => (
                format!("Redis at {address} is a replica that is not to be written to"),
                "give the address of its primary, or of the Sentinels that know it: redis+sentinel://host:26379/NAME",
            ),
            (_, "LOADING") => (format!("Redis at {address} still reads its data"), "try again later"),
            _ => (format!("Redis at {address} cannot do what it is asked"), ""),
        };
        BackendError::Redis(StorageError::with_source(StorageErrorKind::Io, what, self.clone(), remedy))
    }
}

fn refusal(address: &impl fmt::Display, failure: &Failure) -> BackendError {
    // Redis answers in sentences; the first one says what is wrong.
    let cause = failure.to_string();
    let cause = cause.split(". ").next().unwrap_or_default().trim_end_matches('.');
    let what = format!("Redis at {address} refuses");
    let remedy = "give a user name and password that may use scripts and the keys of the crawl: \
                  redis://user:password@host:port/";
    BackendError::Redis(StorageError::with_source(
        StorageErrorKind::Io,
        what,
        Failure::answered(cause),
        remedy,
    ))
}

impl std::error::Error for Failure {}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Cut(why) | Failure::Foreign(why) => f.write_str(why),
            Failure::Refused { text, .. } => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_is_not_repeated_because_it_may_be_the_password() {
        let line = "ERR unknown command 'AUTH', with args beginning with: 'me' 'secret' ";
        let message = format!("{:#}", Failure::answered(line).trouble(&"redis://h"));
        assert!(message.contains("unknown command 'AUTH'") && !message.contains("secret"), "{message}");
    }

    #[test]
    fn who_became_a_replica_while_it_waited_for_its_own_says_so() {
        let lines = [
            "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
            "ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is \
             configured to be writable",
        ];
        assert!(lines.iter().all(|line| Failure::answered(line).is_of_a_replica()));
        assert!(!Failure::answered("NOPERM this user has no permissions to run WAIT").is_of_a_replica());
    }

    #[test]
    fn errors_are_told_apart_by_their_first_word() {
        assert!(Failure::answered("OOM command not allowed when used memory > 'maxmemory'.").passes());
        assert!(Failure::answered("ERR max number of clients reached").passes());
        assert!(!Failure::answered("ERR user_script:1: attempt to index a nil value").passes());
        assert!(!Failure::answered("WRONGTYPE Operation against a key").passes());
        assert!(!Failure::answered("NOPERM this user has no permissions").passes());
    }
}
