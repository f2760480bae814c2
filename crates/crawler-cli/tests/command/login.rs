//! Headers, cookies and credentials: who gets them, where they come from, and where they must not appear.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use testweb::{Certificate, LoggedRequest, Protocol, Request, Response, Site, Web};

use crate::common::{Crawl, Ended, Running, binary, linking_to, run, serve};
use crate::pipeline::{Pipeline, objects_in, urls};

const SECRETS: [&str; 5] =
    ["s3cr-header", "s3cr-cookie", "s3cr-jar", "s3cr-password", "bWU6czNjci1wYXNzd29yZA=="];

/// Two hosts. The first one links to the second one and redirects to it.
fn two_hosts() -> Web {
    let start = |request: &Request| {
        let other = request.origin().replace("a.test", "b.test");
        match request.path.as_str() {
            "/" => Response::page(linking_to(&["/page", "/moved", &format!("{other}/linked")])),
            "/moved" => Response::redirect(302, &format!("{other}/redirected")),
            "/page" => Response::page("a page"),
            _ => Response::status(404),
        }
    };
    let other = Site::new().page("/linked", "linked").page("/redirected", "redirected");
    Web::builder().host("a.test", Site::new().fallback(start)).host("b.test", other).start()
}

/// The values of a header in all requests to a host.
fn sent<'a>(log: impl IntoIterator<Item = &'a LoggedRequest>, name: &str) -> Vec<Option<String>> {
    log.into_iter().map(|hit| hit.header(name).map(str::to_owned)).collect()
}

fn has_all(values: &[Option<String>], expected: &str) -> bool {
    !values.is_empty() && values.iter().all(|value| value.as_deref() == Some(expected))
}

fn has_none(values: &[Option<String>]) -> bool {
    !values.is_empty() && values.iter().all(Option::is_none)
}

fn pipeline_with_robots(seed: String) -> Pipeline {
    Pipeline::bare(seed).with("--resolve *=127.0.0.1 --allow-private --similarity 0")
}

#[test]
fn secrets_go_to_the_hosts_of_the_seeds_only_and_not_along_with_redirects() {
    let web = two_hosts();
    let crawl = pipeline_with_robots(web.url_of("a.test", "/")).with("--auth me:s3cr-password --header");
    let crawl = crawl.with_one("X-Token: s3cr-header").with("--cookie").with_one("id=s3cr-cookie; b=2");
    let ended = crawl.run().expect(0);
    assert_eq!(ended.outcomes()["page"], 4, "{}", ended.stdout);
    let (own, other) = (web.log().for_host("a.test"), web.log().for_host("b.test"));
    assert!(own.paths().contains(&"/robots.txt") && other.paths().contains(&"/redirected"));
    assert!(has_all(&sent(own.iter(), "x-token"), "s3cr-header"));
    assert!(has_all(&sent(own.iter(), "authorization"), "Basic bWU6czNjci1wYXNzd29yZA=="));
    assert!(has_all(&sent(own.iter(), "cookie"), "b=2; id=s3cr-cookie"));
    for name in ["x-token", "authorization", "cookie"] {
        assert!(has_none(&sent(other.iter(), name)), "{name}");
    }
}

#[test]
fn listed_seeds_get_headers_and_credentials_as_others_do() {
    let (web, directory) = (two_hosts(), tempfile::tempdir().unwrap());
    let list = directory.path().join("list.txt");
    fs::write(&list, web.url_of("a.test", "/")).unwrap();
    let listed = || {
        let crawl = Pipeline::bare("--seeds").with_one(list.display().to_string());
        crawl.with("--resolve *=127.0.0.1 --allow-private --similarity 0")
    };
    let crawl =
        listed().with("--header Accept:a/b --header X-Token:1 --header X-Token:2 --bearer-token t0ken");
    let ended = crawl.run().expect(0);
    assert_eq!(ended.outcomes()["page"], 4, "{}", ended.stdout);
    let (own, other) = (web.log().for_host("a.test"), web.log().for_host("b.test"));
    assert!(has_all(&sent(own.iter(), "authorization"), "Bearer t0ken"));
    for hit in own.iter() {
        let values = |wanted: &str| hit.headers.iter().filter(|(name, _)| name == wanted).count();
        assert_eq!((hit.header("accept"), values("accept"), values("x-token")), (Some("a/b"), 1, 2));
    }
    assert!(has_none(&sent(other.iter(), "authorization")) && has_none(&sent(other.iter(), "x-token")));

    let ended = listed().with("--cookie a=b").run().expect(2);
    assert!(ended.stderr.contains("--cookie cannot be used with --seeds: "), "{}", ended.stderr);
}

