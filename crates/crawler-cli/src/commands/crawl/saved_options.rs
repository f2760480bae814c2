//! The options that `crawler crawl` saves with a crawl, for `crawler resume`, `crawler why` and the roles.

use std::fmt::Display;

use serde::{Deserialize, Serialize};
use url::Url;

use crate::args::{CrawlOptions, ProgressForm, has_credentials};

/// The options of a crawl. The serialized names are part of the state's format.
#[derive(Serialize, Deserialize)]
pub struct SavedOptions {
    /// The version that saved them. Metadata of other programs has no such field.
    #[serde(rename = "crawler")]
    version: String,
    /// The hosts whose user name and password are not saved.
    #[serde(rename = "credentials")]
    hosts_with_credentials: Vec<String>,
    /// The options for logins that were given. Their values are not saved.
    #[serde(default)]
    logins: Vec<String>,
    /// Whether a proxy was given, which is not saved either.
    #[serde(rename = "proxy", default)]
    has_proxy: bool,
    options: CrawlOptions,
    /// The seeds with their user names and passwords, for the workers of a distributed crawl, which have no other source.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    seeds: Vec<String>,
}

/// The options that say what a crawl starts from. Its processes need not restart when they change.
const SOURCES: [&str; 3] = ["seeds", "seed-files", "sitemap"];

impl SavedOptions {
    /// For a crawl with these options, without user names and passwords.
    pub fn new(options: &CrawlOptions) -> SavedOptions {
        let urls = options.seeds.iter().chain(&options.pagerank_url);
        let mut hosts = options.forgotten_credentials.clone();
        for url in urls.filter_map(|text| Url::parse(text).ok()) {
            let host = url.host_str().unwrap_or_default().to_owned();
            if (url.password().is_some() || !url.username().is_empty()) && !hosts.contains(&host) {
                hosts.push(host);
            }
        }
        let mut logins = options.fetch.login.names();
        logins.extend(options.missing_logins());
        logins.sort_unstable();
        let proxy = &options.fetch.proxy;
        let has_proxy = proxy.explicit().is_some() || options.forgotten_proxy && !proxy.is_direct();
        let version = env!("CARGO_PKG_VERSION").into();
        let (options, seeds) = (options.clone(), Vec::new());
        SavedOptions { version, hosts_with_credentials: hosts, logins, has_proxy, options, seeds }
    }

    /// For a distributed crawl. It includes user names and passwords: only clients with Redis's own password can read it,
    /// and no command prints it. What one process prints is not a setting of the crawl.
    pub fn distributed(options: &CrawlOptions) -> SavedOptions {
        let seeds = options.seeds.clone();
        let mut options = options.clone();
        (options.fetch.quiet, options.fetch.verbose) = (false, false);
        (options.progress, options.summary, options.report) = (ProgressForm::Auto, None, None);
        SavedOptions { seeds, ..SavedOptions::new(&options) }
    }

    /// Whether the processes of a crawl with the `earlier` metadata need not restart for these options: only seeds and sitemaps
    /// differ, and the new seeds have no user name, password or cookie.
    pub fn adds_only_sources_to(&self, earlier: &[u8]) -> bool {
        let without_public_sources = |metadata: &[u8]| {
            let mut value: serde_json::Value = serde_json::from_slice(metadata).ok()?;
            let options = value.get_mut("options")?.as_object_mut()?;
            SOURCES.iter().for_each(|name| drop(options.remove(*name)));
            let seeds = value.as_object_mut()?.remove("seeds");
            let mut seeds: Vec<String> =
                serde_json::from_value(seeds.unwrap_or_default()).unwrap_or_default();
            seeds.retain(|seed| has_credentials(seed));
            Some((value, seeds))
        };
        let ours = without_public_sources(&self.to_bytes());
        // Each seed's host gets the cookie.
        let has_cookie = self.logins.iter().any(|name| name == "--cookie");
        !has_cookie && ours.is_some() && ours == without_public_sources(earlier)
    }

    /// The serialized form.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Without saved options a crawl can still be resumed by its full command.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Whether the command saved the metadata of a crawl, in this or another version.
    pub fn is_from_command(metadata: &[u8]) -> bool {
        let value: Option<serde_json::Value> = serde_json::from_slice(metadata).ok();
        value.is_some_and(|value| value.get("crawler").is_some_and(serde_json::Value::is_string))
    }

    /// The options in the metadata of a crawl. `crawl` is its directory or name, for messages.
    pub fn read(metadata: &[u8], crawl: impl Display) -> Result<CrawlOptions, String> {
        let foreign = || {
            format!(
                "cannot resume the crawl in '{crawl}': a program that uses the library started it; resume it with that \
                 program"
            )
        };
        let value: serde_json::Value = serde_json::from_slice(metadata).map_err(|_| foreign())?;
        let version = value.get("crawler").and_then(|version| version.as_str()).ok_or_else(foreign)?;
        let saved: SavedOptions = serde_json::from_value(value.clone()).map_err(|error| {
            format!(
                "cannot read the options of the crawl in '{crawl}': version {version} saved them ({error}); resume with \
                 that version, or run the full command again"
            )
        })?;
        let options = CrawlOptions {
            forgotten_logins: saved.logins,
            forgotten_proxy: saved.has_proxy,
            ..saved.options
        };
        if !saved.seeds.is_empty() {
            return Ok(CrawlOptions { seeds: saved.seeds, ..options });
        }
        Ok(CrawlOptions { forgotten_credentials: saved.hosts_with_credentials, ..options })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct TestCli {
        #[command(flatten)]
        options: CrawlOptions,
    }

    fn saved(arguments: &str) -> SavedOptions {
        let arguments = std::iter::once("crawl").chain(arguments.split_whitespace());
        let TestCli { options } =
            TestCli::try_parse_from(arguments).map_err(|error| error.to_string()).unwrap();
        SavedOptions::distributed(&options)
    }

    #[test]
    fn processes_restart_for_options_and_secrets_but_not_for_seeds() {
        let earlier = saved("http://a.test/ http://me:secret@b.test/ --delay 2").to_bytes();
        let is_in_place = |more: &str| saved(more).adds_only_sources_to(&earlier);
        assert!(is_in_place("http://a.test/ http://me:secret@b.test/ http://c.test/ --delay 2"));
        assert!(is_in_place("http://me:secret@b.test/ --delay 2 --seeds list --sitemap http://a.test/s.xml"));
        for more in [
            "http://a.test/ http://me:secret@b.test/ --delay 3",
            "http://a.test/ http://me:other@b.test/ --delay 2",
            "http://a.test/ http://me:secret@b.test/ http://me:secret@c.test/ --delay 2",
            "http://a.test/ http://me:secret@b.test/ --delay 2 --cookie a=b",
        ] {
            assert!(!is_in_place(more), "{more}");
        }
    }
}
