//! Runs `crawler crawl`, with the same checks of its output as in `common`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use testweb::Web;

use crate::common::{Ended, Running, binary, executable};

/// Builds a crawl. By default it has no delay.
pub struct Pipeline {
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    shell: Option<String>,
}

impl Pipeline {
    /// A crawl that resolves every host to loopback and ignores robots.txt.
    pub fn of(seed: impl Into<String>) -> Pipeline {
        Pipeline::bare(seed).with("--resolve *=127.0.0.1 --allow-private --ignore-robots")
    }

    /// A crawl with no option except the delay.
    pub fn bare(seed: impl Into<String>) -> Pipeline {
        Pipeline { arguments: vec!["crawl".into(), seed.into()], environment: Vec::new(), shell: None }
    }

    /// Adds arguments, separated by spaces.
    pub fn with(mut self, options: &str) -> Pipeline {
        self.arguments.extend(options.split_whitespace().map(str::to_owned));
        self
    }

    /// Adds one argument, which may contain spaces.
    pub fn with_one(mut self, option: impl Into<String>) -> Pipeline {
        self.arguments.push(option.into());
        self
    }

    /// Adds a module that writes to a path.
    pub fn module(self, name: &str, path: &Path) -> Pipeline {
        self.with("--module").with_one(format!("{name}={}", path.display()))
    }

    pub fn environment(mut self, name: &str, value: &str) -> Pipeline {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Runs in a shell: `script` uses `"$@"` for the crawler and its arguments.
    pub fn in_shell(mut self, script: &str) -> Pipeline {
        self.shell = Some(script.into());
        self
    }

    pub fn command(&self) -> Command {
        let mut command = match &self.shell {
            None => binary(),
            Some(script) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", script, "sh", &executable()]);
                shell
            }
        };
        command.args(&self.arguments);
        if !self.arguments.iter().any(|argument| argument == "--delay") {
            command.args(["--delay", "0"]);
        }
        command.env_remove("CRAWLER_PAGERANK_KEY");
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    pub fn start(self) -> Running {
        Running::start(self.command(), PathBuf::from("/nowhere"), None)
    }

    pub fn run(self) -> Ended {
        self.start().wait()
    }
}

/// The JSON objects of a text with one per line.
#[track_caller]
pub fn objects(lines: &str) -> Vec<Value> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect()
}

/// The JSON objects of a file.
#[track_caller]
pub fn objects_in(path: &Path) -> Vec<Value> {
    objects(&fs::read_to_string(path).unwrap())
}

/// The URLs of these pages, each of which must occur once.
#[track_caller]
pub fn urls(pages: &[Value]) -> BTreeSet<String> {
    let urls: BTreeSet<String> = pages.iter().map(|page| page["url"].as_str().unwrap().to_owned()).collect();
    assert_eq!(urls.len(), pages.len(), "a page occurs twice");
    urls
}

/// The paths of these pages, sorted.
pub fn paths(web: &Web, pages: &[Value]) -> Vec<String> {
    urls(pages).iter().map(|url| url.replace(&web.url(""), "")).collect()
}

/// Checks that the counts of a progress or summary object add up, and returns the URLs by outcome.
#[track_caller]
pub fn adds_up(object: &Value) -> BTreeMap<String, u64> {
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{value} in {object}"));
    let by_reason = |value: &Value| -> BTreeMap<String, u64> {
        let reasons: BTreeMap<String, u64> = serde_json::from_value(value["by_reason"].clone()).unwrap();
        assert_eq!(number(&value["total"]), reasons.values().sum::<u64>(), "{object}");
        reasons
    };
    let mut outcomes = by_reason(&object["skipped"]);
    outcomes.extend(by_reason(&object["failed"]));
    outcomes.insert("page".into(), number(&object["pages"]));
    let counted = ["redirect:redirects", "checked:checked", "unchanged:unchanged", "not reached:not_reached"];
    let counted = counted.map(|names| names.split_once(':').unwrap());
    let counted = counted.map(|(label, key)| (label.to_owned(), number(&object[key])));
    outcomes.extend(counted.into_iter().filter(|(_, count)| *count > 0));
    let sitemaps = number(&object["sitemaps"]["total"]);
    let requisites = number(&object["requisites"]);
    let total = outcomes.values().sum::<u64>() + sitemaps + requisites + number(&object["pending"]);
    assert_eq!(total, number(&object["admitted"]), "{object}");
    let links = &object["links"];
    let rejected: u64 = by_reason(&links["rejected"]).values().sum();
    assert_eq!(
        number(&links["found"]),
        number(&links["new"]) + number(&links["seen"]) + rejected,
        "{object}"
    );
    outcomes
}
