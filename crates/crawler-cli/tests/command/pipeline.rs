//! Runs `crawler crawl` as `common` runs the classic crawl, with the same checks of what it prints.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use testweb::Web;

use crate::common::{Ended, Running, binary};

/// A crawl to be. Unless told otherwise it asks without delay.
pub struct Pipeline {
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    shell: Option<String>,
}

impl Pipeline {
    /// A crawl that finds every host on loopback, and asks for no robots.txt.
    pub fn of(seed: impl Into<String>) -> Pipeline {
        Pipeline::bare(seed).with("--resolve *=127.0.0.1 --allow-private --ignore-robots")
    }

    /// A crawl with no option but the delay.
    pub fn bare(seed: impl Into<String>) -> Pipeline {
        Pipeline { arguments: vec!["crawl".into(), seed.into()], environment: Vec::new(), shell: None }
    }

    /// Further arguments, written as in a shell, without quoting.
    pub fn with(mut self, options: &str) -> Pipeline {
        self.arguments.extend(options.split_whitespace().map(str::to_owned));
        self
    }

    /// One further argument, which may hold anything.
    pub fn with_one(mut self, option: impl Into<String>) -> Pipeline {
        self.arguments.push(option.into());
        self
    }

    /// A module that writes to a path.
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
                shell.args(["-c", script, "sh", env!("CARGO_BIN_EXE_crawler")]);
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

/// The objects of a text that has one in each line, and nothing else.
#[track_caller]
pub fn objects(lines: &str) -> Vec<Value> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect()
}

/// The objects of a file.
#[track_caller]
pub fn objects_in(path: &Path) -> Vec<Value> {
    objects(&fs::read_to_string(path).unwrap())
}

/// The URLs of these pages, of which each is there once.
#[track_caller]
pub fn urls(pages: &[Value]) -> BTreeSet<String> {
    let urls: BTreeSet<String> = pages.iter().map(|page| page["url"].as_str().unwrap().to_owned()).collect();
    assert_eq!(urls.len(), pages.len(), "a page is there twice");
    urls
}

/// The paths of these pages, sorted.
pub fn paths(web: &Web, pages: &[Value]) -> Vec<String> {
    urls(pages).iter().map(|url| url.replace(&web.url(""), "")).collect()
}

/// The counts of an object of progress or summary add up, and these are its outcomes.
#[track_caller]
pub fn adds_up(object: &Value) -> BTreeMap<String, u64> {
    let counts =
        |object: &Value| -> BTreeMap<String, u64> { serde_json::from_value(object.clone()).unwrap() };
    let number = |name: &str| object[name].as_u64().unwrap_or_else(|| panic!("{name} of {object}"));
    let outcomes = counts(&object["outcomes"]);
    assert_eq!(outcomes.values().sum::<u64>() + number("outstanding"), number("admitted"), "{object}");
    assert_eq!(outcomes.get("kept").copied().unwrap_or(0), number("pages"), "{object}");
    let links = &object["links"];
    let fates = links["new"].as_u64().unwrap() + links["known"].as_u64().unwrap();
    let refused: u64 = counts(&links["refused"]).values().sum();
    assert_eq!(links["found"].as_u64().unwrap(), fates + refused, "{object}");
    outcomes
}
