//! The mistakes of the first minutes: each error names the mistake and the remedy in one line.

use crate::common::binary;

/// Runs the binary in an empty directory, without variables that set options, and returns its standard error. Checks
/// that it exits with 2, prints nothing to standard output and creates no file.
#[track_caller]
fn rejected(arguments: &[&str]) -> String {
    let directory = tempfile::tempdir().unwrap();
    let mut command = binary();
    command.env_remove("CRAWLER_REDIS").env_remove("CRAWLER_CRAWL").args(arguments).current_dir(&directory);
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), &b""[..]), "{stderr}");
    assert!(std::fs::read_dir(&directory).unwrap().next().is_none());
    stderr
}

/// Checks that the command line is rejected with exactly this line.
#[track_caller]
fn error_is(line: &str, expected: &str) {
    let arguments: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(rejected(&arguments), format!("crawler: {expected}\n"), "crawler {line}");
}

#[test]
fn no_arguments_print_a_short_usage() {
    let usage = rejected(&[]);
    assert!(usage.starts_with("Usage: crawler [OPTIONS] <seedURL> <pageDirectory> <maxDepth>\n"), "{usage}");
    for command in ["crawler crawl https://", "crawler https://example.org/ pages 2", "crawler demo"] {
        assert!(usage.contains(command), "{usage}");
    }
    assert!(usage.ends_with("run 'crawler --help'.\n") && usage.lines().count() < 15, "{usage}");
}

#[test]
fn misspelt_command_is_corrected() {
    for (line, command, meant) in [
        ("statsu", "statsu", "status"),
        ("statsu --json", "statsu", "status"),
        ("craw https://a.test/ --max-pages 5", "craw", "crawl"),
        ("craw https://a.test/ pages", "craw", "crawl"),
        ("resmue dir", "resmue", "resume"),
        ("wrker dir 2", "wrker", "worker"),
        ("hlep", "hlep", "help"),
    ] {
        error_is(line, &format!("unknown command '{command}'; did you mean '{meant}'? Try 'crawler --help'"));
    }
    error_is("fetch https://a.test/", "unknown command 'fetch'; try 'crawler --help'");
    error_is("help fetch", "unknown command 'fetch'; try 'crawler --help'");
}

#[test]
fn command_after_options_is_reported() {
    for line in ["-v crawl http://a.test/", "--delay 2s crawl http://a.test/ --max-pages 5"] {
        error_is(line, "'crawl' must be the first argument; put options after it; try 'crawler --help'");
    }
}

#[test]
fn url_without_a_scheme_is_explained() {
    for (seed, url) in [
        ("example.org", "https://example.org/"),
        ("www.example.org/a?b=c", "https://www.example.org/a?b=c"),
        ("localhost:8000", "http://localhost:8000/"),
        ("127.0.0.1/", "http://127.0.0.1/"),
    ] {
        let expected = format!("not a URL: '{seed}'; did you mean {url}?");
        error_is(&format!("why {seed} --state x"), &format!("{expected} Try 'crawler why --help'"));
    }
}

#[test]
fn password_in_an_invalid_seed_is_not_printed() {
    for seed in ["me:secret@example.org", "me:secret@a.test:x/", "http://me:secret@a.test:x/", "me@secret"] {
        for arguments in [&["crawl", seed][..], &[seed, "pages", "2"], &["show", seed]] {
            let error = rejected(arguments);
            assert!(!error.contains("secret"), "{error}");
        }
    }
}

#[test]
fn option_of_another_command_names_that_command() {
    for (line, option, command) in [
        ("http://a.test/ pages 2 --max-pages 5", "--max-pages", "crawl"),
        ("http://a.test/ pages 2 --state=x", "--state", "crawl"),
        ("collect a --module words", "--module", "crawl"),
        ("status --redis redis://a.test/ --force", "--force", "purge"),
        ("worker --redis redis://a.test/ --workers 3", "--workers", "crawl"),
        ("frontier --redis redis://a.test/ --summary x", "--summary", "crawl"),
        ("submit http://a.test/ --redis redis://a.test/ --progress json", "--progress", "crawl"),
    ] {
        error_is(
            line,
            &format!("{option} is an option of 'crawler {command}'; try 'crawler {command} --help'"),
        );
    }
}

