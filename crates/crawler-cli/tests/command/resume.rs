//! Options, seeds and modules that change when a crawl with `--state` is resumed after `kill -9`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use testweb::{Request, Response, Site, Web};

use crate::common::{Running, linking_to, names, serve};
use crate::pipeline::{Pipeline, adds_up, objects_in, paths};
use crate::state::StateDir;

/// Kills a crawl after this many more requests.
pub fn killed_after(web: &Web, requests: usize, mut crawl: Running) {
    let before = web.hits();
    crawl.until("some requests", |_| web.hits() >= before + requests);
    crawl.signal(Signal::KILL);
    crawl.wait().expect(137);
}

/// A page at `/` with links to pages below these directories, `count` in each.
pub fn directories(names: &[&str], count: usize) -> Site {
    let links: Vec<String> =
        (0..count).flat_map(|page| names.iter().map(move |name| format!("/{name}/{page}"))).collect();
    let links: Vec<&str> = links.iter().map(String::as_str).collect();
    Site::new()
        .page("/", linking_to(&links))
        .fallback(|request: &Request| Response::page(format!("the page {}", request.path)))
}

/// The paths of the requests from a position of the log on.
fn requested(web: &Web, from: usize) -> Vec<String> {
    web.log()[from..].iter().map(|hit| hit.path.clone()).collect()
}

fn summary(place: &StateDir) -> Value {
    serde_json::from_slice(&fs::read(place.path("summary")).unwrap()).unwrap()
}

#[test]
fn delay_user_agent_and_exclusions_apply_to_what_is_pending() {
    let (web, place) = (serve(directories(&["keep", "drop"], 12)), StateDir::new());
    let crawl =
        place.crawl(web.url("/")).with("--delay 20ms --similarity 0 --workers 1 --user-agent first/1");
    killed_after(&web, 6, crawl.module("jsonl", &place.path("lines")).start());
    let before = web.hits();
    let options = format!(
        "--delay 120ms --user-agent second/2 --exclude /drop/ --timeout 3s --connect-timeout 2s --summary {}",
        place.path("summary").display()
    );
    let ended = place.resume(&options).wait().expect(0);
    let changed = "the crawl continues with changed options: --connect-timeout, --delay, --exclude, --timeout, --user-agent\n";
    assert!(ended.stderr.contains(changed), "{}", ended.stderr);
    let later = web.log().filter(|hit| hit.header("user-agent") == Some("second/2"));
    assert_eq!(later.len(), web.hits() - before, "every request has the new user agent");
    assert!(later.smallest_gap().unwrap() >= Duration::from_millis(119), "{:?}", later.smallest_gap());
    assert!(requested(&web, before).iter().all(|path| !path.contains("/drop/")));
    let counts = adds_up(&summary(&place));
    let dropped =
        requested(&web, 0).iter().filter(|path| path.starts_with("/drop/")).collect::<BTreeSet<_>>().len();
    assert!(counts["excluded"] >= 12 - dropped as u64 && counts["excluded"] > 0, "{counts:?}");
    assert_eq!(counts["page"] + counts["excluded"], 25, "{counts:?}");
    assert_eq!(objects_in(&place.path("lines")).len() as u64, counts["page"]);
    let left_out = (0..12).map(|page| web.url(&format!("/drop/{page}")));
    let why: Vec<String> = left_out
        .map(|url| crate::common::run(&["why", &url, "--state", &place.state()]).expect(0).stdout)
        .collect();
    assert!(
        why.iter().any(|why| why.contains("outcome: excluded, since the settings changed on resume")),
        "{why:?}"
    );
}

