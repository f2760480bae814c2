//! `crawler check`: which links are reported, and what servers see of the check.

mod anchors;
mod resumed;

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use testweb::{Hostile, Response, Site, Web};

use crate::common::{Ended, Running, binary, run};
use crate::pipeline::Pipeline;

/// Runs a check without a delay, with every host on loopback.
fn check(web: &Web, options: &str) -> Ended {
    start(web, options).wait()
}

fn start(web: &Web, options: &str) -> Running {
    let mut command = binary();
    command.args(["check", &web.url_of("a.test", "/"), "--resolve", "*.test=127.0.0.1", "--allow-private"]);
    if !options.contains("--delay") {
        command.args(["--delay", "0"]);
    }
    command.args(options.split_whitespace());
    Running::start(command, "/nowhere".into(), None)
}

/// The report of a check with this exit status.
#[track_caller]
fn report(web: &Web, options: &str, status: i32) -> Value {
    let ended = check(web, &format!("{options} --format json")).expect(status);
    serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{}", ended.stdout))
}

/// A text without the origins of the servers: `/x` on the site, `b.test/x` elsewhere.
fn short(web: &Web, text: &str) -> String {
    text.replace(&web.url_of("a.test", ""), "")
        .replace(&format!(":{}", web.port()), "")
        .replace("http://", "")
}

/// The URLs of a list of findings, each with what is wrong.
fn found(web: &Web, report: &Value, list: &str) -> Vec<String> {
    let findings = report[list].as_array().unwrap().iter();
    let text = |finding: &Value, key: &str| short(web, finding[key].as_str().unwrap());
    findings.map(|finding| format!("{}: {}", text(finding, "url"), text(finding, "reason"))).collect()
}

/// The links to a finding: page, element and text.
fn links(web: &Web, finding: &Value) -> Vec<String> {
    let text = |link: &Value, key: &str| short(web, link[key].as_str().unwrap());
    let links = finding["linked_from"].as_array().unwrap().iter();
    links
        .map(|link| format!("{} {} {}", text(link, "page"), text(link, "element"), text(link, "text")))
        .collect()
}

/// The methods and paths of the requests to a host, without robots.txt, sorted.
fn requests(web: &Web, host: &str) -> Vec<String> {
    let log = web.log().filter(|hit| hit.host == host && hit.path != "/robots.txt");
    let mut requests: Vec<String> = log.iter().map(|hit| format!("{} {}", hit.method, hit.path)).collect();
    requests.sort();
    requests
}

/// A site at a.test with these pages, in which links to other hosts get the port, and what all other hosts respond.
fn serve(
    pages: &'static [(&'static str, &'static str)],
    others: impl Fn(&testweb::Request) -> Response + Send + Sync + 'static,
) -> Web {
    let site = Site::new().fallback(move |request| {
        let port = request.authority.rsplit(':').next().unwrap_or_default();
        match pages.iter().find(|(path, _)| *path == request.path) {
            Some((_, html)) => Response::page(html.replace(".test/", &format!(".test:{port}/"))),
            None => Response::status(404),
        }
    });
    Web::builder().host("a.test", site).site(Site::new().fallback(others)).start()
}

fn missing(_: &testweb::Request) -> Response {
    Response::status(404)
}

#[test]
fn broken_link_is_reported_with_every_page_that_links_to_it() {
    let web = serve(
        &[
            (
                "/",
                "<a href=/a>a</a> <a href=/gone>Gone <b>for good</b></a> <img src=/i.png><script src=/s.js></script>",
            ),
            ("/a", "<link rel=stylesheet href=/c.css><a href=/gone>again</a><a href=/><img src=/i.png></a>"),
            ("/s.js", "1"),
        ],
        missing,
    );
    let report = report(&web, "", 1);
    assert_eq!(
        found(&web, &report, "broken"),
        ["/c.css: HTTP 404 Not Found", "/gone: HTTP 404 Not Found", "/i.png: HTTP 404 Not Found"]
    );
    assert_eq!(links(&web, &report["broken"][0]), ["/a stylesheet "]);
    assert_eq!(links(&web, &report["broken"][1]), ["/ a Gone for good", "/a a again"]);
    assert_eq!(links(&web, &report["broken"][2]), ["/ image ", "/a image "]);
    assert_eq!((&report["complete"], &report["counts"]["pages"]), (&true.into(), &2.into()));
    assert_eq!(report["seeds"][0], web.url_of("a.test", "/"));
    // Files that exist are not downloaded.
    assert_eq!(web.log().for_path("/s.js").iter().map(|hit| &*hit.method).collect::<Vec<_>>(), ["HEAD"]);

    let text = short(&web, &check(&web, "").expect(1).stdout);
    let start = "Broken\n\n  /c.css\n    HTTP 404 Not Found\n    linked from 1 page:\n      /a  <stylesheet>\n\n  /gone\n    \
        HTTP 404 Not Found\n    linked from 2 pages:\n      /  \"Gone for good\"\n      /a  \"again\"\n\n";
    assert!(text.starts_with(start), "{text}");
    assert!(text.ends_with("\n2 pages, 8 links, 6 URLs checked: 3 broken\n"), "{text}");
}

