//! Options in the environment and in the file of `--config`: what a crawl does with them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use testweb::{Site, Web};

use crate::common::{Ended, Running, binary, linking_to, serve};

/// A directory with a config file, in which commands run.
pub struct Configured(TempDir);

impl Configured {
    pub fn new(file: &str) -> Configured {
        let directory = Configured(tempfile::tempdir().unwrap());
        fs::write(directory.path("crawler.toml"), file).unwrap();
        directory
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A command in this directory, with its arguments separated by spaces. It does not use the file by itself.
    pub fn command(&self, arguments: &str) -> Command {
        let mut command = binary();
        command.args(arguments.split_whitespace()).current_dir(self.0.path());
        command
    }

    pub fn run(&self, arguments: &str) -> Ended {
        ended(self.command(arguments))
    }

    pub fn run_with(&self, arguments: &str, variables: &[(&str, &str)]) -> Ended {
        let mut command = self.command(arguments);
        command.envs(variables.iter().copied());
        ended(command)
    }
}

pub fn ended(command: Command) -> Ended {
    Running::start(command, PathBuf::from("/nowhere"), None).wait()
}

/// A site of six pages that are linked in a row.
fn row() -> Web {
    let next = |page: usize| linking_to(&[&format!("/{}", page + 1)]);
    let site = (1..6).fold(Site::new().page("/", next(0)), |site, page| {
        site.page(&format!("/{page}"), format!("{}{}", next(page), "word ".repeat(page)))
    });
    serve(site.page("/6", "the end"))
}

fn user_agents(web: &Web, since: usize) -> Vec<String> {
    let agent = |hit: &testweb::LoggedRequest| hit.header("user-agent").unwrap_or_default().to_owned();
    let mut agents: Vec<String> = web.log().iter().skip(since).map(agent).collect();
    agents.dedup();
    agents
}

#[test]
fn command_line_overrides_environment_which_overrides_table_which_overrides_keys_for_all() {
    let web = row();
    let tables = "user-agent = 'all/1'\ndelay = 0\n[crawl]\nuser-agent = 'crawl/1'\n[classic]\nuser-agent = 'classic/1'\n";
    let (configured, plain) = (Configured::new(tables), Configured::new("user-agent = 'all/1'\ndelay = 0\n"));
    fs::create_dir(configured.path("pages")).unwrap();
    let environment = ("CRAWLER_USER_AGENT", "environment/1");
    let forms = [
        (format!("crawl {} --max-pages 1", web.url("/")), "crawl/1"),
        (format!("{} pages 0 --overwrite", web.url("/")), "classic/1"),
    ];
    for (form, table_agent) in forms {
        for (directory, options, variables, agent) in [
            (&configured, "--config crawler.toml --user-agent line/1", &[environment][..], "line/1"),
            (&configured, "--config crawler.toml", &[environment], "environment/1"),
            (&configured, "--config crawler.toml", &[], table_agent),
            (&configured, "", &[("CRAWLER_CONFIG", "crawler.toml")], table_agent),
            // A file in the working directory is not read by itself.
            (&configured, "--delay 0", &[], concat!("crawler/", env!("CARGO_PKG_VERSION"))),
        ] {
            let before = web.log().len();
            directory.run_with(&format!("{form} {options}"), variables).expect(0);
            assert_eq!(user_agents(&web, before), [agent], "{form} {options} {variables:?}");
        }
    }
    let before = web.log().len();
    plain.run(&format!("crawl {} --max-pages 1 --config crawler.toml", web.url("/"))).expect(0);
    assert_eq!(user_agents(&web, before), ["all/1"]);
}

#[test]
fn list_replaces_the_list_of_a_lower_place() {
    let web = serve(
        Site::new()
            .page("/", linking_to(&["/a", "/b", "/c"]))
            .page("/a", "a")
            .page("/b", "b")
            .page("/c", "c"),
    );
    let file = "delay = 0\nallow-private = true\nsimilarity = 0\nexclude = ['/a$', '/b$']\n";
    let configured = Configured::new(file);
    let crawl = format!("crawl {} --config crawler.toml", web.url("/"));
    let crawled = |line: &str, variables: &[(&str, &str)]| {
        let before = web.log().len();
        configured.run_with(line, variables).expect(0);
        let log = web.log();
        let paths = log.iter().skip(before).map(|hit| hit.path.clone()).filter(|path| path.len() == 2);
        let mut paths: Vec<String> = paths.collect();
        paths.sort();
        paths.concat()
    };
    assert_eq!(crawled(&crawl, &[]), "/c");
    assert_eq!(crawled(&format!("{crawl} --exclude /c$"), &[]), "/a/b");
    // One value per line.
    assert_eq!(crawled(&crawl, &[("CRAWLER_EXCLUDE", "/c$\n\n/b$\n")]), "/a");
    assert_eq!(crawled(&crawl, &[("CRAWLER_EXCLUDE", "")]), "/c");
    fs::write(configured.path("crawler.toml"), format!("{file}[crawl]\nexclude = []\n")).unwrap();
    assert_eq!(crawled(&crawl, &[]), "/a/b/c");
}

#[test]
fn flags_are_booleans_and_a_higher_place_turns_them_off() {
    let web = row();
    let configured = Configured::new("quiet = true\ndelay = 0\n");
    let crawl = format!("crawl {} --max-pages 1 --config crawler.toml", web.url("/"));
    for (options, variable, is_printed) in [
        ("", "", false),
        ("", "false", true),
        ("", "0", true),
        ("", "1", false),
        // An option of the command line wins against one that it conflicts with.
        ("-v", "", true),
        ("-v", "true", true),
        ("--progress plain", "", true),
    ] {
        let crawled = configured.run_with(&format!("{crawl} {options}"), &[("CRAWLER_QUIET", variable)]);
        let crawled = crawled.expect(0);
        assert_eq!(!crawled.stdout.is_empty(), is_printed, "{options} {variable}: {}", crawled.stdout);
    }
    let invalid = configured.run_with(&crawl, &[("CRAWLER_QUIET", "maybe")]).expect(2);
    assert_eq!(
        invalid.stderr,
        "crawler: CRAWLER_QUIET=maybe: must be true or false; try 'crawler crawl --help'\n"
    );
}

#[test]
fn resumed_crawl_keeps_its_options_unless_they_are_set_for_resume() {
    let web = row();
    let pages = |directory: &Path| {
        let summary = fs::read(directory.join("summary.json")).unwrap();
        serde_json::from_slice::<serde_json::Value>(&summary).unwrap()["pages"].as_u64().unwrap()
    };
    let configured = Configured::new("max-pages = 5\nallow-private = true\n");
    let directory = configured.path("");
    configured
        .run(&format!("crawl {} --delay 0 --state state --max-pages 2 --similarity 0 --summary summary.json --config crawler.toml", web.url("/")))
        .expect(0);
    assert_eq!(pages(&directory), 2);
    configured.run("resume state --config crawler.toml").expect(0);
    assert_eq!(pages(&directory), 2);
    fs::write(configured.path("resume.toml"), "max-pages = 5\n[resume]\nmax-pages = 3\n").unwrap();
    configured.run("resume state --config resume.toml").expect(0);
    assert_eq!(pages(&directory), 3);
    configured.run_with("resume state --config resume.toml", &[("CRAWLER_MAX_PAGES", "4")]).expect(0);
    assert_eq!(pages(&directory), 4);
    configured.run_with("resume state --max-pages 6", &[("CRAWLER_MAX_PAGES", "4")]).expect(0);
    assert_eq!(pages(&directory), 6);
}

#[test]
fn paths_are_relative_to_the_working_directory() {
    let web = row();
    let configured = Configured::new("delay = 0\n");
    fs::create_dir(configured.path("elsewhere")).unwrap();
    let file = "delay = 0\n[crawl]\nmax-pages = 1\nsummary = 'summary.json'\nmodule = ['words', 'jsonl=pages.jsonl']\n";
    fs::write(configured.path("elsewhere/my.toml"), file).unwrap();
    configured.run(&format!("crawl {} --config elsewhere/my.toml", web.url("/"))).expect(0);
    assert!(configured.path("summary.json").exists() && configured.path("pages.jsonl").exists());
}

#[test]
fn redis_of_the_environment_or_for_all_commands_does_not_make_a_crawl_distributed() {
    let web = row();
    let file = "delay = 0\nredis = 'redis://127.0.0.1:1/'\n";
    let configured = Configured::new(file);
    let crawl = format!("crawl {} --max-pages 1 --config crawler.toml", web.url("/"));
    configured.run(&crawl).expect(0);
    configured.run_with(&crawl, &[("CRAWLER_REDIS", "redis://127.0.0.1:1/")]).expect(0);
    // With the option, it is the address. The port has no server.
    for line in [format!("{crawl} --redis"), "status --config crawler.toml".into()] {
        let failed = configured.run(&line).expect(1);
        assert!(failed.stderr.contains("127.0.0.1:1"), "{}", failed.stderr);
    }
    fs::write(configured.path("crawler.toml"), "[crawl]\nredis = 'redis://127.0.0.1:1/'\n").unwrap();
    let failed = configured.run(&crawl).expect(1);
    assert!(failed.stderr.contains("127.0.0.1:1"), "{}", failed.stderr);
    // Without a value anywhere.
    fs::write(configured.path("crawler.toml"), "[crawl]\nredis = true\n").unwrap();
    let failed = configured.run(&crawl).expect(2);
    assert!(failed.stderr.contains("redis has no value"), "{}", failed.stderr);
}

#[test]
fn misspelt_variable_is_reported() {
    let web = row();
    let configured = Configured::new("");
    let crawl = format!("crawl {} --max-pages 1 --delay 0", web.url("/"));
    let crawled = configured.run_with(&crawl, &[("CRAWLER_DELYA", "2s"), ("CRAWLER_HOME", "/opt")]).expect(0);
    let warning = "crawler: the variable CRAWLER_DELYA sets no option; did you mean 'CRAWLER_DELAY'?\n";
    assert!(crawled.stderr.starts_with(warning), "{}", crawled.stderr);
    assert!(!crawled.stderr.contains("CRAWLER_HOME"), "{}", crawled.stderr);
}

#[test]
fn secrets_of_the_file_are_sent_and_not_repeated() {
    let web = row();
    let configured = Configured::new("delay = 0\nheader = ['X-Key: sesame']\n[crawl]\nauth = 'me:sesame'\n");
    let crawl = format!("crawl {} --max-pages 1 --config crawler.toml", web.url("/"));
    let crawled = configured.run(&crawl).expect(0);
    assert!(!crawled.stdout.contains("sesame") && !crawled.stderr.contains("sesame"), "{}", crawled.stderr);
    let before = web.log().len();
    assert!(web.log().iter().all(|hit| hit.header("x-key") == Some("sesame")));
    assert!(web.log().iter().all(|hit| hit.header("authorization") == Some("Basic bWU6c2VzYW1l")));
    let bearer = configured
        .run_with(&crawl, &[("CRAWLER_BEARER_TOKEN", "t0ken"), ("CRAWLER_HEADER", "X-Key: 2\nX-B: 3")]);
    bearer.expect(0);
    let log = web.log();
    assert!(log.len() > before);
    for hit in log.iter().skip(before) {
        assert_eq!(
            ["authorization", "x-key", "x-b"].map(|name| hit.header(name)),
            [Some("Bearer t0ken"), Some("2"), Some("3")]
        );
    }
    for (file, error) in [
        ("[crawl]\nauth = 'sesame'\n", "crawler.toml:2: auth is not of the form USER:PASSWORD"),
        ("header = 'sesame'\n", "crawler.toml:1: header is not of the form 'NAME: VALUE'"),
    ] {
        fs::write(configured.path("crawler.toml"), file).unwrap();
        let rejected = configured.run(&crawl).expect(2);
        assert!(
            rejected.stderr.contains(error) && !rejected.stderr.contains("sesame"),
            "{}",
            rejected.stderr
        );
    }
}
