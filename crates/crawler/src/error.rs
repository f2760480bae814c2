//! Why a crawl could not run. Why a single URL gave no page is an [`Outcome`](crate::Outcome).

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Why a crawl could not start or continue.
///
/// The message names the thing, the cause and the remedy. Where [`source`](StdError::source) returns the cause, `{}` leaves
/// it out, and `{:#}` prints it at its place: `cannot use directory 'x': Permission denied (os error 13); name …`.
///
/// ```
/// use crawler::{Crawler, Error, StorageErrorKind};
///
/// # let state = std::env::temp_dir().join("no-directory/state");
/// match Crawler::new("https://example.org/")?.state_dir(state).run_blocking() {
///     Err(Error::State(error)) if error.kind() == StorageErrorKind::InUse => eprintln!("it is running already"),
///     Err(error) => eprintln!("{error:#}"),
///     Ok(report) => println!("{} pages", report.snapshot.pages),
/// }
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A setting has an invalid value.
    InvalidSetting(String),
    /// A seed is out of scope.
    #[non_exhaustive]
    SeedOutOfScope {
        /// The seed.
        seed: String,
        /// The bounds of the scope.
        scope: String,
    },
    /// A module or output specification is invalid.
    Module(String),
    /// The file or directory of an output cannot be used, or could not be written.
    Output(StorageError),
    /// The state directory cannot be used, or the crawl in it cannot continue.
    State(StorageError),
    /// Redis cannot be used, or the distributed crawl on it cannot continue.
    Redis(StorageError),
    /// The proxy failed for longer than the crawl waits for it.
    Proxy(String),
    /// A blocking function was called inside an async runtime.
    InsideRuntime,
    /// The system refused a resource.
    #[non_exhaustive]
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
            Error::InvalidSetting(message) | Error::Module(message) => f.write_str(message),
            Error::Output(error) | Error::State(error) | Error::Redis(error) => error.fmt(f),
            Error::SeedOutOfScope { seed, scope } => {
                write!(f, "seed '{seed}' is out of scope '{scope}'; start within it, or choose another scope")
            }
            Error::Proxy(cause) => {
                write!(f, "cannot continue: {cause}; start the proxy, or correct the settings for it")
            }
            Error::InsideRuntime => f.write_str(
                "cannot block inside an async runtime; await run() instead of calling run_blocking()",
            ),
            Error::System { action, source } => {
                write!(f, "cannot {action}")?;
                write_causes(f, Some(source))
            }
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Error::Output(error) | Error::State(error) | Error::Redis(error) => error.source(),
            Error::System { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Why an output, the state or Redis cannot be used.
#[derive(Debug, Clone)]
pub struct StorageError(Arc<Details>);

#[derive(Debug)]
struct Details {
    kind: StorageErrorKind,
    /// What failed. With the cause and the remedy, unless there is a source.
    what: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
    remedy: &'static str,
}

/// The kinds of [`StorageError`]s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StorageErrorKind {
    /// Another process uses it, or another output of the same crawl.
    InUse,
    /// It contains something that this crawl did not write, and may not overwrite.
    AlreadyExists,
    /// There is no state in the directory, or no such crawl on Redis.
    NotFound,
    /// The path cannot be used: access is denied, its parent is missing, or something else is there.
    Unusable,
    /// What the crawl wrote has been changed or removed, or cannot be read.
    Damaged,
    /// The crawl was started with other settings.
    SettingsDiffer,
    /// It has a format or a configuration that this version of the crawler cannot use.
    Unsupported,
    /// A read or write failed.
    Io,
    /// A bug in the crawler, or in an output.
    Internal,
}

impl StorageError {
    /// What kind of error it is.
    pub fn kind(&self) -> StorageErrorKind {
        self.0.kind
    }

    /// An error with a complete message.
    pub(crate) fn new(kind: StorageErrorKind, message: impl Into<String>) -> StorageError {
        StorageError(Arc::new(Details { kind, what: message.into(), source: None, remedy: "" }))
    }

    /// An error with the message `what: source; remedy`. The remedy may be empty.
    pub(crate) fn with_source(
        kind: StorageErrorKind,
        what: impl Into<String>,
        source: impl StdError + Send + Sync + 'static,
        remedy: &'static str,
    ) -> StorageError {
        let source = Some(Box::new(source) as Box<_>);
        StorageError(Arc::new(Details { kind, what: what.into(), source, remedy }))
    }
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.what)?;
        write_causes(f, self.source())?;
        match self.0.remedy {
            "" => Ok(()),
            remedy => write!(f, "; {remedy}"),
        }
    }
}

impl StdError for StorageError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

/// With `{:#}`, writes the source and its own sources.
fn write_causes(f: &mut fmt::Formatter<'_>, source: Option<&(dyn StdError + 'static)>) -> fmt::Result {
    let mut next = source.filter(|_| f.alternate());
    while let Some(error) = next {
        write!(f, ": {error}")?;
        next = error.source();
    }
    Ok(())
}

/// The error for the directory of an output that cannot be used.
pub(crate) fn unusable_directory(path: &Path, source: io::Error) -> StorageError {
    let what = format!("cannot use directory '{}'", path.display());
    let remedy = "name an existing directory that you may write to";
    StorageError::with_source(StorageErrorKind::Unusable, what, source, remedy)
}

/// An error of a distributed crawl, for the command.
pub fn redis_error(kind: StorageErrorKind, message: impl Into<String>) -> Error {
    Error::Redis(StorageError::new(kind, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cause_is_in_the_message_or_in_the_source_and_alternate_form_has_both() {
        let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
        let error = Error::Output(unusable_directory(Path::new("x"), denied()));
        let remedy = "name an existing directory that you may write to";
        assert_eq!(error.to_string(), format!("cannot use directory 'x'; {remedy}"));
        assert_eq!(format!("{error:#}"), format!("cannot use directory 'x': permission denied; {remedy}"));
        let outer = StorageError::with_source(StorageErrorKind::Io, "cannot read it", error, "");
        assert_eq!(
            format!("{:#}", Error::State(outer)),
            format!("cannot read it: cannot use directory 'x'; {remedy}: permission denied")
        );
        let error = Error::System { action: "start a thread", source: denied() };
        assert_eq!(error.to_string(), "cannot start a thread");
        assert_eq!(format!("{error:#}"), "cannot start a thread: permission denied");
        let whole = redis_error(StorageErrorKind::NotFound, "there is no crawl; start it");
        assert_eq!((whole.to_string(), whole.source().is_none()), (format!("{whole:#}"), true));
    }
}