#[test]
fn link_without_text_is_shown_with_its_label() {
    let web = serve(
        &[(
            "/",
            "<a href=/1><img src=/i alt='The &lt;logo&gt;'></a><a href=/1 aria-label=Close title=no><svg></svg></a>\
             <a href=/1 title=Tip> </a><a href=/1>text<img src=/j alt=no></a><a href=/1></a><iframe src=/1 title=Map></iframe>",
        )],
        missing,
    );
    let report = report(&web, "", 1);
    let expected = ["/ a ", "/ a Close", "/ a The <logo>", "/ a Tip", "/ a text", "/ frame Map"];
    assert_eq!(links(&web, &report["broken"][0]), expected);
    assert_eq!(links(&web, &report["broken"][1]), ["/ image The <logo>"]);
}

#[test]
fn site_without_a_broken_link_exits_with_status_0() {
    let web = serve(
        &[("/", "<a href=/a>a</a>"), ("/a", "<a href=mailto:me@a.test>m</a><a href=#top>t</a>")],
        missing,
    );
    let ended = check(&web, "").expect(0);
    assert_eq!(ended.stdout, "2 pages, 2 links, 2 URLs checked: none broken\n");
}

#[test]
fn other_hosts_get_head_requests_and_get_only_where_head_fails() {
    let web = serve(
        &[(
            "/",
            "<a href=http://b.test/ok>x</a><a href=http://b.test/refuses>x</a><a href=http://b.test/lies>x</a>\
             <a href=http://b.test/fails>x</a><a href=http://b.test/gone>x</a><a href=http://b.test/none>x</a>",
        )],
        |request| match (request.path.as_str(), request.method.as_str()) {
            ("/ok", _) => Response::page("<a href=/deeper>not followed</a>"),
            ("/refuses", "HEAD") => Response::status(405),
            ("/lies", "HEAD") => Response::status(404),
            ("/fails", "HEAD") => Response::status(500),
            ("/refuses" | "/lies" | "/fails", _) => Response::page("x".repeat(500_000)),
            ("/none", _) => Response::status(204),
            _ => Response::status(404),
        },
    );
    let report = report(&web, "", 1);
    assert_eq!(found(&web, &report, "broken"), ["b.test/gone: HTTP 404 Not Found"]);
    let both = ["/fails", "/gone", "/lies", "/refuses"];
    let gets = both.map(|path| format!("GET {path}"));
    let mut heads: Vec<String> =
        both.iter().chain(&["/none", "/ok"]).map(|path| format!("HEAD {path}")).collect();
    heads.sort();
    assert_eq!(requests(&web, "b.test"), [&gets[..], &heads].concat());
}

#[test]
fn delay_holds_between_the_requests_to_every_host() {
    let web = serve(
        &[(
            "/",
            "<a href=http://b.test/1>x</a><a href=http://b.test/2>x</a><img src=http://b.test/3><img src=/4>",
        )],
        |request| if request.path == "/1" { Response::status(405) } else { Response::text("x") },
    );
    check(&web, "--delay 200ms").expect(1);
    for host in ["a.test", "b.test"] {
        let gap = web.log().filter(|hit| hit.host == host).smallest_gap().unwrap();
        assert!(gap >= Duration::from_millis(200), "{host}: {gap:?}");
    }
    assert_eq!(requests(&web, "b.test"), ["GET /1", "HEAD /1", "HEAD /2", "HEAD /3"]);
}

