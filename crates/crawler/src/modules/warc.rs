//! The requests and responses of the crawl as a web archive: WARC files, which other programs replay.

pub mod made_files;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use super::output::segments::SegmentRule;
use super::spec::Spec;
use super::{BuiltinOutput, OutputSpec, OutputWrite, Target};
use crate::config::FetchConfig;
use crate::error::StorageError;
use crate::exchange::{ArchiveSettings, DroppedExchanges, Exchange};
use crate::format::{self, counted, number};
use crate::page::Page;
use crate::warc::digest::{self, Hash};
use crate::warc::encoding::Encoding;
use crate::warc::payloads::{Archived, Payloads};
use crate::warc::writer::{ResponseRecord, WarcCrawlInfo, push_exchange};

/// The name of the output.
pub const WARC: &str = "warc";

/// A resumed crawl knows the payloads of its newest files, up to this many bytes of them. More would take minutes to read.
const MAX_READ_BACK: u64 = 1_000_000_000;

/// The most responses that are rendered and not in the archive for good. More belong to URLs that were given to other workers.
const MAX_RENDERED: usize = 20_000;

/// The option that leaves images, stylesheets, scripts and fonts out.
const NO_REQUISITES: &str = "no-requisites";

/// An archive of everything that the crawl requests and receives.
#[derive(Debug)]
pub struct Warc {
    encoding: Encoding,
    keeps_requisites: bool,
    settings: ArchiveSettings,
    info: WarcCrawlInfo,
    state: Mutex<ArchiveState>,
}

#[derive(Debug, Default)]
struct ArchiveState {
    payloads: Payloads,
    /// The responses that were rendered whole and may become known payloads, by time and URL.
    rendered: HashMap<(SystemTime, Box<str>), Hash>,
    counts: ArchiveCounts,
    /// How many files there are, and their bytes.
    files: (usize, u64),
}

/// What this process has archived.
#[derive(Debug, Default)]
struct ArchiveCounts {
    responses: u64,
    revisits: u64,
    dropped: DroppedExchanges,
}

impl Warc {
    /// The output to files whose names are made from this one, from `PATH[,no-requisites]`.
    pub(super) fn output(arguments: &str) -> Result<OutputSpec, String> {
        let Spec { path, options } = Spec::split(arguments, |key| key == NO_REQUISITES);
        if let Some((option, Some(_))) = options.iter().find(|(_, value)| value.is_some()) {
            return Err(format!("the option '{option}' takes no value"));
        }
        // A comma does not separate where no option follows.
        if let Some((option, _)) = options.iter().find(|(option, _)| *option != NO_REQUISITES) {
            return Err(format!("it has no option '{option}'; its only option is {NO_REQUISITES}"));
        }
        let has_name = Path::new(path).file_name().is_some() && !path.ends_with('/');
        if path == "-" || !has_name {
            return Err("it needs a file with a name".into());
        }
        let warc = Warc {
            encoding: Encoding::from_path(Path::new(path)).map_or(Encoding::Gzip, |(encoding, _)| encoding),
            keeps_requisites: options.is_empty(),
            settings: ArchiveSettings::default(),
            info: WarcCrawlInfo::default(),
            state: Mutex::default(),
        };
        Ok(OutputSpec { output: Box::new(warc), target: Target::File(path.into()) })
    }

    fn state(&self) -> MutexGuard<'_, ArchiveState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends the records of an exchange.
    fn push(&self, out: &mut Vec<u8>, position: usize, exchange: &Exchange) {
        let payload = digest::hash(&[&exchange.payload]);
        let can_repeat = can_repeat(exchange);
        let known = can_repeat.then(|| self.state().payloads.get(&payload).cloned()).flatten();
        let record = match (&known, exchange.previous_visit) {
            (_, Some(before)) if exchange.status == 304 => ResponseRecord::NotModified(before),
            (Some(archived), _) => ResponseRecord::SamePayload(&archived.url, archived.date),
            _ => ResponseRecord::Whole,
        };
        push_exchange(self.encoding, out, exchange, position, &payload, record);
        if can_repeat && record == ResponseRecord::Whole {
            let mut state = self.state();
            if state.rendered.len() >= MAX_RENDERED {
                state.rendered.clear();
            }
            state.rendered.insert((exchange.requested, exchange.url.as_str().into()), payload);
        }
    }
}

/// Whether a payload is one that later responses may refer to, and may refer to an earlier one: a whole page or file.
fn can_repeat(exchange: &Exchange) -> bool {
    exchange.status == 200 && exchange.truncated.is_none() && !exchange.payload.is_empty()
}

impl BuiltinOutput for Warc {
    fn name(&self) -> &str {
        WARC
    }

    /// Pages are archived as the responses that they are.
    fn render(&self, _: &Page) -> OutputWrite {
        OutputWrite::Append(Vec::new())
    }

