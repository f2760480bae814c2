//! Invalid files and variables: each is reported with its place, and nothing is fetched.

use std::fs::{self, File};

use testweb::Site;

use crate::common::serve;
use crate::config::Configured;

/// The error of a crawl with this config file and these variables, without the help to read.
#[track_caller]
fn error_of(file: &str, variables: &[(&str, &str)]) -> String {
    let web = serve(Site::new().page("/", "x"));
    let configured = Configured::new(file);
    let line = format!("crawl {} --config crawler.toml", web.url("/"));
    let rejected = configured.run_with(&line, variables).expect(2);
    assert_eq!((web.hits(), rejected.stdout.as_str()), (0, ""), "{file}");
    let message = rejected.stderr.strip_prefix("crawler: ").unwrap();
    let end = message.find("; try 'crawler").or_else(|| message.find(" Try 'crawler"));
    message[..end.unwrap_or_else(|| panic!("{message}"))].to_owned()
}

#[test]
fn unknown_key_is_refused_with_its_line_and_a_suggestion() {
    for (file, error) in [
        ("delya = 1", "crawler.toml:1: unknown key 'delya'; did you mean 'delay'?"),
        ("\n\n[crawl]\nmax_pages = 1", "crawler.toml:4: unknown key 'max_pages'; did you mean 'max-pages'?"),
        ("--delay = 1", "crawler.toml:1: unknown key '--delay'; did you mean 'delay'?"),
        ("[crwal]\ndelay = 1", "crawler.toml:1: unknown key 'crwal'; did you mean 'crawl'?"),
        ("[politeness]\ndelay = 1", "crawler.toml:1: unknown key 'politeness'"),
        ("[crawl.politeness]\ndelay = 1", "crawler.toml:1: unknown key 'politeness'"),
        (
            "[worker]\nstate = 'x'",
            "crawler.toml:2: [worker] has no key 'state'; it is a key of [crawl], [check], [show] and [why]",
        ),
        ("zebra = 1\nabacus = 1", "crawler.toml:1: unknown key 'zebra'"),
        ("config = 'x'", "crawler.toml:1: a config file cannot name another one"),
        ("help = true", "crawler.toml:1: unknown key 'help'"),
        // A table that this command does not use.
        ("[purge]\nforec = true", "crawler.toml:2: unknown key 'forec'; did you mean 'force'?"),
    ] {
        assert_eq!(error_of(file, &[]), error, "{file}");
    }
}

#[test]
fn wrong_type_is_refused_with_what_is_expected() {
    for (file, error) in [
        ("quiet = 'yes'", "crawler.toml:1: quiet must be true or false, not a string"),
        ("[crawl]\n\ndelay = true", "crawler.toml:3: delay must be a string or a number, not true"),
        ("delay = ['1s']", "crawler.toml:1: delay must be a string or a number, not an array"),
        ("delay = 2026-01-01", "crawler.toml:1: delay must be a string or a number, not a date or time"),
        ("delay.s = 1", "crawler.toml:1: delay must be a string or a number, not a table"),
        ("exclude = false", "crawler.toml:1: exclude must be a string or an array of strings, not false"),
        ("exclude = ['a', true]", "crawler.toml:1: exclude must be an array of strings; it contains true"),
        (
            "crawl = 'news'",
            "crawler.toml:1: [crawl] must be a table of options, not a string; set the name of a crawl as 'crawl' in the tables of the commands",
        ),
    ] {
        assert_eq!(error_of(file, &[]), error, "{file}");
    }
}

