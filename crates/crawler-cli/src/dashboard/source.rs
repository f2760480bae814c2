//! Where the dashboard gets a crawl from: this process, a state directory, or Redis.

mod process;
mod redis;
mod state;

use std::future::Future;
use std::time::Duration;

use crawler::internal::live_settings::{ControlAction, LiveSettings};
use tokio::runtime::Handle;
use url::Url;

use self::process::PAGES_ARE_FILES;
pub use self::process::{ProcessSource, short_name};
pub use self::redis::RedisSource;
pub use self::state::StateSource;

use super::view::{Mode, View};
use crate::args::CrawlSource;
use crate::commands::inspect;
use crate::commands::with_hint;

/// The most bytes of a stored page that are shown.
const MAX_SHOWN_BYTES: usize = 1 << 20;

/// How long stored pages are searched for links to a URL: the user waits for the answer.
const MAX_SEARCH_TIME: Duration = Duration::from_secs(3);

/// A crawl to show.
pub enum Source {
    /// A crawl of this process.
    Process(ProcessSource),
    /// A process of a distributed crawl, which needs this Redis.
    Role(ProcessSource, RedisSource),
    /// The crawl in a state directory.
    State(StateSource),
    /// A distributed crawl.
    Redis(RedisSource),
}

/// The health of a process, as its supervisor sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// All is well.
    Good,
    /// It cannot work now, and why.
    Bad(String),
}

/// What was read of a crawl.
pub struct Reading {
    /// The crawl now or, if it cannot be read, as it was.
    pub view: View,
    /// Why it, or what it needs, cannot be reached, in a sentence.
    pub failure: Option<String>,
}

impl Source {
    /// What is known before the crawl is read.
    pub fn starting_view(&self) -> View {
        match self {
            Source::Process(process) | Source::Role(process, _) => process.view(),
            // Until it could be read, nothing says that it runs.
            Source::State(state) => View {
                is_waiting: true,
                ..View::starting(&state.directory().display().to_string(), Mode::Pipeline)
            },
            Source::Redis(redis) => redis.waiting_view(),
        }
    }

    /// Reads the crawl, of which `last` was read before.
    pub async fn read(&self, last: &View) -> Reading {
        match self {
            Source::Process(process) => Reading { view: process.view(), failure: None },
            Source::Role(process, redis) => {
                let checked = redis.check().await;
                let redis_up = checked.as_ref().err().is_none_or(|failure| failure.is_up);
                let view = View { redis_up: Some(redis_up), ..process.view() };
                Reading { view, failure: checked.err().map(|failure| failure.reason) }
            }
            Source::State(state) => match state.view().await {
                Ok(view) => Reading { view, failure: None },
                Err(failure) => Reading { view: last.clone(), failure: Some(failure) },
            },
            Source::Redis(redis) => redis.read(last).await,
        }
    }

    /// Whether the process makes progress. It does not if it has not reported for this time.
    pub fn liveness(&self, stuck_after: Duration) -> Health {
        match self {
            Source::Process(process) | Source::Role(process, _) => process.liveness(stuck_after),
            // They only read, when they are asked to.
            Source::State(_) | Source::Redis(_) => Health::Good,
        }
    }

    /// Whether the process has started to work, as far as it knows without reading the crawl.
    pub fn readiness(&self) -> Health {
        match self {
            Source::Process(process) | Source::Role(process, _) => process.readiness(),
            Source::State(_) | Source::Redis(_) => Health::Good,
        }
    }

    /// What became of a URL, and why, in lines.
    pub async fn why(&self, url: Url) -> Result<String, String> {
        match self.stored() {
            Some(crawl) => {
                blocking(async move {
                    inspect::why_text(&crawl, &url, MAX_SEARCH_TIME).await.map(|(text, _)| text)
                })
                .await
            }
            None => match self {
                Source::Process(process) => Ok(process.why(&url)),
                _ => Err("cannot explain URLs of this crawl".into()),
            },
        }
    }

    /// A stored page, as text.
    pub async fn show(&self, url: Url) -> Result<String, String> {
        let Some(crawl) = self.stored() else {
            if let Source::Process(process) = self
                && process.is_classic()
            {
                return Err(format!("cannot show stored pages: {PAGES_ARE_FILES}"));
            }
            return Err(
                "cannot show stored pages: the crawl is in memory, which does not keep them; start it with --state DIR or --redis URL".into()
            );
        };
        let body = blocking(async move { inspect::stored_page(&crawl, &url).await }).await??;
        Ok(as_text(body.into()))
    }

    /// Changes the crawl, and says what was done, or why not.
    pub async fn act(&self, action: ControlAction) -> Result<String, String> {
        match self {
            Source::Process(process) | Source::Role(process, _) => {
                let control = process.control().ok_or(
                    "cannot change this crawl: a classic crawl has no actions; stop it with Ctrl-C, or use `crawler crawl`",
                )?;
                in_thread(move || control.apply(action)).await?
            }
            Source::State(state) => state.act(action).await,
            Source::Redis(redis) => redis.act(action).await,
        }
    }

    /// Where the URLs and pages of the crawl are stored.
    fn stored(&self) -> Option<CrawlSource> {
        match self {
            Source::Process(process) => process.state_directory().map(CrawlSource::State),
            Source::State(state) => Some(CrawlSource::State(state.directory())),
            Source::Redis(redis) | Source::Role(_, redis) => {
                Some(CrawlSource::Redis(Box::new(redis.shared())))
            }
        }
    }
}

/// The hosts and patterns that were blocked while the crawl runs.
fn blocked(settings: LiveSettings) -> Vec<String> {
    settings.blocked_hosts.into_iter().chain(settings.blocked_patterns).collect()
}

/// Runs a query on a thread of its own: reading a state blocks.
async fn blocking<T: Send + 'static>(
    query: impl Future<Output = Result<T, crawler::Error>> + Send + 'static,
) -> Result<T, String> {
    let runtime = Handle::current();
    in_thread(move || runtime.block_on(query)).await?.map_err(|error| with_hint(&error))
}

async fn in_thread<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    tokio::task::spawn_blocking(run).await.map_err(|error| format!("cannot reply: {error}"))
}

/// The text of a page, in UTF-8 and without control characters that a terminal or editor would obey.
fn as_text(body: Vec<u8>) -> String {
    let shown = &body[..body.len().min(MAX_SHOWN_BYTES)];
    let utf8 = crawler::internal::html::charset::Charset::new(None, shown).utf8();
    let mut text = String::from_utf8_lossy(&utf8).into_owned();
    text.truncate(text.floor_char_boundary(MAX_SHOWN_BYTES));
    let is_obeyed = |char: char| char.is_control() && !matches!(char, '\n' | '\t');
    text = text.replace("\r\n", "\n").replace(is_obeyed, "\u{fffd}");
    if body.len() > MAX_SHOWN_BYTES {
        text.push_str("\n… (the rest is left out)\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_text_has_no_control_characters_but_lines_and_tabs() {
        let text = as_text(b"<p>a\x1b[2J\x07b\tc\r\nd\x00\re".to_vec());
        assert_eq!(text, "<p>a\u{fffd}[2J\u{fffd}b\tc\nd\u{fffd}\u{fffd}e");
    }
}