#[test]
fn programs_do_not_get_the_secrets_of_the_crawler() {
    let (web, directory) = (serve(Site::new().page("/", "x")), tempfile::tempdir().unwrap());
    let variables = directory.path().join("variables");
    let module = format!("exec=env > {}; cat > /dev/null", variables.display());
    let crawl = Pipeline::bare(web.url("/")).with("--module").with_one(module);
    crawl.environment("CRAWLER_AUTH", "me:s3cr-password").environment("OTHER", "kept").run().expect(0);
    let variables = fs::read_to_string(variables).unwrap();
    assert!(variables.contains("OTHER=kept") && !variables.contains("CRAWLER_"), "{variables}");
}

#[test]
fn headers_go_to_all_hosts_if_wanted_but_credentials_do_not() {
    let web = two_hosts();
    let crawl = pipeline_with_robots(web.url_of("a.test", "/")).with("--bearer-token t0ken --header");
    crawl.with_one("X-Token: 1").with("--header Accept:a/b --header-everywhere").run().expect(0);
    assert!(has_all(&sent(web.log().iter(), "x-token"), "1"));
    assert!(web.log().iter().all(|hit| hit.headers.iter().filter(|(name, _)| name == "accept").count() == 1));
    assert!(has_all(&sent(web.log().iter(), "accept"), "a/b"));
    assert!(has_all(&sent(web.log().for_host("a.test").iter(), "authorization"), "Bearer t0ken"));
    assert!(has_none(&sent(web.log().for_host("b.test").iter(), "authorization")));
}

#[test]
fn robots_txt_that_redirects_to_another_host_takes_no_secret_there() {
    let site = |request: &Request| {
        let rules = format!("{}/rules", request.origin().replace("a.test", "b.test"));
        if request.path == "/robots.txt" { Response::redirect(302, &rules) } else { Response::page("x") }
    };
    let web = Web::builder()
        .host("a.test", Site::new().fallback(site))
        .host("b.test", Site::new().text("/rules", ""))
        .start();
    let options = "--resolve *=127.0.0.1 --allow-private --auth me:x --cookie a=b --header X-Token:1";
    Crawl::of(web.url_of("a.test", "/")).with(options).run().expect(0);
    let other = web.log().for_host("b.test");
    assert_eq!(other.paths(), ["/rules"]);
    for name in ["x-token", "authorization", "cookie"] {
        assert!(has_none(&sent(other.iter(), name)), "{name}");
        assert!(web.log().for_host("a.test").iter().all(|hit| hit.header(name).is_some()), "{name}");
    }
}

/// A site that sets a cookie on its start page, and requires it on the others.
fn members_only() -> Site {
    Site::new().fallback(|request| match request.path.as_str() {
        "/" => Response::page(linking_to(&["/1", "/2"])).header("Set-Cookie", "session=s3cr-jar; HttpOnly"),
        "/1" | "/2" if request.header("cookie") == Some("session=s3cr-jar") => {
            Response::page(format!("{} for members, {}", request.path, linking_to(&["/1", "/2"])))
        }
        "/robots.txt" => Response::status(404),
        _ => Response::status(403),
    })
}

