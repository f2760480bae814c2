//! Robots directives of pages: nofollow is obeyed, noindex and noarchive are noted in the outputs.

use std::collections::BTreeMap;

use testweb::{Response, Site, Web};

use crate::common::{Crawl, counts, serve};
use crate::pipeline::{Pipeline, objects_in};

/// A front page that links to pages, each of which links to one more page and asks for something else.
fn site() -> Site {
    let pages = ["meta", "own", "other", "header", "own-header", "other-header", "link", "none", "kept"];
    let front: String = pages.iter().map(|name| format!("<a href=/{name}>{name}</a>")).collect();
    let page =
        |name: &str, head: &str| Response::page(format!("{head}<a href=/after-{name}>after {name}</a>"));
    let header = |name: &str, value: &str| page(name, "").header("X-Robots-Tag", value);
    Site::new()
        .page("/", front)
        .response("/meta", page("meta", "<meta name='robots,otherbot' content='noindex, &#110;ofollow'>"))
        .response("/own", page("own", "<meta name=MyBot content=NOFOLLOW>"))
        .response("/other", page("other", "<meta name=otherbot content=none>"))
        .response("/header", header("header", "noarchive").header("X-Robots-Tag", "max-foo:1, nofollow"))
        .response("/own-header", header("own-header", "otherbot: noindex, mybot: nofollow"))
        .response("/other-header", header("other-header", "otherbot: nofollow, noindex"))
        .page("/link", "<a rel='me no&#102;ollow' href=/after-link>no</a> <a href=/also-link>yes</a>")
        .response("/none", page("none", "<meta name=robots content=none>"))
        .response("/kept", page("kept", "<meta name=robots content='noindex, noarchive'>"))
        .fallback(|request| match request.path.split_once('-') {
            Some(_) => Response::page(request.path.clone()),
            None => Response::status(404),
        })
}

const FOLLOWED: [&str; 4] = ["/after-kept", "/after-other", "/after-other-header", "/also-link"];
const NOT_FOLLOWED: [&str; 6] =
    ["/after-header", "/after-link", "/after-meta", "/after-none", "/after-own", "/after-own-header"];

/// The pages below the front page's links that were requested.
fn followed(web: &Web) -> Vec<String> {
    let log = web.log();
    let mut paths: Vec<String> =
        log.paths().iter().filter(|path| path.starts_with("/a")).map(|path| path.to_string()).collect();
    paths.sort_unstable();
    paths
}

#[test]
fn classic_crawl_obeys_nofollow() {
    let crawl = |web: &Web| Crawl::of(web.url("/")).depth(2).with("--user-agent mybot/1.0");
    let web = serve(site());
    let ended = crawl(&web).run().expect(0);
    assert_eq!(followed(&web), FOLLOWED);
    assert!(ended.stdout.contains(" · 6 nofollow"), "{}", ended.stdout);
    let ignoring = serve(site());
    crawl(&ignoring).with("--ignore-robots").run().expect(0);
    assert_eq!(followed(&ignoring).len(), FOLLOWED.len() + NOT_FOLLOWED.len());
    let verbose = crawl(&web).with("-v").run().expect(0);
    assert!(verbose.stdout.contains("/after-link (nofollow)"), "{}", verbose.stdout);
}

#[test]
fn pipeline_obeys_nofollow_and_notes_directives_in_its_output() {
    let crawl =
        |web: &Web| Pipeline::bare(web.url("/")).with("--user-agent mybot/1.0 --similarity 0 --scope host");
    let directory = tempfile::tempdir().unwrap();
    let (web, lines) = (serve(site()), directory.path().join("lines"));
    let ended = crawl(&web).module("jsonl", &lines).run().expect(0);
    assert_eq!(followed(&web), FOLLOWED);
    assert_eq!(ended.outcomes(), counts(&[("page", 14)]));
    assert!(ended.stdout.contains(" · 6 nofollow"), "{}", ended.stdout);
    let robots: BTreeMap<String, String> = objects_in(&lines)
        .iter()
        .map(|page| (page["url"].as_str().unwrap().replace(&web.url(""), ""), page["robots"].to_string()))
        .collect();
    for (path, expected) in [
        ("/meta", r#"["nofollow","noindex"]"#),
        ("/own", r#"["nofollow"]"#),
        ("/other", "[]"),
        ("/header", r#"["nofollow","noarchive"]"#),
        ("/link", "[]"),
        ("/kept", r#"["noindex","noarchive"]"#),
    ] {
        assert_eq!(robots[path], expected, "{path}: {robots:?}");
    }
    let links = objects_in(&lines).iter().map(|page| page["links"].as_array().unwrap().len()).sum::<usize>();
    assert_eq!(links, 19, "links that are not followed are links of the page");

    let ignoring = serve(site());
    crawl(&ignoring).with("--ignore-robots").run().expect(0);
    assert_eq!(followed(&ignoring).len(), FOLLOWED.len() + NOT_FOLLOWED.len());
}
