//! What `crawler crawl` notes in a crawl's state, so that `crawler resume` and `crawler why` know what it was told.

use std::path::Path;

use serde::{Deserialize, Serialize};
use url::Url;

use crate::args::CrawlOptions;

/// The options of a crawl, and what of them is not written down.
#[derive(Serialize, Deserialize)]
pub struct Note {
    /// The version that wrote it; also what tells it from notes of others.
    crawler: String,
    /// The hosts that are to be told a user name and password, which are not here.
    credentials: Vec<String>,
    options: CrawlOptions,
}

impl Note {
    /// Of a crawl with these options.
    pub fn of(options: &CrawlOptions) -> Note {
        let urls = options.seeds.iter().chain(&options.pagerank_url);
        let mut credentials = options.forgotten_credentials.clone();
        for url in urls.filter_map(|text| Url::parse(text).ok()) {
            let host = url.host_str().unwrap_or_default().to_owned();
            if (url.password().is_some() || !url.username().is_empty()) && !credentials.contains(&host) {
                credentials.push(host);
            }
        }
        Note { crawler: env!("CARGO_PKG_VERSION").into(), credentials, options: options.clone() }
    }

    /// As it is kept.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Without its options a crawl can still be resumed by its whole command.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// The options of the crawl in a directory, whose note is this.
    pub fn read(note: &[u8], directory: &Path) -> Result<CrawlOptions, String> {
        let place = directory.display();
        let foreign = || {
            format!(
                "the crawl in '{place}' was not begun by this command but by a program that uses the library; go on \
                 with that program"
            )
        };
        let value: serde_json::Value = serde_json::from_slice(note).map_err(|_| foreign())?;
        let version = value.get("crawler").and_then(|version| version.as_str()).ok_or_else(foreign)?;
        let note: Note = serde_json::from_value(value.clone()).map_err(|error| {
            format!(
                "the options noted in '{place}' by version {version} are not those of this version ({error}); go on \
                 with that version, or give the whole command again"
            )
        })?;
        Ok(CrawlOptions { forgotten_credentials: note.credentials, ..note.options })
    }
}