#[test]
fn cookies_of_a_login_are_sent_back_if_wanted() {
    let web = serve(members_only());
    let with = Crawl::of(web.url("/")).with("--accept-cookies").run().expect(0);
    assert_eq!(with.sorted_paths(), ["/", "/1", "/2"]);
    let without = Crawl::of(web.url("/")).run().expect(0);
    assert_eq!(without.sorted_paths(), ["/"], "by default, requests are independent of each other");
    let pipeline =
        |options: &str| pipeline_with_robots(web.url("/")).with(options).run().expect(0).outcomes()["page"];
    assert_eq!((pipeline("--accept-cookies --workers 4"), pipeline("")), (3, 1));
}

#[test]
fn page_that_redirects_to_itself_with_a_cookie_is_fetched_again() {
    let site = Site::new().status("/robots.txt", 404).fallback(|request| match request.header("cookie") {
        Some("consent=1") => Response::page(format!("{} {}", request.path, linking_to(&["/more"]))),
        _ => Response::redirect(302, &request.path).header("Set-Cookie", "consent=1; Path=/"),
    });
    let web = serve(site);
    let ended = Crawl::of(web.url("/")).with("--accept-cookies").run().expect(0);
    assert_eq!(
        (ended.sorted_paths(), web.log().paths()),
        (vec!["/".into(), "/more".into()], vec!["/robots.txt", "/", "/", "/more"])
    );
    let pipeline = pipeline_with_robots(web.url("/")).with("--accept-cookies --max-pages 2").run().expect(0);
    assert_eq!(pipeline.outcomes()["page"], 2, "{}", pipeline.stdout);
    // A server that sets another cookie each time is asked once more, and not forever.
    let endless = |request: &Request| {
        let number = request.header("cookie").map_or(0, |cookie| cookie.split(';').count());
        Response::redirect(302, &request.path).header("Set-Cookie", &format!("c{number}=1; Path=/"))
    };
    let web = serve(Site::new().status("/robots.txt", 404).fallback(endless));
    Crawl::of(web.url("/")).with("--accept-cookies").run().expect(1);
    assert_eq!(web.log().for_path("/").len(), 2);
}

#[test]
fn headers_and_cookies_work_over_http2() {
    let web = Web::builder().host("a.test", members_only()).https(Certificate::Good).start();
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root.pem");
    fs::write(&root, web.ca_pem()).unwrap();
    let crawl =
        Crawl::of(web.https_url_of("a.test", "/")).with("--resolve *=127.0.0.1 --accept-cookies --ca-file");
    let crawl = crawl.with_one(root.display().to_string()).with("--auth me:x --header X-Token:1");
    assert_eq!(crawl.run().expect(0).pages().len(), 3);
    assert!(web.log().iter().all(|hit| hit.protocol == Protocol::H2));
    assert!(has_all(&sent(web.log().iter(), "x-token"), "1"));
    assert!(has_all(&sent(web.log().iter(), "authorization"), "Basic bWU6eA=="));
}

#[test]
fn attributes_of_cookies_are_obeyed() {
    let start = |request: &Request| {
        let to =
            |host: &str, path: &str| format!("{}{path}", request.origin().replace("www.shop.test", host));
        let links =
            [to("www.shop.test", "/x/in"), to("api.shop.test", "/"), to("other.test", "/"), "/out".into()];
        let page = Response::page(linking_to(&links.each_ref().map(String::as_str)));
        let cookies = [
            "own=1",
            "all=2; Domain=shop.test",
            "path=3; Path=/x",
            "secure=4; Secure",
            "gone=5; Max-Age=0",
            "old=6; Expires=Thu, 01 Jan 2015 00:00:00 GMT",
            "foreign=7; Domain=other.test",
            "suffix=8; Domain=test",
            "kept=9; Max-Age=3600",
        ];
        match request.path.as_str() {
            "/" => cookies.iter().fold(page, |page, cookie| page.header("Set-Cookie", cookie)),
            path => Response::page(path.to_owned()),
        }
    };
    let page = |_: &Request| Response::page("x");
    let web = Web::builder()
        .host("www.shop.test", Site::new().fallback(start))
        .site(Site::new().fallback(page))
        .start();
    let crawl = Pipeline::of(web.url_of("www.shop.test", "/")).with("--accept-cookies --similarity 0");
    assert_eq!(crawl.run().expect(0).outcomes()["page"], 5);
    let cookie = |host: &str, path: &str| sent(web.log().for_host(host).for_path(path).iter(), "cookie");
    assert_eq!(cookie("www.shop.test", "/out"), [Some("all=2; kept=9; own=1".into())]);
    assert_eq!(cookie("www.shop.test", "/x/in"), [Some("path=3; all=2; kept=9; own=1".into())]);
    assert_eq!(cookie("api.shop.test", "/"), [Some("all=2".into())]);
    assert_eq!(cookie("other.test", "/"), [None]);
}

