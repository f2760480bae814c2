//! What `crawler crawl` notes in a crawl's state, so that `crawler resume` and `crawler why` know what it was told.

use std::fmt::Display;

use serde::{Deserialize, Serialize};
use url::Url;

use crate::args::CrawlOptions;

/// The options of a crawl, and what of them is not written down.
#[derive(Serialize, Deserialize)]
pub struct SavedOptions {
    /// The version that wrote it; also what tells it from notes of others.
    crawler: String,
    /// The hosts that are to be told a user name and password, which are not here.
    credentials: Vec<String>,
    options: CrawlOptions,
    /// The seeds with their user names and passwords, where those who work on the crawl learn them from nobody else.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    seeds: Vec<String>,
}

impl SavedOptions {
    /// Of a crawl with these options.
    pub fn of(options: &CrawlOptions) -> SavedOptions {
        let urls = options.seeds.iter().chain(&options.pagerank_url);
        let mut credentials = options.forgotten_credentials.clone();
        for url in urls.filter_map(|text| Url::parse(text).ok()) {
            let host = url.host_str().unwrap_or_default().to_owned();
            if (url.password().is_some() || !url.username().is_empty()) && !credentials.contains(&host) {
                credentials.push(host);
            }
        }
        let crawler = env!("CARGO_PKG_VERSION").into();
        SavedOptions { crawler, credentials, options: options.clone(), seeds: Vec::new() }
    }

    /// Of a crawl that other processes work on, for them alone: it is kept where nobody gets at it without the password
    /// of Redis, and shown nowhere.
    pub fn shared(options: &CrawlOptions) -> SavedOptions {
        SavedOptions { seeds: options.seeds.clone(), ..SavedOptions::of(options) }
    }

    /// As it is kept.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Without its options a crawl can still be resumed by its whole command.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// The options of the crawl in a directory, or of this name, whose note is this.
    pub fn read(note: &[u8], place: impl Display) -> Result<CrawlOptions, String> {
        let foreign = || {
            format!(
                "the crawl in '{place}' was not begun by this command but by a program that uses the library; go on \
                 with that program"
            )
        };
        let value: serde_json::Value = serde_json::from_slice(note).map_err(|_| foreign())?;
        let version = value.get("crawler").and_then(|version| version.as_str()).ok_or_else(foreign)?;
        let note: SavedOptions = serde_json::from_value(value.clone()).map_err(|error| {
            format!(
                "the options noted in '{place}' by version {version} are not those of this version ({error}); go on \
                 with that version, or give the whole command again"
            )
        })?;
        if !note.seeds.is_empty() {
            return Ok(CrawlOptions { seeds: note.seeds, ..note.options });
        }
        Ok(CrawlOptions { forgotten_credentials: note.credentials, ..note.options })
    }
}