#[test]
fn archives_and_lists_of_urls_have_other_options_in_the_classic_mode() {
    error_is(
        "http://a.test/ pages 2 --module warc=x",
        "--module is an option of 'crawler crawl'; in the classic mode, --warc FILE writes a web archive, and --urls FILE all URLs; \
         try 'crawler --help'",
    );
    for name in ["warc", "urls"] {
        error_is(
            &format!("crawl http://a.test/ --{name} x"),
            &format!(
                "--{name} is an option of the classic mode; use --module {name}=FILE; try 'crawler crawl --help'"
            ),
        );
    }
}

#[test]
fn roles_take_the_options_of_the_crawl_from_the_crawl() {
    for option in
        ["--max-pages 3", "--max-time 1h", "--ttl 1h", "--delay 0", "--scope host", "--ignore-robots"]
    {
        for role in ["worker", "frontier"] {
            let name = option.split(' ').next().unwrap();
            error_is(
                &format!("{role} --redis redis://a.test/ {option}"),
                &format!(
                    "{name} is an option of 'crawler crawl' and 'crawler submit'; try 'crawler crawl --help'"
                ),
            );
        }
    }
    error_is(
        "frontier --redis redis://a.test/ --module words",
        "--module is an option of 'crawler crawl', 'crawler worker' and 'crawler submit'; try 'crawler crawl --help'",
    );
}

#[test]
fn only_similar_options_are_suggested() {
    error_is("crawl http://a.test/ --zip x", "unknown option '--zip'; try 'crawler crawl --help'");
    error_is("crawl http://a.test/ --colour", "unknown option '--colour'; try 'crawler crawl --help'");
    error_is(
        "crawl http://a.test/ --max-page 5",
        "unknown option '--max-page'; did you mean '--max-pages'? Try 'crawler crawl --help'",
    );
    error_is(
        "crawl http://a.test/ --user me",
        "unknown option '--user'; did you mean '--user-agent'? Try 'crawler crawl --help'",
    );
    error_is(
        "crawl http://a.test/ --max 5",
        "unknown option '--max'; did you mean '--max-depth', '--max-pages' or '--max-bytes'? \
         Try 'crawler crawl --help'",
    );
    error_is(
        "crawl http://a.test/ --token x",
        "unknown option '--token'; did you mean '--robots-token' or '--bearer-token'? Try 'crawler crawl --help'",
    );
}

#[test]
fn options_of_other_crawlers_are_translated() {
    for (line, option, meant) in [
        ("crawl http://a.test/ --depth 3", "--depth", "'--max-depth'"),
        ("crawl http://a.test/ -l 3", "-l", "'--max-depth'"),
        ("crawl http://a.test/ --level=3", "--level", "'--max-depth'"),
        ("crawl http://a.test/ --no-robots", "--no-robots", "'--ignore-robots'"),
        ("crawl http://a.test/ -o x", "-o", "'--module jsonl=FILE'"),
        ("crawl http://a.test/ --output x", "--output", "'--module jsonl=FILE'"),
        ("crawl http://a.test/ --mirror", "--mirror", "'--module mirror=DIR'"),
        ("crawl http://a.test/ --threads 4", "--threads", "'--workers'"),
        ("crawl http://a.test/ --json", "--json", "'--summary FILE' or '--progress json'"),
        ("crawl http://a.test/ --format json", "--format", "'--summary FILE' or '--progress json'"),
        ("crawl http://a.test/ --limit 9", "--limit", "'--max-pages'"),
        ("crawl http://a.test/ --no-parent", "--no-parent", "'--scope prefix'"),
        ("resume s --no-robots", "--no-robots", "'--ignore-robots'"),
        ("status s --format json", "--format", "'--json'"),
        ("diff s --json", "--json", "'--format json'"),
    ] {
        let command = line.split(' ').next().unwrap();
        let expected =
            format!("unknown option '{option}'; did you mean {meant}? Try 'crawler {command} --help'");
        error_is(line, &expected);
    }
    for (options, remedy) in [
        ("2 --no-robots", "unknown option '--no-robots'; did you mean '--ignore-robots'? Try"),
        ("--depth 2", "unknown option '--depth'; the depth is the third argument; try"),
        ("2 -o x", "unknown option '-o'; the directory is the second argument; try"),
        ("2 --threads 4", "unknown option '--threads'; did you mean '--workers' of 'crawler crawl'? Try"),
    ] {
        error_is(&format!("http://a.test/ pages {options}"), &format!("{remedy} 'crawler --help'"));
    }
    error_is(
        "crawl --version",
        "unknown option '--version'; run 'crawler --version'; try 'crawler crawl --help'",
    );
}

