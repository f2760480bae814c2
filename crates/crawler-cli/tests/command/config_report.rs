//! `crawler config`: what it prints, and that it can be used as a config file.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::executable;
use crate::config::{Configured, ended};

/// The commands whose options can be set in a file.
const COMMANDS: [&str; 13] = [
    "classic", "crawl", "resume", "show", "why", "collect", "frontier", "worker", "submit", "status", "stop",
    "purge", "demo",
];

#[test]
fn report_names_the_origin_of_each_option() {
    let configured = Configured::new("quiet = true\n[crawl]\nmax-pages = 5\nexclude = ['a', 'b']\n");
    let variables = [("CRAWLER_DELAY", "3s"), ("CRAWLER_FOLLOW_DUPLICATES", "1"), ("CRAWLER_MAX_PAGES", "")];
    let line = "config crawl http://a.test/ --config crawler.toml --module words --scope host";
    let report = configured.run_with(line, &variables).expect(0);
    assert_eq!(report.stderr, "");
    for line in [
        "# Config file: crawler.toml",
        "[crawl]",
        "module = [\"words\"]  # command line",
        "scope = \"host\"  # command line",
        "delay = \"3s\"  # CRAWLER_DELAY",
        "follow-duplicates = true  # CRAWLER_FOLLOW_DUPLICATES",
        "max-pages = 5  # crawler.toml:3",
        "exclude = [\"a\", \"b\"]  # crawler.toml:4",
        "quiet = true  # crawler.toml:1",
        "# timeout = \"10s\"  # default",
        "# summary = \"FILE\"  # not set",
    ] {
        assert!(report.stdout.lines().any(|printed| printed == line), "{line} is not in\n{}", report.stdout);
    }
    let overview = configured.run_with("config --config crawler.toml", &variables).expect(0).stdout;
    let classic = "[classic]\ndelay = \"3s\"  # CRAWLER_DELAY\nquiet = true  # crawler.toml:1\n";
    assert!(overview.contains(classic), "{overview}");
    assert!(
        overview.contains("[stop]") && !overview.contains("[purge]"),
        "only those that have it: {overview}"
    );
    for line in ["config crawl --config crawler.toml -v", "config --config crawler.toml crawl -v"] {
        let report = configured.run(line).expect(0).stdout;
        assert!(report.contains("\nverbose = true  # command line\n"), "{report}");
        assert!(report.contains("\n# quiet = true  # not set\n"), "{report}");
    }
    for (line, error) in [
        ("config crawl --delay x", "invalid value 'x' for --delay: "),
        ("config crwal", "unknown command 'crwal'; did you mean 'crawl'?"),
        ("config completions", "'completions' has no options that can be set; "),
        ("config config", "'config' has no options that can be set; "),
    ] {
        let rejected = configured.run(line).expect(2);
        assert!(rejected.stderr.contains(error), "{line}: {}", rejected.stderr);
    }
    for line in ["config classic --delay 1", "config http://a.test/ pages 2 --delay 1"] {
        let report = configured.run(line).expect(0).stdout;
        assert!(
            report.contains("[classic]\n") && report.contains("\ndelay = 1  # command line\n"),
            "{report}"
        );
    }
    // A pipe can be read once.
    let mut shell = Command::new("bash");
    let script = r#""$0" config --config <(cat crawler.toml)"#;
    shell.current_dir(configured.path("")).args(["-c", script, &executable()]);
    let piped = ended(shell).expect(0).stdout;
    assert!(piped.contains("[classic]\nquiet = true") && piped.contains("[crawl]\nmax-pages = 5"), "{piped}");
    let nothing = configured.run("config").expect(0).stdout;
    assert!(nothing.contains("# No option is set.\n"), "{nothing}");
}

