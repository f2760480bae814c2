//! The seeds of a crawl and the options that were given, as on a command line, without secrets.

use std::time::Duration;

use crawler::internal::origin::without_credentials;
use crawler::internal::time_text::time_text;
use serde::Serialize;
use serde_json::{Map, Value};
use url::Url;

use super::content::Listed;
use crate::args::settings::{MASK, shown};
use crate::args::{CrawlOptions, FetchArgs};
use crate::format;
use crate::values::{MAX_COUNT, MAX_LARGE_SIZE};

/// How many seeds are listed.
const MAX_SEEDS: usize = 1_000;

/// The longest value of an option, in bytes.
const MAX_VALUE_BYTES: usize = 500;

/// What a report does not show: what one process prints, and what is no option.
const LEFT_OUT: [&str; 8] =
    ["seeds", "check", "progress", "summary", "report", "verbose", "quiet", "overwrite"];

/// The seeds of a crawl, and the options that were given.
#[derive(Debug, Clone, Default)]
pub struct GivenOptions {
    pub seeds: Listed<String>,
    pub options: Vec<(String, String)>,
}

impl GivenOptions {
    /// The part of these options that differs from the defaults.
    pub fn of_crawl(options: &CrawlOptions) -> GivenOptions {
        let mut named =
            CrawlOptions::defaults().map(|defaults| given(options, &defaults)).unwrap_or_default();
        let mut secret = options.fetch.login.names();
        secret.extend(options.missing_logins());
        if options.forgotten_proxy || options.fetch.proxy.explicit().is_some() {
            secret.push("--proxy".into());
        }
        secret.sort_unstable();
        secret.dedup();
        named.extend(secret.into_iter().map(|name| (name, MASK.into())));
        GivenOptions { seeds: seeds(options.seeds.iter().map(String::as_str)), options: named }
    }

    /// The same of a classic crawl: the seed, the options for fetching that differ from their defaults, and others.
    pub fn of_classic(
        seed: &Url,
        fetch: &FetchArgs,
        defaults: Option<&FetchArgs>,
        others: Vec<(String, String)>,
    ) -> GivenOptions {
        let mut options = others;
        options.extend(defaults.map(|defaults| given(fetch, defaults)).unwrap_or_default());
        let mut secret = fetch.login.names();
        secret.extend(fetch.proxy.explicit().map(|_| "--proxy".into()));
        options.extend(secret.into_iter().map(|name| (name, MASK.into())));
        GivenOptions { seeds: seeds([seed.as_str()]), options }
    }
}

fn seeds<'s>(seeds: impl IntoIterator<Item = &'s str>) -> Listed<String> {
    let mut listed = Listed::default();
    for seed in seeds {
        listed.total += 1;
        if listed.rows.len() < MAX_SEEDS
            && let Ok(url) = Url::parse(seed)
        {
            listed.rows.push(without_credentials(&url).into());
        }
    }
    listed
}

/// The options that differ from their defaults.
fn given<T: Serialize>(options: &T, defaults: &T) -> Vec<(String, String)> {
    let to_json = |options: &T| match serde_json::to_value(options) {
        Ok(Value::Object(object)) => object,
        _ => Map::new(),
    };
    let (options, defaults) = (to_json(options), to_json(defaults));
    let is_given = |(name, value): &(&String, &Value)| {
        !LEFT_OUT.contains(&name.as_str()) && defaults.get(*name) != Some(value)
    };
    let mut given = Vec::new();
    for (name, value) in options.iter().filter(is_given) {
        let name = if name == "seed-files" { "seeds" } else { name };
        let values = match value {
            Value::Array(values) => values.iter().collect(),
            value => vec![value],
        };
        given.extend(values.into_iter().map(|value| (format!("--{name}"), text(name, value))));
    }
    given
}

/// A value as it is shown.
fn text(name: &str, value: &Value) -> String {
    let text = match value {
        Value::String(text) => shown(name, text).0,
        Value::Null => "default".into(),
        // A flag has no value.
        Value::Bool(true) => String::new(),
        Value::Number(number) => match number.as_u64() {
            Some(MAX_COUNT | MAX_LARGE_SIZE) => "unlimited".into(),
            Some(bytes) if name.ends_with("-bytes") => format::bytes(bytes),
            _ => number.to_string(),
        },
        value => match serde_json::from_value::<Duration>(value.clone()) {
            Ok(time) => time_text(time),
            Err(_) => value.to_string(),
        },
    };
    text[..text.floor_char_boundary(MAX_VALUE_BYTES)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::testing::parse;

    #[test]
    fn options_are_as_given_and_secrets_are_not_shown() {
        let options = parse(
            "http://me:sesame@a.test/ http://b.test/ --max-pages 500 --max-bytes 3MB --delay 250ms --ignore-robots \
             --include x --include y --contact https://me:sesame@c.test/ --proxy http://me:sesame@p.test \
             --header Authorization:sesame --bearer-token sesame --pagerank-url http://me:sesame@r.test/ --seeds list.txt",
        );
        let given = GivenOptions::of_crawl(&options);
        assert_eq!(
            (given.seeds.rows.join(" "), given.seeds.total),
            ("http://a.test/ http://b.test/".into(), 2)
        );
        let shown = given.options.iter().map(|(name, value)| format!("{name} {value}"));
        let shown: Vec<String> = shown.map(|option| option.trim_end().to_owned()).collect();
        for option in [
            "--max-pages 500",
            "--max-bytes 3.0 MB",
            "--delay 250ms",
            "--ignore-robots",
            "--include x",
            "--include y",
            "--proxy ***",
            "--header ***",
            "--seeds list.txt",
        ] {
            assert!(shown.iter().any(|shown| shown == option), "{option}: {shown:?}");
        }
        assert!(!format!("{given:?}").contains("sesame"), "{given:?}");
        assert!(!shown.iter().any(|option| option.starts_with("--timeout")), "{shown:?}");
    }
}
