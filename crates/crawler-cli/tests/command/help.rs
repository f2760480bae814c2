//! The help of every command, as it is printed on a terminal of 80 columns.

use std::process::Stdio;

use crate::common::binary;

const COMMANDS: [&str; 26] = [
    "crawl",
    "check",
    "resume",
    "recrawl",
    "diff",
    "replay",
    "index",
    "wacz",
    "show",
    "why",
    "dashboard",
    "collect",
    "frontier",
    "worker",
    "submit",
    "status",
    "report",
    "health",
    "pause",
    "unpause",
    "change",
    "stop",
    "purge",
    "config",
    "completions",
    "demo",
];

/// The help for these arguments on a terminal with this many columns.
#[track_caller]
fn help(arguments: &[&str], columns: usize) -> String {
    let mut command = binary();
    // Help must not print the values of variables, which can be secret.
    command.env("CRAWLER_REDIS", "redis://:sesame@redis.test/").env("CRAWLER_CRAWL", "news");
    command.args(arguments).env("COLUMNS", columns.to_string()).stdin(Stdio::null());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn help_of_the_classic_crawl() {
    insta::assert_snapshot!("help", help(&["--help"], 80));
}

#[test]
fn help_of_every_command() {
    for command in COMMANDS {
        insta::assert_snapshot!(format!("help_{command}"), help(&[command, "--help"], 80));
    }
}

#[test]
fn help_fits_the_terminal_and_shows_no_secret() {
    for columns in [80, 100, 120] {
        for command in [None].into_iter().chain(COMMANDS.map(Some)) {
            let arguments: Vec<&str> = command.into_iter().chain(["--help"]).collect();
            let text = help(&arguments, columns);
            let longest = text.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(longest <= columns, "{longest} columns of {columns}:\n{text}");
            assert!(!text.contains("sesame") && !text.contains("news"), "{text}");
            assert!(text.contains("\nExit status:\n"), "{text}");
        }
    }
}

#[test]
fn help_comes_in_several_forms() {
    assert_eq!(help(&["-h"], 80), help(&["--help"], 80));
    assert_eq!(help(&["help"], 80), help(&["--help"], 80));
    assert_eq!(help(&["help", "crawl"], 80), help(&["crawl", "--help"], 80));
}

#[test]
fn help_lists_only_options_that_apply() {
    for command in ["frontier", "worker", "submit"] {
        let text = help(&[command, "--help"], 80);
        for option in ["--workers", "--state", "--progress", "--summary"] {
            assert!(!text.contains(option), "{option} is in the help of {command}:\n{text}");
        }
    }
    for (command, option) in [("frontier", "--module"), ("worker", "--max-pages"), ("worker", "--queue-size")]
    {
        assert!(!help(&[command, "--help"], 80).contains(&format!("{option} <")), "{command} {option}");
    }
}

#[test]
fn version_is_printed() {
    let version = format!("crawler {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(help(&["--version"], 80), version);
    assert_eq!(help(&["-V"], 80), version);
}