#[test]
fn cookie_for_a_public_suffix_is_refused() {
    let start = |request: &Request| {
        let other = request.origin().replace("mallory.github.io", "alice.github.io");
        Response::page(linking_to(&["/own", &format!("{other}/")]))
            .header("Set-Cookie", "evil=1; Domain=github.io")
            .header("Set-Cookie", "own=1; Domain=mallory.github.io")
    };
    let web = Web::builder()
        .host("mallory.github.io", Site::new().fallback(start))
        .host("alice.github.io", Site::new().page("/", "alice"))
        .start();
    Pipeline::of(web.url_of("mallory.github.io", "/")).with("--accept-cookies").run().expect(0);
    assert_eq!(sent(web.log().for_host("alice.github.io").iter(), "cookie"), [None]);
    assert_eq!(sent(web.log().for_path("/own").iter(), "cookie"), [Some("own=1".into())]);
}

#[test]
fn server_with_endless_cookies_does_not_swell_the_crawler() {
    let flood = |request: &Request| {
        let number: usize = request.path[1..].parse().unwrap_or(0);
        let page = Response::page(linking_to(&[&format!("/{}", (number + 1) % 200)]));
        (0..60).fold(page, |page, cookie| {
            page.header(
                "Set-Cookie",
                &format!("c{number}-{cookie}={}; Max-Age=9999999999999", "x".repeat(1900)),
            )
        })
    };
    let web = serve(Site::new().fallback(flood));
    let ended = Pipeline::of(web.url("/0")).with("--accept-cookies --similarity 0").run().expect(0);
    assert_eq!(ended.outcomes()["page"], 200);
    assert!(ended.peak_rss < 100 << 20, "{}", ended.peak_rss);
    assert!(web.log().iter().all(|hit| hit.header("cookie").is_none_or(|cookie| cookie.len() <= 16 * 1024)));
}

#[test]
fn cookie_file_is_read_and_written_also_after_a_limit_and_a_signal() {
    let web = serve(members_only());
    let directory = tempfile::tempdir().unwrap();
    let (given, saved) = (directory.path().join("given.txt"), directory.path().join("saved.txt"));
    let line = "#HttpOnly_127.0.0.1\tFALSE\t/\tFALSE\t0\tsession\ts3cr-jar\n";
    fs::write(
        &given,
        format!("# Netscape HTTP Cookie File\n\n{line}.b.test\tTRUE\t/\tTRUE\t4102444800\tkept\t1\n"),
    )
    .unwrap();
    let expected =
        format!("# Netscape HTTP Cookie File\n.b.test\tTRUE\t/\tTRUE\t4102444800\tkept\t1\n{line}");
    let files = |crawl: Pipeline| {
        let crawl = crawl.with("--cookies").with_one(given.display().to_string());
        crawl.with("--save-cookies").with_one(saved.display().to_string())
    };
    let check = || {
        assert_eq!(fs::read_to_string(&saved).unwrap(), expected);
        assert_eq!(fs::metadata(&saved).unwrap().permissions().mode() & 0o777, 0o600);
        fs::remove_file(&saved).unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "no temporary file is left");
    };
    let ended = files(Pipeline::bare(web.url("/1"))).run().expect(0);
    assert_eq!(ended.outcomes()["page"], 2);
    check();
    files(Pipeline::bare(web.url("/1")).with("--max-pages 1")).run().expect(0);
    check();
    let mut running = files(Pipeline::bare(web.url("/1")).with("--delay 30s --ignore-robots")).start();
    running.until("the first page", |_| web.log().for_path("/1").len() >= 3);
    running.signal(Signal::INT);
    running.wait().expect(130);
    check();
    // The file that was written can be given again, and replaced.
    fs::write(&saved, &expected).unwrap();
    let classic = Crawl::of(web.url("/1")).with("--cookies").with_one(saved.display().to_string());
    let ended = classic.with("--save-cookies").with_one(saved.display().to_string()).run().expect(0);
    assert_eq!(ended.sorted_paths(), ["/1", "/2"]);
    check();
}