#[test]
fn secrets_are_not_printed() {
    let file = "header = ['X-Key: sesame']\n[crawl]\npagerank-url = 'https://me:sesame@ranks.test/'\nauth = 'me:sesame'\n";
    let configured = Configured::new(file);
    let variables = [("CRAWLER_REDIS", "redis://:sesame@redis.test/"), ("CRAWLER_PAGERANK_KEY", "sesame")];
    let more = [("CRAWLER_REDIS_PASSWORD", "sesame")];
    let variables: Vec<_> = variables.into_iter().chain(more).collect();
    for line in [
        "config --config crawler.toml",
        "config crawl --config crawler.toml",
        "config worker --config crawler.toml --redis redis://me:sesame@redis.test/",
        "config crawl --config crawler.toml --redis redis://me:sesame@redis.test/",
    ] {
        let report = configured.run_with(line, &variables).expect(0);
        assert!(!report.stdout.contains("sesame"), "{}", report.stdout);
        assert!(report.stdout.contains("***@redis.test/"), "{}", report.stdout);
        assert!(
            report.stdout.contains("\n# header = [\"X-Key: ***\"]  # crawler.toml:1; not shown\n"),
            "{}",
            report.stdout
        );
        assert!(report.stdout.contains("# CRAWLER_PAGERANK_KEY is set.\n"), "{}", report.stdout);
        fs::write(configured.path("report.toml"), &report.stdout).unwrap();
        configured.run("config --config report.toml").expect(0);
    }
}

/// The settings in a report, without their origins.
fn settings(report: &str) -> Vec<String> {
    let settings = report.lines().filter(|line| !line.starts_with('#') && line.contains(" = "));
    settings.map(|line| line.rsplit_once("  # ").unwrap().0.to_owned()).collect()
}

#[test]
fn report_can_be_used_as_a_config_file() {
    let configured = Configured::new("");
    let line = "--delay 1.5s --max-pages 7 --exclude a\\d\"b --exclude 'ü --follow-duplicates --similarity 0.25 \
                --resolve *.a.test=::1 --user-agent me --state s -v --summary 010";
    let report = configured.run(&format!("config crawl {line}")).expect(0).stdout;
    assert_eq!(settings(&report).len(), 10, "{report}");
    fs::write(configured.path("crawler.toml"), &report).unwrap();
    let again = configured.run("config crawl --config crawler.toml").expect(0).stdout;
    assert_eq!(settings(&again), settings(&report));
    assert!(again.contains("max-pages = 7  # crawler.toml:"), "{again}");
}

#[test]
fn every_option_can_be_set_in_a_file() {
    let configured = Configured::new("");
    for command in COMMANDS {
        let report = configured.run(&format!("config {command}")).expect(0).stdout;
        // The defaults are valid values.
        let uncommented: Vec<&str> = report
            .lines()
            .map(|line| if line.ends_with("# default") { line.trim_start_matches("# ") } else { line })
            .collect();
        fs::write(configured.path("crawler.toml"), uncommented.join("\n")).unwrap();
        let again = configured.run(&format!("config {command} --config crawler.toml")).expect(0).stdout;
        assert!(!again.contains("# default"), "{again}");
        // The others are keys, with these types.
        let placeholders: Vec<&str> = report.lines().map(|line| line.trim_start_matches("# ")).collect();
        let keys = placeholders.into_iter().filter(|line| line.contains(" = ") || line.starts_with('['));
        fs::write(configured.path("crawler.toml"), keys.collect::<Vec<_>>().join("\n")).unwrap();
        // `stop` has none of these values to check.
        configured.run("config collect --config crawler.toml").code();
        let keys = configured.run("config --config crawler.toml").expect(0).stdout;
        assert!(keys.contains(&format!("[{command}]")), "{command}: {keys}");
    }
}

#[test]
fn files_in_the_documentation_are_valid() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for document in ["README.md", "docs/configuration.md"] {
        let text = fs::read_to_string(root.join(document)).unwrap();
        let file = text.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
        let configured = Configured::new(file);
        let report = configured.run("config --config crawler.toml").expect(0).stdout;
        assert!(report.contains("module = [\"words\", \"jsonl=pages.jsonl\"]  # crawler.toml:"), "{report}");
        configured.run("config crawl --config crawler.toml").expect(0);
    }
}