#[test]
fn invalid_value_is_reported_with_its_place_and_not_as_an_option() {
    let time = "must be a time like 0, 250ms, 2s or 1m, at most 24h";
    for (file, variables, error) in [
        ("\ndelay = 'abc'", &[][..], format!("crawler.toml:2: delay = \"abc\": {time}")),
        ("", &[("CRAWLER_DELAY", "abc")], format!("CRAWLER_DELAY=abc: {time}")),
        ("exclude = ['x', 'a(']", &[], "crawler.toml:1: exclude = \"a(\": must be a regular expression: unclosed group".into()),
        ("max-pages = -1", &[], "crawler.toml:1: max-pages = \"-1\": must not be negative; give a whole number from 1 to 1,000,000,000,000".into()),
        ("scope = 'all'", &[], "crawler.toml:1: scope = \"all\": must be any, domain, host or prefix".into()),
        ("quiet = true\nverbose = true", &[], "crawler.toml:1: quiet cannot be used with verbose (crawler.toml:2)".into()),
        ("quiet = true", &[("CRAWLER_CONTACT", "me")], "CRAWLER_CONTACT is not a URL: relative URL without a base; give an absolute URL".into()),
        ("[crawl]\nrobots-token = 'other'", &[], "crawler.toml:2: robots-token is invalid: ".into()),
        ("[crawl]\ncrawl = 'a b'", &[], "crawler.toml:2: crawl = \"a b\": cannot be the name of a crawl".into()),
    ] {
        let actual = error_of(file, variables);
        assert!(actual.starts_with(&error), "{actual}\n{error}");
    }
}

#[test]
fn command_line_is_reported_first_and_help_needs_no_valid_file() {
    let configured = Configured::new("delya = 1");
    let rejected = configured.run("crawl http://a.test/ --delay x --config crawler.toml").expect(2);
    assert!(rejected.stderr.contains("invalid value 'x' for --delay"), "{}", rejected.stderr);
    for line in ["crawl --help", "help crawl", "--version", "completions bash"] {
        configured.run_with(line, &[("CRAWLER_CONFIG", "crawler.toml")]).expect(0);
    }
    let rejected = configured.run_with("crawl http://a.test/", &[("CRAWLER_CONFIG", "none.toml")]).expect(2);
    let error = "crawler: cannot read the config file 'none.toml' (CRAWLER_CONFIG): No such file";
    assert!(rejected.stderr.starts_with(error), "{}", rejected.stderr);
}

#[test]
fn file_that_cannot_be_a_config_file_is_refused() {
    let configured = Configured::new("");
    fs::create_dir(configured.path("directory")).unwrap();
    fs::write(configured.path("latin1"), b"quiet = true\n# caf\xe9\n").unwrap();
    File::create(configured.path("huge")).unwrap().set_len(1 << 30).unwrap();
    fs::write(configured.path("syntax"), "[crawl]\ndelay 1\n").unwrap();
    fs::write(configured.path("twice"), "delay = 1\ndelay = 2\n").unwrap();
    fs::write(configured.path("deep"), format!("exclude = {}", "[".repeat(100_000))).unwrap();
    for (file, error) in [
        ("directory", "cannot read the config file 'directory' (--config): Is a directory"),
        ("none", "cannot read the config file 'none' (--config): No such file"),
        ("latin1", "cannot read the config file 'latin1' (--config): line 2 is not UTF-8; save it as UTF-8"),
        ("huge", "cannot read the config file 'huge' (--config): it is larger than 1 MB"),
        ("/dev/zero", "cannot read the config file '/dev/zero' (--config): it is larger than 1 MB"),
        ("syntax", "syntax:2: not valid TOML: "),
        ("twice", "twice:2: not valid TOML: duplicate key"),
        ("deep", "deep:1: not valid TOML: "),
    ] {
        let rejected = configured.run(&format!("crawl http://a.test/ --config {file}")).expect(2);
        assert!(rejected.stderr.starts_with(&format!("crawler: {error}")), "{}", rejected.stderr);
        assert_eq!(rejected.stderr.lines().count(), 1, "{}", rejected.stderr);
        assert!(rejected.peak_rss < 200 << 20, "{file}: {} bytes", rejected.peak_rss);
    }
}
