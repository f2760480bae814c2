//! Why a command has no reply, whether it is temporary, and the error with its remedy.

use std::fmt;

use redis::{ErrorKind, RedisError};

use super::super::super::BackendError;
use crate::error::{StorageError, StorageErrorKind};

/// Why a command has no reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CommandFailure {
    /// The server closed the connection, or did not reply in time: it is unknown whether the command ran.
    NoReply(String),
    /// There is no connection: the command did not run, or its effect is lost.
    Disconnected(String),
    /// The reply is an error: the command did not run.
    Rejected {
        /// The first word of the error.
        code: String,
        /// The whole error.
        text: String,
    },
    /// The other side is not Redis, or is not trusted.
    NotRedis(String),
}

/// Errors that end by themselves, or when an operator repairs the server.
const TEMPORARY: [&str; 13] = [
    // A read that waited was interrupted: the server became a replica.
    "UNBLOCKED",
    "LOADING",
    "READONLY",
    "MASTERDOWN",
    "CLUSTERDOWN",
    "TRYAGAIN",
    "MOVED",
    // The slot is being moved to another node. A part of the keys of a script may be there already, so the command waits until
    // all are.
    "ASK",
    "BUSY",
    "OOM",
    "MISCONF",
    "NOREPLICAS",
    // The reason is one of these: a lasting one rejects a command of the transaction before its end.
    "EXECABORT",
];

impl From<RedisError> for CommandFailure {
    fn from(error: RedisError) -> CommandFailure {
        let detail = error.detail().unwrap_or_default();
        let is_unreadable = error.kind() == ErrorKind::Parse;
        match error.code() {
            Some(code) => CommandFailure::rejected(code, detail),
            None if error.is_connection_dropped() || is_unreadable && detail.contains("end of input") => {
                CommandFailure::NoReply("connection closed".into())
            }
            None if is_unreadable => {
                CommandFailure::NotRedis("its reply is not in the protocol of Redis".into())
            }
            None => CommandFailure::Disconnected(error.to_string()),
        }
    }
}

impl CommandFailure {
    pub(super) fn rejected(code: &str, details: &str) -> CommandFailure {
        // A server that does not know AUTH repeats the password.
        let details = details.split(", with args beginning with").next().unwrap_or_default();
        CommandFailure::Rejected {
            code: code.to_owned(),
            text: format!("{code} {details}").trim_end().to_owned(),
        }
    }

    /// Whether it is the error with this code.
    pub(super) fn is(&self, wanted: &str) -> bool {
        matches!(self, CommandFailure::Rejected { code, .. } if code == wanted)
    }

    /// Whether the command may succeed later.
    pub(super) fn is_temporary(&self) -> bool {
        match self {
            CommandFailure::NoReply(_) | CommandFailure::Disconnected(_) => true,
            CommandFailure::Rejected { code, text } => {
                TEMPORARY.contains(&code.as_str()) || text.contains("max number of clients")
            }
            CommandFailure::NotRedis(_) => false,
        }
    }

    /// Whether the next attempt needs a new connection. The name of a server that became a replica may lead to another one.
    pub(super) fn ends_connection(&self) -> bool {
        !matches!(self, CommandFailure::Rejected { .. }) || self.is("READONLY")
    }

    /// Whether a server that should wait for its replicas has become one.
    pub(super) fn is_of_new_replica(&self) -> bool {
        matches!(self, CommandFailure::Rejected { code, text }
            if code == "UNBLOCKED" || code == "READONLY" || text.contains("WAIT cannot be used with replica"))
    }

    /// The same failure, with the server that it is about.
    pub(super) fn of(self, server: &impl fmt::Display) -> CommandFailure {
        match self {
            CommandFailure::NoReply(cause) => CommandFailure::NoReply(format!("{server}: {cause}")),
            CommandFailure::Disconnected(cause) => CommandFailure::Disconnected(format!("{server}: {cause}")),
            CommandFailure::Rejected { code, text } => {
                CommandFailure::Rejected { code, text: format!("{server}: {text}") }
            }
            CommandFailure::NotRedis(cause) => CommandFailure::NotRedis(format!("{server}: {cause}")),
        }
    }