#[test]
fn values_come_from_files_and_the_environment_and_options_take_precedence() {
    let web = two_hosts();
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        fs::write(directory.path().join(name), text).unwrap();
        format!("@{}", directory.path().join(name).display())
    };
    let seed = web.url_of("a.test", "/page");
    let crawl = || Pipeline::of(seed.clone()).with("--scope prefix");
    crawl()
        .environment("CRAWLER_HEADER", "X-A: 1\nX-B: 2\n")
        .environment("CRAWLER_BEARER_TOKEN", "t0ken")
        .environment("CRAWLER_COOKIE", "id=1")
        .run()
        .expect(0);
    let given = crawl().with("--header").with_one(file("headers", "# comment\n\nX-A: file:1\r\nX-C:3\n"));
    let given = given.with("--header X-D:4 --auth").with_one(file("auth", "me:pass:word\n"));
    let given = given.with("--cookie").with_one(file("cookie", "id=file\n"));
    given
        .environment("CRAWLER_HEADER", "X-B: 2")
        .environment("CRAWLER_BEARER_TOKEN", "t0ken")
        .run()
        .expect(0);
    let log = web.log();
    let header = |index: usize, name: &str| log[index].header(name).unwrap_or("none").to_owned();
    assert_eq!([header(0, "x-a"), header(0, "x-b"), header(0, "cookie")], ["1", "2", "id=1"]);
    assert_eq!(header(0, "authorization"), "Bearer t0ken");
    assert_eq!(["x-a", "x-b", "x-c", "x-d"].map(|name| header(1, name)), ["file:1", "none", "3", "4"]);
    assert_eq!([header(1, "authorization"), header(1, "cookie")], ["Basic bWU6cGFzczp3b3Jk", "id=file"]);
}

/// Rejects these arguments before anything is fetched, and repeats no secret.
#[track_caller]
fn is_refused(arguments: &[&str], words: &str) {
    let ended = run(&[&["crawl", "http://127.0.0.1:1/"], arguments].concat()).expect(2);
    assert!(ended.stderr.contains(words), "{}", ended.stderr);
    assert!(!ended.stderr.contains("s3cr"), "{}", ended.stderr);
}