#[test]
fn negative_values_are_rejected_as_such() {
    let time = "a time like 0, 250ms, 2s or 1m, at most 24h";
    for line in ["crawl http://a.test/ --delay -1s", "crawl http://a.test/ --delay=-1s"] {
        let expected = format!("invalid value '-1s' for --delay: must not be negative; give {time}");
        error_is(line, &format!("{expected}; try 'crawler crawl --help'"));
    }
    error_is(
        "http://a.test/ pages -1",
        "invalid value '-1' for maxDepth: must not be negative; give a whole number from 0 to 4,294,967,295; \
         try 'crawler --help'",
    );
    error_is(
        "worker --redis redis://a.test/ --id -1",
        "invalid value '-1' for --id: must not be negative; give a whole number from 0 to 65,535; \
         try 'crawler worker --help'",
    );
    error_is(
        "resume dir --max-bytes -5GB",
        "invalid value '-5GB' for --max-bytes: must not be negative; give a size like 500KB, 50MB or 2GiB, from 1 byte \
         to 1000TB; try 'crawler resume --help'",
    );
}

#[test]
fn missing_argument_is_named_with_the_usage() {
    for (line, missing, usage) in [
        ("crawl", "<URL>...", "crawler crawl [OPTIONS] <URL>..."),
        ("check", "<URL>...", "crawler check [OPTIONS] <URL>..."),
        ("resume", "<DIR>", "crawler resume [OPTIONS] <DIR> [URL]..."),
        (
            "show --state x",
            "<URL>",
            "crawler show [OPTIONS] <URL> --state <DIR> or crawler show [OPTIONS] <URL> --redis <URL> or crawler show [OPTIONS] \
             <URL> --archive <FILE>...",
        ),
        ("worker", "--redis <URL> (or the variable CRAWLER_REDIS)", "crawler worker [OPTIONS] --redis <URL>"),
        (
            "submit -q",
            "--redis <URL> (or the variable CRAWLER_REDIS), <URL>...",
            "crawler submit [OPTIONS] <URL>... --redis <URL>",
        ),
    ] {
        let command = line.split(' ').next().unwrap();
        error_is(line, &format!("missing {missing}; usage: {usage}; try 'crawler {command} --help'"));
    }
    error_is(
        "http://a.test/ pages",
        "missing <maxDepth>; usage: crawler [OPTIONS] <seedURL> <pageDirectory> <maxDepth>; try 'crawler --help'",
    );
    error_is("crawl http://a.test/ --max-pages", "--max-pages needs a value; try 'crawler crawl --help'");
    error_is(
        "status",
        "missing <DIR> or --redis <URL> (or the variable CRAWLER_REDIS), to select the crawl; try 'crawler status --help'",
    );
    error_is(
        "status --state x",
        "'crawler status' takes the directory without --state; try 'crawler status --help'",
    );
    error_is(
        "why http://a.test/",
        "missing --state <DIR> or --redis <URL>, to select the crawl; try 'crawler why --help'",
    );
}

#[test]
fn conflicting_arguments_are_named() {
    error_is(
        "crawl http://a.test/ --state x --redis redis://a.test/",
        "--state cannot be used with --redis; try 'crawler crawl --help'",
    );
    error_is("collect a --of b", "PART cannot be used with --of; try 'crawler collect --help'");
    error_is(
        "frontier http://a.test/ --redis redis://a.test/",
        "'crawler frontier' takes no URLs; add them with 'crawler submit'; try 'crawler frontier --help'",
    );
}