    /// The error, with cause and remedy.
    pub(super) fn error(&self, address: &str) -> BackendError {
        let (code, text) = match self {
            CommandFailure::Rejected { code, text } => (code.as_str(), text.as_str()),
            CommandFailure::NoReply(text)
            | CommandFailure::Disconnected(text)
            | CommandFailure::NotRedis(text) => ("", text.as_str()),
        };
        let unsupported = |what: &str| {
            BackendError::redis(StorageErrorKind::Unsupported, format!("Redis at {address} {what}"))
        };
        let (what, remedy) = match (self, code) {
            // A server that expects TLS, or does not, mostly closes the connection or waits.
            (CommandFailure::NoReply(_), _) => (
                format!("cannot reach Redis at {address}"),
                "is it running, can it be reached from here, and does it want TLS (rediss://) or not (redis://)?",
            ),
            (CommandFailure::Disconnected(_), _) => (
                format!("cannot reach Redis at {address}"),
                "is it running, and can it be reached from here?",
            ),
            (CommandFailure::NotRedis(_), _) => (
                format!("cannot talk to Redis at {address}"),
                "is it Redis, does it want TLS (rediss://) or not (redis://), and is its certificate trusted?",
            ),
            (_, "NOAUTH" | "WRONGPASS" | "NOPERM" | "DENIED") => return self.denied(address),
            _ if text.contains("ERR AUTH") => return self.denied(address),
            _ if text.contains("SELECT is not allowed in cluster mode") => {
                return unsupported("is a cluster, which has no databases; give the address without one");
            }
            _ if text.contains("DB index is out of range") => {
                return unsupported("has no such database; give one that it has, like 0");
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
            _ => (format!("Redis at {address} cannot run a command"), ""),
        };
        BackendError::Redis(StorageError::with_source(StorageErrorKind::Io, what, self.clone(), remedy))
    }

    fn denied(&self, address: &str) -> BackendError {
        // The first sentence of the error has the cause.
        let text = self.to_string();
        let cause = text.split(". ").next().unwrap_or_default().trim_end_matches('.').to_owned();
        let what = format!("Redis at {address} refuses");
        let remedy = "give a user name and password that may use scripts, transactions and the keys of the crawl: \
                      redis://user:password@host:port/";
        let cause = CommandFailure::Disconnected(cause);
        BackendError::Redis(StorageError::with_source(StorageErrorKind::Io, what, cause, remedy))
    }
}

impl std::error::Error for CommandFailure {}

impl fmt::Display for CommandFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommandFailure::NoReply(text)
            | CommandFailure::Disconnected(text)
            | CommandFailure::NotRedis(text)
            | CommandFailure::Rejected { text, .. } => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_does_not_repeat_arguments_because_one_may_be_the_password() {
        let failure = CommandFailure::rejected(
            "ERR",
            "unknown command 'AUTH', with args beginning with: 'me' 'secret' ",
        );
        let message = format!("{:#}", failure.error("redis://h"));
        assert!(message.contains("unknown command 'AUTH'") && !message.contains("secret"), "{message}");
    }

    #[test]
    fn server_that_became_a_replica_while_it_waited_for_its_own_is_recognised() {
        let unblocked = "force unblock from blocking operation, instance state changed (master -> replica?)";
        let wait = "WAIT cannot be used with replica instances. Please also note that since Redis 4.0 …";
        assert!(CommandFailure::rejected("UNBLOCKED", unblocked).is_of_new_replica());
        assert!(CommandFailure::rejected("ERR", wait).is_of_new_replica());
        assert!(
            !CommandFailure::rejected("NOPERM", "this user has no permissions to run WAIT")
                .is_of_new_replica()
        );
    }

    #[test]
    fn temporary_errors_are_known_by_their_code() {
        let temporary = |code: &str, details: &str| CommandFailure::rejected(code, details).is_temporary();
        assert!(temporary("OOM", "command not allowed when used memory > 'maxmemory'."));
        assert!(temporary("ERR", "max number of clients reached"));
        assert!(temporary("EXECABORT", "Transaction discarded because of: OOM command not allowed"));
        assert!(!temporary("ERR", "user_script:1: attempt to index a nil value"));
        assert!(!temporary("WRONGTYPE", "Operation against a key"));
        assert!(!temporary("NOPERM", "this user has no permissions"));
    }
}