#[test]
fn what_cannot_be_sent_is_refused_without_repeating_it() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &[u8]| {
        fs::write(directory.path().join(name), text).unwrap();
        directory.path().join(name).display().to_string()
    };
    is_refused(&["--header", "X-A: s3cr\r\nHost: evil"], "line break");
    is_refused(&["--header", "s3cr"], "NAME: VALUE");
    is_refused(&["--header", "my s3cr: x"], "its name is not a token");
    for name in ["Host", "content-length", "Connection", "Transfer-Encoding", "Accept-Encoding", "TE"] {
        is_refused(&["--header", &format!("{name}: s3cr")], "the HTTP client sets it");
    }
    is_refused(&["--header", "User-Agent: s3cr"], "use --user-agent");
    is_refused(&["--header", &format!("X-A: s3cr{}", "x".repeat(20_000))], "longer than 16 KB");
    is_refused(&["--header", "Authorization: s3cr", "--auth", "me:s3cr"], "use one of the two");
    is_refused(&["--header", "Cookie: s3cr", "--accept-cookies"], "use one of the two");
    is_refused(&["--auth", "s3cr"], "USER:PASSWORD");
    is_refused(&["--auth", "me:s3cr", "--bearer-token", "s3cr"], "cannot be used with");
    is_refused(&["--bearer-token", "s3cr\nX: y"], "bearer token");
    is_refused(&["--cookie", "s3cr"], "NAME=VALUE");
    is_refused(&["--cookie", "a=s3cr\nb"], "HTTP forbids");
    is_refused(&["--header", "@/no/such/file"], "cannot use --header '@/no/such/file': No such file");
    is_refused(&["--auth", &format!("@{}", file("big", &[b'x'; 200_000]))], "more than 100000 bytes");
    is_refused(&["--auth", &format!("@{}", file("binary", b"me:s3cr\xff"))], "not UTF-8");
    is_refused(&["--cookies", "/no/such/file"], "cannot use --cookies '/no/such/file'");
    is_refused(
        &["--cookies", &file("bad", b"# x\n\na.test\tTRUE\ts3cr\n")],
        "line 3: it has 3 instead of 7 fields",
    );
    is_refused(&["--save-cookies", "/no/such/dir/file"], "cannot write --save-cookies");
    let mut both = binary();
    both.args(["crawl", "http://127.0.0.1:1/"])
        .env("CRAWLER_AUTH", "a:b")
        .env("CRAWLER_BEARER_TOKEN", "s3cr");
    let ended = Running::start(both, "/nowhere".into(), None).wait().expect(2);
    assert!(
        ended.stderr.contains("CRAWLER_AUTH cannot be used with CRAWLER_BEARER_TOKEN")
            && !ended.stderr.contains("s3cr"),
        "{}",
        ended.stderr
    );
}