#[test]
fn server_that_requests_a_wait_is_waited_for_and_not_reported() {
    let busy = |code| {
        let wait = Response::status(code).header("Retry-After", "1");
        Response::sequence(vec![wait, Response::page("x")])
    };
    let html = |port: &str| format!("<a href=/busy>x</a><a href=http://b.test:{port}/busy>x</a>");
    let site = Site::new().response("/busy", busy(503)).fallback(move |request| {
        match (&*request.path, request.authority.rsplit(':').next()) {
            ("/", Some(port)) => Response::page(html(port)),
            _ => Response::status(404),
        }
    });
    let web =
        Web::builder().host("a.test", site).host("b.test", Site::new().response("/busy", busy(429))).start();
    let report = report(&web, "", 0);
    assert_eq!((&report["counts"]["broken"], &report["counts"]["not_checked"]), (&0.into(), &0.into()));
    for host in ["a.test", "b.test"] {
        let log = web.log().filter(|hit| hit.host == host && hit.path == "/busy");
        assert_eq!(log.len(), 2, "{host}");
        assert!(log.smallest_gap().unwrap() >= Duration::from_secs(1), "{host}");
    }
}

#[test]
fn robots_txt_is_obeyed_everywhere_and_nofollow_links_are_requested_and_not_crawled() {
    let pages = &[
        (
            "/",
            "<a href=/secret/x>x</a><a href=http://b.test/secret>x</a><a href=/nofollow rel=nofollow>x</a>",
        ),
        ("/nofollow", "<a href=/gone>not followed</a>"),
        ("/robots.txt", "User-agent: *\nDisallow: /secret/"),
    ];
    let web = serve(pages, |request| match request.path.as_str() {
        "/robots.txt" => Response::text("User-agent: *\nDisallow: /"),
        _ => Response::status(404),
    });
    let report = report(&web, "", 0);
    assert_eq!(
        found(&web, &report, "not_checked"),
        ["/secret/x: robots.txt disallows it", "b.test/secret: robots.txt disallows it"]
    );
    assert_eq!(report["complete"], true);
    assert_eq!(requests(&web, "a.test"), ["GET /", "HEAD /nofollow"]);
    assert_eq!(requests(&web, "b.test"), [""; 0]);
}

#[test]
fn each_failure_is_named() {
    // Bound and not listening.
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let site = Site::new().fallback(move |request| match request.path.as_str() {
        "/" => Response::page(format!(
            "<a href=http://closed.test:{closed}/>x</a><a href=http://unknown.invalid/>x</a><a href=/slow>x</a>\
             <a href=/loop>x</a><a href='http://[bad'>bad</a><a href=http://me:secret@a.test/>x</a><a href=/500>x</a>\
             <a href=/self>x</a>"
        )),
        "/slow" => Response::page("x").delay(Duration::from_secs(30)),
        "/loop" => Response::redirect(302, "/pool"),
        "/pool" => Response::redirect(302, "/loop"),
        "/self" => Response::redirect(302, "/self"),
        "/500" => Response::status(500),
        _ => Response::status(404),
    });
    let web = Web::builder().host("a.test", site).start();
    let report = report(&web, "--timeout 500ms", 1);
    let problems: Vec<String> = report["broken"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| {
            let url = short(&web, finding["url"].as_str().unwrap()).replace(&format!(":{closed}"), "");
            format!("{url} {}", finding["problem"].as_str().unwrap())
        })
        .collect();
    assert_eq!(
        problems,
        [
            "[bad malformed",
            "/500 http",
            "/loop bad-redirect",
            "/self bad-redirect",
            "/slow timeout",
            "closed.test/ connection",
            "unknown.invalid/ dns"
        ]
    );
    let not_checked = found(&web, &report, "not_checked");
    assert_eq!(not_checked, ["…@a.test/: a user name or password in the URL"]);
    assert!(!report.to_string().contains("secret"));
    let text = short(&web, &check(&web, "--timeout 500ms").expect(1).stdout);
    let listed = "Not checked\n\n  …@a.test/\n    a user name or password in the URL\n    linked from 1 page:\n      /  \"x\"\n";
    assert!(text.contains(listed), "{text}");
}

#[test]
fn links_that_redirect_are_judged_by_their_target() {
    let site = Site::new().fallback(|request| {
        let other = request.authority.replace("a.test", "b.test");
        match request.path.as_str() {
            "/" => Response::page("<a href=/moved>x</a><a href=/found>x</a><a href=/lost>x</a>"),
            "/moved" => Response::redirect(301, &format!("http://{other}/here")),
            "/found" => Response::redirect(302, &format!("http://{other}/here")),
            "/lost" => Response::redirect(301, &format!("http://{other}/1")),
            _ => Response::status(404),
        }
    });
    let others = Site::new().redirect("/1", "/2").page("/here", "x");
    let web = Web::builder().host("a.test", site).host("b.test", others).start();
    let report = report(&web, "--redirects", 1);
    assert_eq!(found(&web, &report, "broken"), ["/lost: HTTP 404 Not Found"]);
    assert_eq!(report["broken"][0]["redirects_to"], web.url_of("b.test", "/2"));
    assert_eq!(found(&web, &report, "redirected"), ["/moved: "]);
    assert!(
        requests(&web, "b.test").iter().all(|request| request.starts_with("HEAD ") || request == "GET /2")
    );
    let text = short(&web, &check(&web, "--redirects").expect(1).stdout);
    assert!(text.contains("\n    redirects to b.test/2: HTTP 404 Not Found\n"), "{text}");
    assert!(text.contains("Moved permanently\n\n  /moved\n    moved permanently to b.test/here\n"), "{text}");
}

