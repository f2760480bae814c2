//! Why a crawl could not be carried out, as opposed to why a page could not be had.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// A crawl that could not begin. Each names the thing, what is wrong, and the remedy.
#[derive(Debug)]
pub enum Error {
    /// The page directory cannot be used.
    Directory {
        /// Which.
        path: PathBuf,
        /// What the system says.
        cause: io::Error,
    },
    /// The page directory holds pages of an earlier crawl.
    NotEmpty {
        /// Which.
        path: PathBuf,
        /// One of the files.
        example: String,
    },
    /// Something in the page directory that a crawl did not write has the name of what it writes.
    PathBlocked {
        /// Which.
        path: PathBuf,
    },
    /// Another crawl is writing to the page directory.
    InUse {
        /// Which.
        path: PathBuf,
    },
    /// The seed is outside of the prefix that was called internal.
    SeedOutOfScope {
        /// The seed.
        seed: String,
        /// The prefix.
        internal: String,
    },
    /// A setting of the downloader is of no use.
    InvalidSetting(String),
    /// The crawl's storage cannot do what it is asked.
    Storage(String),
    /// Certificates to trust that cannot be read.
    Certificates(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Directory { path, cause } => {
                write!(
                    f,
                    "cannot use page directory '{}': {cause}; name an existing directory you may write to",
                    path.display()
                )
            }
            Error::NotEmpty { path, example } => write!(
                f,
                "page directory '{}' holds pages of an earlier crawl (file {example}); name another, or give --overwrite to remove them",
                path.display()
            ),
            Error::PathBlocked { path } => write!(
                f,
                "'{}' is in the way and no file; move it, or name another page directory",
                path.display()
            ),
            Error::InUse { path } => write!(
                f,
                "another crawl is writing to page directory '{}'; wait for its end or name another",
                path.display()
            ),
            Error::SeedOutOfScope { seed, internal } => write!(
                f,
                "seed '{seed}' is outside of '{internal}'; start inside, or designate another prefix with --internal"
            ),
            Error::InvalidSetting(what) | Error::Storage(what) => f.write_str(what),
            Error::Certificates(cause) => write!(f, "cannot read certificates: {cause}; give a PEM file"),
        }
    }
}

impl std::error::Error for Error {}