#[test]
fn narrower_scope_robots_and_page_size_apply_and_rejected_links_do_not_come_back() {
    let site = directories(&["in", "private"], 6).robots("User-agent: *\nDisallow: /private/");
    let (web, place) = (serve(site), StateDir::new());
    let crawl = Pipeline::bare(web.url("/")).with("--similarity 0 --exclude 3$ --max-pages 2 --state");
    crawl
        .with_one(place.state())
        .with("--resolve *=127.0.0.1 --allow-private --ignore-robots")
        .run()
        .expect(0);
    let before = web.hits();
    // The full command applies what it says. What it leaves out has the default: robots.txt is obeyed again.
    let ended = Pipeline::bare(web.url("/"))
        .with("--similarity 0 --scope host --max-page-bytes 8 --state")
        .with_one(place.state())
        .with("--resolve *=127.0.0.1 --allow-private")
        .run()
        .expect(0);
    assert!(
        ended.stderr.contains("--exclude, --ignore-robots, --max-page-bytes, --max-pages, --scope\n"),
        "{}",
        ended.stderr
    );
    let later = requested(&web, before);
    assert!(
        later.contains(&"/robots.txt".to_owned()) && !later.iter().any(|path| path.starts_with("/private/")),
        "{later:?}"
    );
    assert!(!later.contains(&"/in/3".to_owned()), "a link that was rejected does not come back");
    assert!(later.contains(&"/in/5".to_owned()), "{later:?}");
}