#[test]
fn accepted_statuses_are_fine_and_excluded_urls_are_not_requested() {
    let web = serve(
        &[(
            "/",
            "<a href=/gone>x</a><a href=http://b.test/1>x</a><a href=http://c.test/1>x</a><img src=http://c.test/2>",
        )],
        |_| Response::status(403),
    );
    let report = report(&web, "--accept 403,404 --exclude c\\.test", 0);
    assert_eq!(found(&web, &report, "not_checked"), ["c.test/1: excluded", "c.test/2: excluded"]);
    assert_eq!(requests(&web, "c.test"), [""; 0]);
    let report = self::report(&web, "--accept-status 400-499", 0);
    assert_eq!(report["counts"]["broken"], 0);
}

#[test]
fn links_of_one_page_are_checked_with_a_depth_of_0() {
    let web = serve(&[("/", "<a href=/a>x</a><a href=/b>x</a>"), ("/a", "<a href=/c>x</a>")], missing);
    let report = report(&web, "--max-depth 0", 1);
    assert_eq!(found(&web, &report, "broken"), ["/b: HTTP 404 Not Found"]);
    assert_eq!(requests(&web, "a.test"), ["GET /", "GET /b", "HEAD /a", "HEAD /b"]);
}

#[test]
fn report_is_written_in_the_format_of_its_name() {
    let web = serve(&[("/", "<a href='/gone?&lt;b>'>\x1b[31m&lt;script>&amp;</a>")], missing);
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    for (name, start) in [
        ("r.txt", "Broken\n"),
        ("r.json", "{\n  \"version\": 1,"),
        (
            "r.xml",
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"links\" tests=\"2\" failures=\"1\"",
        ),
        ("r.md", "## Link check\n"),
        ("r.html", "<!doctype html>\n"),
    ] {
        let ended = check(&web, &format!("--output {}", path(name).display())).expect(1);
        assert!(
            ended.stdout.contains("\nLink check: 1 page, 1 link, 2 URLs checked: 1 broken\n"),
            "{}",
            ended.stdout
        );
        let text = fs::read_to_string(path(name)).unwrap();
        assert!(text.starts_with(start) && text.contains("/gone?"), "{name}: {text}");
        assert!(
            !text.contains('\x1b') && (!["r.xml", "r.html"].contains(&name) || !text.contains("<script>")),
            "{name}: {text}"
        );
        assert!(!Path::new(&format!("{}.records", path(name).display())).exists());
    }
    // A report is not replaced by mistake.
    let before = web.hits();
    let ended = check(&web, &format!("--output {}", path("r.json").display())).expect(2);
    assert!(ended.stderr.contains("(--overwrite)"), "{}", ended.stderr);
    assert_eq!(web.hits(), before);
    check(&web, &format!("--output {} --overwrite", path("r.json").display())).expect(1);
}

#[test]
fn crawl_with_the_module_writes_the_same_report() {
    let web = serve(&[("/", "<a href=/gone>x</a><a href=http://b.test/>x</a>")], missing);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("report.json");
    let ended = Pipeline::bare(web.url_of("a.test", "/"))
        .with("--resolve *=127.0.0.1 --allow-private --scope host")
        .module("check", &path)
        .run()
        .expect(0);
    let report: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(found(&web, &report, "broken"), ["/gone: HTTP 404 Not Found", "b.test/: HTTP 404 Not Found"]);
    assert!(
        ended.stdout.contains("Link check: 1 page, 2 links, 3 URLs checked: 2 broken\n"),
        "{}",
        ended.stdout
    );
}

#[test]
fn check_of_a_site_that_cannot_be_reached_fails_and_says_why() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let ended = run(&["check", &format!("http://127.0.0.1:{closed}/"), "--delay", "0"]).expect(1);
    assert!(ended.stdout.contains("    the check starts from it\n"), "{}", ended.stdout);
    assert!(ended.stderr.contains("no pages crawled; "), "{}", ended.stderr);
}

