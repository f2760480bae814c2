//! Why a crawl could not run. Why a single URL gave no page is an [`Outcome`](crate::Outcome).

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a crawl could not start or continue. The message names the thing, the cause and the remedy.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A setting has a value that cannot be used.
    InvalidSetting(String),
    /// A seed is out of scope.
    SeedOutOfScope {
        /// The seed.
        seed: String,
        /// The bounds of the scope.
        scope: String,
    },
    /// A module or output specification is invalid.
    Module(String),
    /// The directory of an output cannot be used.
    Directory {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The directory of an output contains pages of an earlier crawl.
    NotEmpty {
        /// The directory.
        path: PathBuf,
        /// One of the files in it.
        example: String,
    },
    /// Something that no crawl wrote has the name of a file that an output writes.
    PathBlocked {
        /// Its path.
        path: PathBuf,
    },
    /// Another crawl is writing to the directory of an output.
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// The files of an output cannot be used, or could not be written.
    Output(String),
    /// The state directory cannot be used, or the state in it is damaged.
    State(String),
    /// Redis cannot be used, or the distributed crawl on it cannot continue.
    Redis(String),
    /// A blocking function was called inside an async runtime.
    InsideRuntime,
    /// The system refused a resource.
    System {
        /// What could not be done, such as "start a thread".
        action: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::InvalidSetting(message)
            | Error::Module(message)
            | Error::Output(message)
            | Error::State(message)
            | Error::Redis(message) => f.write_str(message),
            Error::SeedOutOfScope { seed, scope } => {
                write!(f, "seed '{seed}' is out of scope '{scope}'; start within it, or choose another scope")
            }
            Error::Directory { path, source } => write!(
                f,
                "cannot use directory '{}': {source}; name an existing directory that you may write to",
                path.display()
            ),
            Error::NotEmpty { path, example } => write!(
                f,
                "directory '{}' contains pages of an earlier crawl (file {example}); name another directory, or overwrite them",
                path.display()
            ),
            Error::PathBlocked { path } => write!(
                f,
                "cannot write '{}': something that is not a file is there; move it, or name another directory",
                path.display()
            ),
            Error::InUse { path } => write!(
                f,
                "another crawl is writing to directory '{}'; wait for its end, or name another directory",
                path.display()
            ),
            Error::InsideRuntime => f.write_str(
                "cannot block inside an async runtime; await run() instead of calling run_blocking()",
            ),
            Error::System { action, source } => write!(f, "cannot {action}: {source}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Directory { source, .. } | Error::System { source, .. } => Some(source),
            _ => None,
        }
    }
}