#[test]
fn option_that_cannot_change_is_refused_with_the_reason() {
    let (web, place) = (serve(Site::seeded(5, 60)), StateDir::new());
    let base = "--max-pages 5 --max-depth 9 --scope host";
    place.crawl(web.url("/")).with(base).run().expect(0);
    let hits = web.hits();
    for (options, words) in [
        (
            "--max-depth 8",
            "--max-depth was '9' when the crawl started and is '8' now; it cannot change, because it decided",
        ),
        (
            "--strip-query sid",
            "--strip-query was '' when the crawl started and is 'sid' now; it cannot change, because",
        ),
        (
            "--similarity 0.5",
            "--similarity was '0.9' when the crawl started and is '0.5' now; it cannot change, because",
        ),
    ] {
        let base = if options.contains("depth") { "--max-pages 5 --scope host" } else { base };
        let crawled = place.crawl(web.url("/")).with(base).with(options).run();
        for ended in [crawled, place.resume(options).wait()] {
            let ended = ended.expect(2);
            assert!(ended.stderr.contains(words), "{words} is not in {}", ended.stderr);
            assert!(!ended.stderr.contains("continues"), "{}", ended.stderr);
        }
    }
    for (options, words) in [
        ("--state x", "'crawler resume' takes the directory without --state"),
        ("--redis redis://h/", "--redis is an option of 'crawler crawl'"),
        ("--colour", "unknown option '--colour'"),
        ("--max-pages 0", "--max-pages"),
        ("--exclude (", "--exclude"),
        ("not-a-url", "not-a-url"),
        ("-q --progress json", "--quiet"),
    ] {
        let ended = place.resume(options).wait().expect(2);
        assert!(ended.stderr.contains(words), "{words} is not in {}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    }
    assert_eq!(web.hits(), hits);
    let mut command = crate::common::binary();
    command.args(["resume", &place.state()]).env("CRAWLER_CRAWL", "news").env("CRAWLER_REDIS", "redis://h/");
    assert_eq!(
        command.output().unwrap().status.code(),
        Some(0),
        "variables of distributed crawls do not matter"
    );
    let ended =
        place.resume("--max-depth 9 --similarity 0.9 --max-pages 4 --workers 1 --max-bytes 1GB").wait();
    assert_eq!((ended.expect(0).outcomes()["page"], web.hits()), (5, hits), "a lower limit stops it at once");
    assert_eq!(
        place.resume("--max-pages 7 --per-host 2 --no-content").wait().expect(0).outcomes()["page"],
        7
    );
}

#[test]
fn seeds_are_added_to_a_killed_and_to_a_finished_crawl() {
    let trees = ["a", "b", "c"].into_iter().fold(Site::new(), |site, tree| {
        let links: Vec<String> = (0..8).map(|page| format!("/{tree}/{page}")).collect();
        let links: Vec<&str> = links.iter().map(String::as_str).collect();
        site.page(&format!("/{tree}/"), linking_to(&links) + tree)
    });
    let web = serve(trees.fallback(|request: &Request| Response::page(request.path.clone())));
    let place = StateDir::new();
    let crawl = |tree: &str| place.crawl(web.url(tree)).with("--scope prefix --similarity 0 --delay 10ms");
    let lines = place.path("lines");
    killed_after(&web, 4, crawl("/a/").module("jsonl", &lines).start());
    let ended = place.resume(&web.url("/b/")).wait().expect(0);
    assert!(ended.messages().contains("adding 1 seed\nresuming: "), "{}", ended.stderr);
    assert_eq!(ended.outcomes()["page"], 18);
    let known = place.resume(&web.url("/b/")).wait().expect(0);
    assert!(known.stderr.contains("is already finished (18 pages); nothing to do"), "{}", known.stderr);
    let ended = crawl("/c/").module("jsonl", &lines).run().expect(0);
    assert!(
        ended.messages().contains("adding 1 seed\nresuming: 18 pages so far, 1 URL pending\n"),
        "{}",
        ended.stderr
    );
    assert_eq!(ended.outcomes()["page"], 27);
    assert_eq!(paths(&web, &objects_in(&lines)).len(), 27, "each page is in the output once");
    let again = place.resume("").wait().expect(0);
    assert!(again.stderr.contains("is already finished (27 pages)"), "{}", again.stderr);
    let why = crate::common::run(&["why", &web.url("/c/"), "--state", &place.state()]).expect(0);
    assert!(why.stdout.contains("reached: it is a seed"), "{}", why.stdout);
}

/// The numbers of the files in a directory, sorted.
fn numbers(directory: &Path) -> Vec<u64> {
    let mut numbers: Vec<u64> = names(directory).iter().filter_map(|name| name.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn outputs_are_added_and_removed_and_those_that_stay_have_each_page_once() {
    let (web, place) = (serve(directories(&["p"], 60)), StateDir::new());
    let module = |name: &str, file: &str| format!("--module {name}={} ", place.path(file).display());
    let crawl = place.crawl(web.url("/")).with("--similarity 0 --delay 5ms --workers 1");
    let crawl = crawl.module("jsonl", &place.path("lines")).module("pages", &place.path("first"));
    killed_after(&web, 15, crawl.start());
    let other_format = place.resume(&(module("jsonl", "lines") + &module("edges", "first"))).wait().expect(2);
    assert!(
        other_format.stderr.contains("first' was written by pages, and would be written by edges now"),
        "{}",
        other_format.stderr
    );
    fs::write(place.path("edges"), "of another crawl").unwrap();
    let modules =
        module("edges", "edges") + &module("jsonl", "lines") + &module("pages", "second") + "--module words";
    let taken = place.resume(&modules).wait().expect(2);
    assert!(taken.stderr.contains("it already has 16 bytes; name another file"), "{}", taken.stderr);
    killed_after(&web, 15, place.resume(&format!("{modules} --overwrite")));
    let ended = place.resume("").wait().expect(0);
    assert!(ended.stdout.contains(" distinct\n"), "{}", ended.stdout);
    assert_eq!(ended.outcomes()["page"], 61);

    let lines = objects_in(&place.path("lines"));
    assert_eq!(paths(&web, &lines).len(), 61, "each page is in the output once");
    let (first, second) = (numbers(&place.path("first")), numbers(&place.path("second")));
    let removed_at = first.len() as u64;
    assert!(removed_at > 5 && removed_at < 50, "{first:?}");
    assert!(first.iter().copied().eq(1..=removed_at), "{first:?}");
    assert!(second.iter().copied().eq(removed_at + 1..=61), "{second:?}");
    let edges = fs::read_to_string(place.path("edges")).unwrap();
    assert_eq!(edges, "from,to\n", "only the first page has links, and was written before");
    let last = lines.last().unwrap()["url"].as_str().unwrap();
    let why = crate::common::run(&["why", last, "--state", &place.state()]).expect(0).stdout;
    assert!(
        why.contains("output: line 61 of ") && why.contains("second/61") && !why.contains("first"),
        "{why}"
    );
}

#[test]
fn output_that_is_gone_can_be_removed_and_is_reported() {
    let (web, place) = (serve(directories(&["p"], 30)), StateDir::new());
    let crawl = place.crawl(web.url("/")).with("--similarity 0 --max-pages 10");
    let crawl = crawl.module("jsonl", &place.path("lines")).module("pages", &place.path("gone"));
    crawl.run().expect(0);
    fs::rename(place.path("gone"), place.path("elsewhere")).unwrap();
    let refused = place.resume("--max-pages 20 --exclude p").wait();
    assert!(refused.stderr.contains("gone': it does not exist"), "{}", refused.stderr);
    let options = format!("--max-pages 20 --module jsonl={}", place.path("lines").display());
    let ended = place.resume(&options).wait().expect(3);
    assert!(
        ended.stderr.contains("gone': it does not exist, but the crawl had written 1 to 10"),
        "{}",
        ended.stderr
    );
    assert_eq!(
        paths(&web, &objects_in(&place.path("lines"))).len(),
        20,
        "the refused command changed nothing"
    );
    place.resume("--max-pages 25").wait().expect(0);
    let added = format!(
        "--max-pages 40 --module jsonl={} --module jsonl={}",
        place.path("lines").display(),
        place.path("late").display()
    );
    place.resume(&added).wait().expect(0);
    let (lines, late) = (objects_in(&place.path("lines")), objects_in(&place.path("late")));
    assert_eq!(lines[25..], late[..], "an output that is added starts with the next page");
    let url = late[1]["url"].as_str().unwrap();
    let why = crate::common::run(&["why", url, "--state", &place.state()]).expect(0).stdout;
    assert!(why.contains("line 27 of ") && why.contains("line 2 of "), "{why}");
}

#[test]
fn excluded_urls_are_skipped_at_once_and_do_not_wait_for_their_host() {
    let (web, place) = (serve(directories(&["trap"], 3_000)), StateDir::new());
    place.crawl(web.url("/")).with("--similarity 0 --max-pages 1").run().expect(0);
    let before = web.hits();
    let options =
        format!("--delay 10s --exclude trap --max-pages 9 --summary {} -v", place.path("summary").display());
    let ended = place.resume(&options).wait().expect(0);
    assert_eq!(web.hits(), before);
    assert_eq!(adds_up(&summary(&place)), crate::common::counts(&[("page", 1), ("excluded", 3_000)]));
    assert_eq!(ended.stdout.matches("(excluded, since the settings changed on resume)\n").count(), 3_000);
    assert!(summary(&place)["elapsed_seconds"].as_f64().unwrap() < 10.0);
}

#[test]
fn saved_flag_is_turned_off_by_its_variable() {
    let (web, place) =
        (serve(directories(&["a"], 8).robots("User-agent: *\nDisallow: /a/")), StateDir::new());
    let crawl = Pipeline::bare(web.url("/"))
        .with("--delay 10ms --similarity 0 --ignore-robots --max-pages 3 --state");
    crawl.with_one(place.state()).run().expect(0);
    let mut resume = crate::common::binary();
    resume.args(["resume", &place.state(), "--max-pages", "100"]).env("CRAWLER_IGNORE_ROBOTS", "false");
    let ended = Running::start(resume, "/nowhere".into(), None).wait().expect(0);
    assert!(
        ended.stderr.contains("with changed options: --ignore-robots, --max-pages\n"),
        "{}",
        ended.stderr
    );
    assert_eq!((ended.outcomes()["page"], ended.outcomes()["robots.txt"]), (3, 6));
}

/// A page at `a.test` that links to `other.test`, and has images of both.
fn page_with_images() -> Web {
    let page = |request: &Request| {
        let port = request.authority.rsplit(':').next().unwrap_or_default();
        let other = format!("http://other.test:{port}");
        let html =
            (0..20).map(|n| format!("<a href={other}/{n}>x</a><img src={other}/{n}.png><img src=/{n}.png>"));
        Response::page(html.collect::<String>())
    };
    let image = |_: &Request| Response::text("x").content_type("image/png");
    let site =
        Site::new().fallback(move |request| if request.path == "/" { page(request) } else { image(request) });
    Web::builder().host("a.test", site).site(Site::new().fallback(image)).start()
}

/// The requests for other URLs than robots.txt that hosts got after this position of the log.
fn requests_to(web: &Web, host: &str, from: usize) -> usize {
    web.log()[from..].iter().filter(|hit| hit.host == host && hit.path != "/robots.txt").count()
}

#[test]
fn what_only_a_removed_output_needs_is_not_requested_any_more() {
    for output in ["check", "mirror"] {
        let (web, place) = (page_with_images(), StateDir::new());
        let crawl = place.crawl(web.url_of("a.test", "/")).module(output, &place.path("out"));
        let crawl = crawl.with("--scope host --requisites --delay 200ms").start();
        killed_after(&web, 8, crawl);
        let before = web.hits();
        let jsonl = format!("--delay 0 --module jsonl={}", place.path("lines").display());
        let ended = place.resume(&jsonl).wait().expect(0);
        assert_eq!(web.hits(), before, "{output}");
        assert!(ended.outcomes()["excluded"] > 0, "{}", ended.stdout);
    }
}

#[test]
fn pending_requisites_of_other_domains_are_left_out_without_the_option() {
    let (web, place) = (page_with_images(), StateDir::new());
    let crawl = place.crawl(web.url_of("a.test", "/")).module("mirror", &place.path("out"));
    let crawl = crawl.with("--scope host --requisites --delay 200ms").start();
    killed_after(&web, 8, crawl);
    let before = web.hits();
    let mut resume = crate::common::binary();
    resume.args(["resume", &place.state(), "--delay", "0"]).env("CRAWLER_REQUISITES", "false");
    let ended = Running::start(resume, "/nowhere".into(), None).wait().expect(0);
    assert_eq!(requests_to(&web, "other.test", before), 0);
    assert!(requests_to(&web, "a.test", before) > 0, "its own images");
    assert!(ended.outcomes()["out of scope"] > 0, "{}", ended.stdout);
}

#[test]
fn pending_sitemaps_are_left_out_if_they_are_not_wanted_any_more() {
    let urls =
        |from: usize| (from..from + 3).map(|n| format!("<url><loc>/{n}</loc></url>")).collect::<String>();
    let map = |n: usize| Response::page(format!("<urlset>{}</urlset>", urls(n))).content_type("text/xml");
    let index: String = (1..9).map(|n| format!("<sitemap><loc>/map{n}.xml</loc></sitemap>")).collect();
    let index = Response::page(format!("<sitemapindex>{index}</sitemapindex>")).content_type("text/xml");
    let site = Site::new().robots("Sitemap: /index.xml").page("/", "seed").response("/index.xml", index);
    let site = (1..9).fold(site, |site, n| site.response(&format!("/map{n}.xml"), map(10 * n)));
    let (web, place) =
        (serve(site.fallback(|request| Response::page(request.path.clone()))), StateDir::new());
    let crawl = Pipeline::bare(web.url("/")).with("--delay 100ms --similarity 0 --scope host --state");
    let mut crawl = crawl.with_one(place.state()).start();
    crawl.until("the index and a sitemap", |_| web.log().paths().iter().any(|path| path.contains("/map")));
    crawl.signal(Signal::KILL);
    crawl.wait().expect(137);
    let before = web.hits();
    let ended = place.resume("--no-sitemaps --delay 0").wait().expect(0);
    assert!(
        requested(&web, before).iter().all(|path| !path.ends_with(".xml")),
        "{:?}",
        requested(&web, before)
    );
    assert!(ended.outcomes()["excluded"] >= 6, "{}", ended.stdout);
}