/// The bytes of all files below a directory.
fn all_bytes(directory: &Path) -> Vec<u8> {
    fs::read_dir(directory).unwrap().fold(Vec::new(), |mut bytes, entry| {
        let path = entry.unwrap().path();
        bytes.extend(if path.is_dir() { all_bytes(&path) } else { fs::read(path).unwrap() });
        bytes
    })
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// A durable crawl of the members' site with secrets of every kind, none of them in its arguments.
fn secretive(web: &Web, directory: &Path, secrets: &Path) -> Pipeline {
    let path = |name: &str| directory.join(name).display().to_string();
    fs::write(secrets.join("header"), "X-Token: s3cr-header\n").unwrap();
    fs::write(secrets.join("jar"), "127.0.0.1\tFALSE\t/\tFALSE\t0\tsession\ts3cr-jar\n").unwrap();
    pipeline_with_robots(web.url("/"))
        .environment("CRAWLER_AUTH", "me:s3cr-password")
        .environment("CRAWLER_COOKIE", "extra=s3cr-cookie")
        .with("--header")
        .with_one(format!("@{}", secrets.join("header").display()))
        .with("--cookies")
        .with_one(secrets.join("jar").display().to_string())
        .with("--delay 200ms -v --module")
        .with_one(format!("jsonl={}", path("pages.jsonl")))
        .with("--summary")
        .with_one(path("summary.json"))
        .with("--state")
        .with_one(path("state"))
}

fn shows_no_secret(ended: &Ended, directory: &Path) {
    let bytes =
        [all_bytes(directory), ended.stdout.clone().into_bytes(), ended.stderr.clone().into_bytes()].concat();
    assert!(contains(&bytes, "pages.jsonl"), "the state is among the bytes");
    for secret in SECRETS {
        assert!(!contains(&bytes, secret), "{secret}");
    }
}

#[test]
fn secrets_are_in_no_state_output_message_or_argument() {
    let site = |request: &Request| match request.header("cookie") {
        Some("extra=s3cr-cookie; session=s3cr-jar") => {
            let page = linking_to(&["/1", "/2", "/3"]);
            let cookie = "late=s3cr-cookie";
            Response::page(format!("{} {page}", request.path)).header("Set-Cookie", cookie)
        }
        Some("extra=s3cr-cookie; late=s3cr-cookie; session=s3cr-jar") if request.path == "/3" => {
            Response::status(500)
        }
        Some(_) => Response::page(request.path.clone()).delay(Duration::from_millis(20)),
        None => Response::status(403),
    };
    let web = serve(Site::new().status("/robots.txt", 404).fallback(site));
    let (directory, secrets) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut running = secretive(&web, directory.path(), secrets.path()).start();
    running.until("the first page", |_| web.log().for_path("/").len() == 1);
    let arguments = fs::read(format!("/proc/{}/cmdline", running.id())).unwrap();
    running.signal(Signal::INT);
    let ended = running.wait().expect(130);
    assert!(contains(&arguments, "--header") && !SECRETS.iter().any(|secret| contains(&arguments, secret)));
    shows_no_secret(&ended, directory.path());
    let state = directory.path().join("state").display().to_string();
    let mut without = binary();
    without.args(["resume", &state, "--max-pages", "1"]);
    let ended = Running::start(without, "/nowhere".into(), None).wait();
    let names = "was started with --auth, --cookie, --cookies, --header, whose values are not stored";
    assert!(ended.stderr.contains(names), "{}", ended.stderr);
    // The same command has them all, and so can resume.
    let ended = secretive(&web, directory.path(), secrets.path()).run().expect(0);
    assert!(!ended.stderr.contains("not stored"), "{}", ended.stderr);
    shows_no_secret(&ended, directory.path());
    assert_eq!(urls(&objects_in(&directory.path().join("pages.jsonl"))).len(), 3);
    assert!(web.log().for_path("/2").iter().all(|hit| hit.header("x-token") == Some("s3cr-header")));
}

#[test]
fn resume_takes_secrets_again() {
    let web = serve(members_only());
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state").display().to_string();
    let crawl =
        Pipeline::bare(web.url("/1")).with("--similarity 0 --max-pages 1 --cookie session=s3cr-jar --state");
    assert_eq!(crawl.with_one(state.clone()).run().expect(0).outcomes()["page"], 1);
    let resume = run(&["resume", &state, "--max-pages", "9", "--cookie", "session=s3cr-jar"]).expect(0);
    assert_eq!(resume.outcomes()["page"], 2, "{}", resume.stdout);
    assert!(!resume.stderr.contains("not stored"), "{}", resume.stderr);
}

#[test]
fn robots_txt_that_redirects_to_itself_with_a_cookie_is_fetched_again_and_obeyed() {
    let consent = |path: &str| Response::redirect(302, path).header("Set-Cookie", "consent=1; Path=/");
    let site = Site::new().fallback(move |request| match (&*request.path, request.header("cookie")) {
        (path, None) => consent(path),
        ("/robots.txt", _) => Response::text("User-agent: *\nDisallow: /no"),
        (path, _) => Response::page(format!("{path} {}", linking_to(&["/no", "/yes"]))),
    });
    let web = serve(site);
    let classic = Crawl::of(web.url("/")).with("--accept-cookies").run().expect(0);
    assert_eq!(
        (classic.sorted_paths(), classic.outcomes()["robots.txt"]),
        (vec!["/".into(), "/yes".into()], 1)
    );
    let pipeline = pipeline_with_robots(web.url("/")).with("--accept-cookies").run().expect(0);
    assert_eq!((pipeline.outcomes()["page"], pipeline.outcomes()["robots.txt"]), (2, 1));
    assert_eq!(web.log().for_path("/robots.txt").len(), 4);
    assert!(!web.log().paths().contains(&"/no"));
    // A server that sets another cookie each time is asked once more, and not forever.
    let endless = |request: &Request| {
        let number = request.header("cookie").map_or(0, |cookie| cookie.split(';').count());
        Response::redirect(302, &request.path).header("Set-Cookie", &format!("c{number}=1; Path=/"))
    };
    let web = serve(Site::new().fallback(endless));
    Crawl::of(web.url("/")).with("--accept-cookies").run().expect(1);
    assert_eq!(web.log().paths(), ["/robots.txt", "/robots.txt"]);
}