    fn segments(&self) -> Option<SegmentRule> {
        Some(SegmentRule { max_bytes: self.settings.max_file_bytes, info: self.info.fields() })
    }

    fn wants_exchanges(&self) -> bool {
        true
    }

    fn render_exchanges(&self, exchanges: &[Exchange]) -> Vec<u8> {
        let mut out = Vec::new();
        for (position, exchange) in exchanges.iter().enumerate() {
            self.push(&mut out, position, exchange);
        }
        out
    }

    fn exchanges_committed(&self, exchanges: &[Exchange]) {
        let mut state = self.state();
        for exchange in exchanges {
            let key = (exchange.requested, exchange.url.as_str().into());
            let rendered = state.rendered.remove(&key);
            match rendered {
                Some(payload) => {
                    let record = Archived { url: key.1, date: exchange.requested };
                    state.payloads.add(payload, record);
                }
                None if can_repeat(exchange) => state.counts.revisits += 1,
                None => {}
            }
            state.counts.responses += 1;
        }
    }

    fn exchanges_dropped(&self, dropped: DroppedExchanges) {
        let counts = &mut self.state().counts.dropped;
        counts.bodies += dropped.bodies;
        counts.exchanges += dropped.exchanges;
    }

    /// Reads the payloads of the newest files, so that those that come again are not stored again.
    fn resume(&self, files: &[PathBuf]) {
        let mut payloads = Payloads::default();
        for file in newest(files) {
            // A payload that is not known is only stored again.
            let _ = payloads.read_file(file);
        }
        self.state().payloads = payloads;
    }

    fn made_files(&self, target: &Path) -> Vec<PathBuf> {
        let wacz = self.settings.makes_wacz.then(|| made_files::wacz_path(target));
        std::iter::once(made_files::index_path(target)).chain(wacz).collect()
    }

    fn make_files(&self, target: &Path, files: &[PathBuf]) -> Result<(), StorageError> {
        made_files::make(target, files, self.settings.makes_wacz)
    }

    fn files_written(&self, files: &[PathBuf]) {
        let length = |path: &PathBuf| fs::metadata(path).map_or(0, |file| file.len());
        self.state().files = (files.len(), files.iter().map(length).sum());
    }

    fn summary(&self) -> Option<String> {
        let state = self.state();
        let ArchiveState { counts, files: (files, bytes), .. } = &*state;
        let ArchiveCounts { responses, revisits, dropped } = counts;
        if *files == 0 {
            return None;
        }
        let repeated = match revisits {
            0 => String::new(),
            1 => ", 1 of them a duplicate stored without its body".into(),
            repeated => format!(", {} of them duplicates stored without their bodies", number(*repeated)),
        };
        let archived = counted(*responses, "response");
        let files = counted(*files as u64, "file");
        let bytes = format::bytes(*bytes);
        Some(format!("Archived {archived}{repeated}; the archive has {files}, {bytes}{}", missing(*dropped)))
    }

    fn wants_found_on(&self) -> bool {
        false
    }

    fn keeps_requisites(&self) -> bool {
        self.keeps_requisites
    }

    fn set_fetch_config(&mut self, config: &FetchConfig) {
        self.settings = config.archive.clone().unwrap_or_default();
        let from = config.headers.iter().find(|(name, _)| name == "from");
        self.info = WarcCrawlInfo {
            operator: self.settings.operator.clone(),
            user_agent: config.user_agent.clone(),
            from: from.and_then(|(_, value)| Some(value.to_str().ok()?.to_owned())),
            obeys_robots: config.requests.obey_robots,
        };
    }
}

/// What is missing in the archive.
fn missing(DroppedExchanges { bodies, exchanges }: DroppedExchanges) -> String {
    let bodies = (bodies > 0).then(|| {
        format!("the {} of {}", if bodies == 1 { "body" } else { "bodies" }, counted(bodies, "response"))
    });
    let exchanges = (exchanges > 0).then(|| counted(exchanges, "response"));
    match [bodies, exchanges].into_iter().flatten().collect::<Vec<_>>() {
        dropped if dropped.is_empty() => String::new(),
        dropped => {
            format!("; not archived, because too many URLs waited for their hosts: {}", dropped.join(", "))
        }
    }
}

/// The newest files that are read back, oldest first.
fn newest(files: &[PathBuf]) -> &[PathBuf] {
    let mut bytes = 0;
    let is_read = |file: &&PathBuf| {
        bytes += fs::metadata(file).map_or(0, |file| file.len());
        bytes <= MAX_READ_BACK
    };
    let count = files.iter().rev().take_while(is_read).count();
    // A single file that is larger is read all the same.
    &files[files.len() - count.max(1).min(files.len())..]
}

#[cfg(test)]
pub(crate) mod tests;
