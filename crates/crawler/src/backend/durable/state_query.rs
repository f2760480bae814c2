//! Queries about a state, and the replies to them. They are the same whether a process runs the crawl or not.

use serde::{Deserialize, Serialize};

use super::super::linking_pages::{FoundLinks, LinkTargets};
use super::super::stored_url::StoredUrl;
use super::super::{BackendError, WaitReason};
use super::file_reader::FileReader;
use super::outputs::RecordedOutput;
use super::state_reader::{StateStatus, UrlHistory};
use super::visited_urls::VisitedUrl;
use crate::error::{Error, StorageError, StorageErrorKind};
use crate::live_settings::ControlAction;

/// A query about a state. URLs are in their admitted form.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum StateQuery {
    Status,
    Metadata,
    Outputs,
    History(String),
    /// The host of a pending URL.
    WaitReason(String),
    Content(String),
    Pages(usize),
    SeedIndex,
    /// The URLs, the query parameters that the crawl removes, and the ID of the first page to read.
    LinkingPages(LinkTargets, Vec<String>, u64),
    /// A change of the running crawl.
    Control(ControlAction),
    /// Completed URLs, from this task on.
    Urls(u64),
    /// What the visit of this number found, from this task on.
    Visited(u32, u64),
}

/// The reply to a [`StateQuery`] of the same name.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum StateReply {
    Status(Box<StateStatus>),
    Metadata(Vec<u8>),
    Outputs(Vec<RecordedOutput>),
    History(Option<UrlHistory>),
    WaitReason(Option<WaitReason>),
    Content(Option<Vec<u8>>),
    Pages(Vec<String>),
    /// The secret of the hashes, and the index.
    SeedIndex(u128, Vec<u8>),
    /// Some of the pages, and the ID of the next page to read.
    LinkingPages(FoundLinks, Option<u64>),
    /// What was done, or why not.
    Control(Result<String, String>),
    /// Some of the URLs, and the ID of the next task to read.
    Urls(Vec<StoredUrl>, Option<u64>),
    Visited(Vec<VisitedUrl>, Option<u64>),
    /// No process runs the crawl, so it cannot be changed.
    NotRunning,
    /// The state cannot be read, and why.
    Failed(String),
}

impl StateQuery {
    /// The reply from the tables.
    pub(super) fn reply(self, reader: &mut FileReader) -> Result<StateReply, BackendError> {
        Ok(match self {
            StateQuery::Status => StateReply::Status(Box::new(reader.status()?)),
            StateQuery::Metadata => StateReply::Metadata(reader.metadata()?),
            StateQuery::Outputs => StateReply::Outputs(reader.outputs()?),
            StateQuery::History(url) => StateReply::History(reader.history(url)?),
            // Only the process that runs a crawl knows it.
            StateQuery::WaitReason(_) => StateReply::WaitReason(None),
            StateQuery::Content(url) => StateReply::Content(reader.content(&url)?),
            StateQuery::Pages(max) => StateReply::Pages(reader.pages(max)?),
            StateQuery::LinkingPages(targets, strip_query, first) => {
                let (found, next) = reader.linking_pages(&targets, &strip_query, first)?;
                StateReply::LinkingPages(found, next)
            }
            StateQuery::Urls(first) => {
                let (urls, next) = reader.urls(first)?;
                StateReply::Urls(urls, next)
            }
            StateQuery::Visited(visit, first) => {
                let (urls, next) = reader.visited_urls(visit, first)?;
                StateReply::Visited(urls, next)
            }
            StateQuery::Control(_) => StateReply::NotRunning,
            StateQuery::SeedIndex => {
                let (secret, index) = reader.seed_index()?;
                StateReply::SeedIndex(secret, index)
            }
        })
    }
}

impl StateReply {
    /// The error for a reply to another query.
    pub(super) fn unexpected(self) -> Error {
        let message = match self {
            StateReply::Failed(message) => message,
            _ => "cannot read the state: the process that runs the crawl gave a wrong reply; stop the crawl first"
                .into(),
        };
        Error::State(StorageError::new(StorageErrorKind::Io, message))
    }
}
