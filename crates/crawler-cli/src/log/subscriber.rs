//! Turns the events of `tracing` into lines. There are no spans.

use std::sync::Arc;

use crawler::internal::log::{COMMAND, CRAWL, NOTICE, PREFIX, URL};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata};

use super::filter::Filter;
use super::line::{Line, LogFormat};
use super::queue::Queue;
use crate::printable::print_message;

/// The log in a file.
pub struct EventLog {
    filter: Filter,
    format: LogFormat,
    queue: Arc<Queue>,
}

impl EventLog {
    pub fn new(filter: Filter, format: LogFormat, queue: Arc<Queue>) -> EventLog {
        EventLog { filter, format, queue }
    }
}

/// Receives all events of the process.
pub struct Subscriber {
    log: Option<EventLog>,
    /// What is printed to standard error with `--verbose`.
    shown: Option<Filter>,
}

impl Subscriber {
    pub fn new(log: Option<EventLog>, shown: Option<Filter>) -> Subscriber {
        Subscriber { log, shown }
    }

    fn is_logged(&self, metadata: &Metadata<'_>) -> bool {
        self.log.as_ref().is_some_and(|log| log.filter.allows(metadata))
    }

    /// Errors, messages for the operator, the outcomes of URLs and the summary are printed in a form of their own.
    fn is_shown(&self, metadata: &Metadata<'_>) -> bool {
        let is_printed = [COMMAND, CRAWL, NOTICE, URL].contains(&metadata.target());
        self.shown.as_ref().is_some_and(|filter| !is_printed && filter.allows(metadata))
    }
}

impl tracing::Subscriber for Subscriber {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.enabled(metadata) { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.is_logged(metadata) || self.is_shown(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let filters = self.log.iter().map(|log| &log.filter).chain(&self.shown);
        filters.map(Filter::max_level).max()
    }

    fn event(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        let (level, target) = (*metadata.level(), metadata.target().trim_start_matches(PREFIX));
        if let Some(EventLog { format, queue, .. }) = self.log.as_ref().filter(|_| self.is_logged(metadata)) {
            let mut line = Line::new(*format);
            event.record(&mut line);
            queue.push(&line.finish(level, target));
        }
        if self.is_shown(metadata) {
            let mut line = Line::new(LogFormat::Text);
            event.record(&mut line);
            print_message(&line.finish_short(level, target));
        }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