#[test]
fn invalid_arguments_are_explained() {
    for (arguments, words) in [
        (&["--scope", "any"][..], "must be domain, host or prefix"),
        (&["--accept", "application/pdf"], "must be HTTP statuses like 403,999 or 500-599"),
        (&["--format", "pdf"], "must be text, json, junit, markdown or html"),
        (&["--summary", "-"], "--summary - and the report (without --output) both write to standard output"),
        (&["--module", "jsonl=-"], "the report (without --output) and --module jsonl=- both write"),
        (&["--output", "a,fragments"], "its name has an option of the report after a comma"),
        (&["--output", "report.pdf"], "must end with .txt, .json, .xml, .md or .html"),
        (&["--redis", "redis://127.0.0.1:1/"], "--redis is an option of 'crawler crawl'"),
        (&["--similarity", "0.9"], "--similarity is an option of 'crawler crawl'"),
        (&["--max-pages", "0"], "or unlimited"),
    ] {
        let ended = run(&[&["check", "http://a.test/"], arguments].concat()).expect(2);
        assert!(ended.stderr.contains(words), "{}", ended.stderr);
    }
}

#[test]
fn redirect_loop_of_a_seed_is_reported() {
    let site = Site::new().page("/", "x").redirect("/loop", "/pool").redirect("/pool", "/loop");
    let web = Web::builder().host("a.test", site).start();
    let report = report(&web, &web.url_of("a.test", "/loop"), 1);
    assert_eq!(found(&web, &report, "broken"), ["/loop: too many redirects"]);
    assert_eq!(report["broken"][0]["is_seed"], true);
}

#[test]
fn dash_as_the_file_of_the_report_is_standard_output() {
    let web = serve(&[("/", "x")], missing);
    let ended = check(&web, "--output - --format json").expect(0);
    let report: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{}", ended.stdout));
    assert_eq!(report["counts"]["pages"], 1);
}

#[test]
fn hostile_servers_neither_stop_a_check_nor_fill_the_memory() {
    let paths = Hostile::ALL.iter().map(|hostile| (format!("/{hostile:?}/"), *hostile));
    let others = paths.clone().fold(Site::new().page("/good", "x"), |site, (path, hostile)| {
        site.response(&path, Response::hostile(hostile))
    });
    let paths: Vec<String> = paths.map(|(path, _)| path).chain(["/good".into()]).collect();
    let site = Site::new().fallback(move |request| match request.path.as_str() {
        "/" => {
            let origin = request.origin().replace("a.test", "b.test");
            Response::page(
                paths
                    .iter()
                    .map(|path| format!("<a href={origin}{path}>x</a><img src={path}>"))
                    .collect::<String>(),
            )
        }
        path => match Hostile::ALL.iter().find(|hostile| path == format!("/{hostile:?}/")) {
            Some(hostile) => Response::hostile(*hostile),
            None => Response::status(404),
        },
    });
    let web = Web::builder().host("a.test", site).host("b.test", others).start();
    let ended = check(&web, "--timeout 500ms --fragments --max-host-failures 100 --format json").expect(1);
    assert!(ended.peak_rss < 200 << 20, "{} MB", ended.peak_rss >> 20);
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(report["complete"], true, "{}", report["gaps"]);
    let broken = found(&web, &report, "broken");
    assert!(broken.iter().any(|url| url.starts_with("b.test/GarbageBytes/: ")), "{broken:?}");
    assert!(!broken.iter().any(|url| url.starts_with("b.test/good")), "{broken:?}");
}

#[test]
fn sitemap_that_cannot_be_read_makes_the_check_incomplete() {
    let web = crate::common::serve(Site::new().page("/", "x"));
    let sitemap = web.url_of("a.test", "/none.xml");
    let report = report(&web, &format!("--sitemap {sitemap}"), 0);
    assert_eq!(report["complete"], false, "{report}");
    let gap = report["gaps"][0].as_str().unwrap();
    assert!(gap.starts_with(&format!("{sitemap}: sitemap failed: HTTP 404")), "{gap}");
}

#[test]
fn report_that_cannot_be_printed_is_not_taken_for_broken_links() {
    let web = crate::common::serve(Site::new().page("/", "x"));
    let mut command = binary();
    command.args(["check", &web.url("/"), "--delay", "0", "-q"]);
    command.stdout(fs::File::options().write(true).open("/dev/full").unwrap());
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("cannot write to standard output"), "{stderr}");
}
