//! Proxies: which requests go through them, what they and the servers see, and what happens when they fail.

use std::fs;
use std::path::Path;

use testweb::{Certificate, Proxy, ProxyFault, Site, Web};

use crate::common::{Crawl, Ended, binary, linking_to, serve};
use crate::pipeline::{Pipeline, objects_in};

/// The names of these hosts are known to the proxies only.
const HOSTS: [&str; 2] = ["a.test", "b.test"];

/// Two hosts that link to each other, over http or https.
fn web(https: bool) -> (Web, String) {
    // A page has to name the other host with its port, which is known when the server has started.
    let links = |other: &'static str, request: &testweb::Request| {
        let origin = request
            .origin()
            .replace(HOSTS[0], "h")
            .replace(HOSTS[1], "h")
            .replace("//h", &format!("//{other}"));
        testweb::Response::page(linking_to(&["/1", "/2", &format!("{origin}/")]))
    };
    let site = |other: &'static str| {
        Site::new()
            .page("/1", "one")
            .page("/2", "two")
            .status("/robots.txt", 404)
            .fallback(move |request| links(other, request))
    };
    let web = Web::builder().host(HOSTS[0], site(HOSTS[1])).host(HOSTS[1], site(HOSTS[0]));
    let web = if https { web.https(Certificate::Good) } else { web }.start();
    let seed = if https { web.https_url_of(HOSTS[0], "/") } else { web.url_of(HOSTS[0], "/") };
    (web, seed)
}

/// A file with these certificates.
fn pem_file(directory: &Path, pems: &[&str]) -> String {
    let path = directory.join("certificates.pem");
    fs::write(&path, pems.concat()).unwrap();
    path.display().to_string()
}

/// Crawls both hosts, in the pipeline.
fn crawl(web: &Web, seed: &str, pems: &[&str], options: &str) -> Ended {
    let directory = tempfile::tempdir().unwrap();
    let root = web.ca_pem();
    let pems: Vec<&str> = pems.iter().copied().chain([root.as_str()]).filter(|pem| !pem.is_empty()).collect();
    let mut pipeline = Pipeline::bare(seed).with("--similarity 0").with(options);
    if !pems.is_empty() {
        pipeline = pipeline.with("--ca-file").with_one(pem_file(directory.path(), &pems));
    }
    pipeline.run()
}

#[test]
fn http_is_forwarded_and_https_is_tunnelled() {
    for https in [false, true] {
        let ((web, seed), proxy) = (web(https), Proxy::http().start());
        let ended = crawl(&web, &seed, &[], &format!("--proxy {}", proxy.url())).expect(0);
        assert_eq!(ended.outcomes()["page"], 6, "{}", ended.stderr);
        assert_eq!(web.log().for_path("/robots.txt").len(), 2, "robots.txt goes through the proxy, too");
        assert_eq!(ended.summary().requests, web.log().len() as u64);
        let log = proxy.log();
        if https {
            let targets: Vec<_> = log.iter().map(|request| (&*request.method, &*request.target)).collect();
            let port = web.https_port();
            for host in HOSTS {
                assert!(targets.contains(&("CONNECT", &format!("{host}:{port}"))), "{targets:?}");
            }
        } else {
            assert!(log.iter().all(|request| request.method == "GET"), "{log:?}");
            assert!(log.iter().any(|request| request.target == web.url_of("b.test", "/1")), "{log:?}");
            assert_eq!(log.len(), web.log().len());
            let host = log[0].header("host").unwrap();
            assert_eq!(host, format!("a.test:{}", web.port()));
        }
    }
}

#[test]
fn classic_crawl_goes_through_the_proxy() {
    let ((web, seed), proxy) = (web(false), Proxy::socks5().start());
    let ended = Crawl::of(&seed).with("--proxy").with_one(proxy.url()).run().expect(0);
    assert_eq!(ended.sorted_paths(), ["/", "/1", "/2"]);
    assert!(proxy.log().iter().all(|request| request.by_name && request.target.starts_with("a.test:")));
    assert_eq!(web.log().for_host("a.test").len(), web.log().len());
}

#[test]
fn socks5_proxy_gets_names_or_addresses() {
    for https in [false, true] {
        let ((web, seed), proxy) = (web(https), Proxy::socks5().start());
        let ended = crawl(&web, &seed, &[], &format!("--proxy {}", proxy.url())).expect(0);
        assert_eq!(ended.outcomes()["page"], 6, "{}", ended.stderr);
        assert!(proxy.log().iter().all(|request| request.by_name), "{:?}", proxy.log());
        // The crawler resolves the names, and checks the addresses.
        let local = proxy.url().replace("socks5h", "socks5");
        let before = proxy.log().len();
        let resolved = format!("--proxy {local} --resolve *=127.0.0.1");
        let ended = crawl(&web, &seed, &[], &resolved).expect(0);
        assert_eq!(ended.outcomes()["private address"], 1, "{}", ended.stdout);
        let ended = crawl(&web, &seed, &[], &format!("{resolved} --allow-private")).expect(0);
        assert_eq!(ended.outcomes()["page"], 6, "{}", ended.stderr);
        let log = proxy.log();
        assert!(
            log[before..].iter().all(|request| !request.by_name && request.target.starts_with("127.0.0.1:"))
        );
    }
}

#[test]
fn proxy_can_speak_tls() {
    for https in [false, true] {
        let ((web, seed), proxy) = (web(https), Proxy::http().tls().start());
        let ended = crawl(&web, &seed, &[proxy.ca_pem()], &format!("--proxy {}", proxy.url())).expect(0);
        assert_eq!(ended.outcomes()["page"], 6, "{}", ended.stderr);
        let ended =
            crawl(&web, &seed, &[], &format!("--proxy {} --network-timeout 1ms", proxy.url())).expect(1);
        assert!(
            ended.stderr.contains("cannot be trusted: the certificate is signed by an unknown authority"),
            "{}",
            ended.stderr
        );
    }
}

#[test]
fn credentials_reach_the_proxy_and_nothing_else() {
    for https in [false, true] {
        for proxy in [Proxy::http(), Proxy::socks5()] {
            let ((web, seed), proxy) = (web(https), proxy.credentials("me", "hu:sh").start());
            let directory = tempfile::tempdir().unwrap();
            let path = |name: &str| directory.path().join(name).display().to_string();
            let options =
                format!("--state {} --summary {} -v --max-pages 2", path("state"), path("summary.json"));
            let pems = pem_file(directory.path(), &[&web.ca_pem()]);
            let run = |url: String| {
                let pipeline = Pipeline::bare(&seed).with("--similarity 0").with(&options);
                let pipeline = if https { pipeline.with("--ca-file").with_one(&pems) } else { pipeline };
                // In the environment, where other users do not see it.
                pipeline.environment("CRAWLER_PROXY", &url).run()
            };
            let ended = run(proxy.url_with("me:hu%3Ash")).expect(0);
            assert_eq!(ended.outcomes()["page"], 2, "{}", ended.stderr);
            assert!(web.log().iter().all(|hit| hit.header("proxy-authorization").is_none()));
            let mut texts = vec![ended.stdout.into_bytes(), ended.stderr.into_bytes()];
            texts.extend(
                fs::read_dir(directory.path().join("state"))
                    .unwrap()
                    .map(|file| fs::read(file.unwrap().path()).unwrap()),
            );
            texts.push(fs::read(path("summary.json")).unwrap());
            for text in texts {
                let text = String::from_utf8_lossy(&text);
                assert!(
                    !text.contains("hu:sh") && !text.contains("hu%3Ash") && !text.contains("bWU6aHU6c2g"),
                    "{text}"
                );
            }
        }
    }
}

#[test]
fn wrong_or_missing_credentials_are_an_error_that_names_the_proxy() {
    for https in [false, true] {
        for proxy in [Proxy::http(), Proxy::socks5()] {
            let ((web, seed), proxy) = (web(https), proxy.credentials("me", "right").start());
            for (url, what) in [
                (proxy.url(), "requires a user name and password"),
                (proxy.url_with("me:hush"), "rejects the user name and password"),
            ] {
                let ended = crawl(&web, &seed, &[], &format!("--proxy {url} --network-timeout 1s")).expect(1);
                let message = format!("cannot continue: the proxy {} {what}", proxy.url());
                assert!(ended.stderr.contains(&message), "{}", ended.stderr);
                assert!(!ended.stderr.contains("hush") && web.log().is_empty(), "{}", ended.stderr);
            }
        }
    }
}

#[test]
fn environment_selects_the_proxy_unless_options_do() {
    let ((web, seed), proxy, other) = (web(false), Proxy::http().start(), Proxy::http().start());
    let pipeline = || Pipeline::bare(&seed).with("--similarity 0");
    for variable in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
        let ended = pipeline().environment(variable, &proxy.url()).run().expect(0);
        assert_eq!(ended.outcomes()["page"], 6, "{variable}: {}", ended.stderr);
    }
    let used = proxy.log().len();
    // The option comes first, then the crawler's own variable.
    let own =
        || pipeline().environment("http_proxy", &proxy.url()).environment("CRAWLER_PROXY", &other.url());
    own().run().expect(0);
    assert!(!other.log().is_empty());
    own()
        .environment("CRAWLER_PROXY", "http://127.0.0.1:1")
        .with("--proxy")
        .with_one(other.url())
        .run()
        .expect(0);
    assert_eq!(proxy.log().len(), used);
    // Without a proxy, the names do not exist.
    let ended = own().with("--no-proxy").run().expect(1);
    assert!(ended.stderr.contains("DNS"), "{}", ended.stderr);
    let hits = web.log().len();
    let direct = own().environment("NO_PROXY", "x.test, .test").with("--resolve *=127.0.0.1 --allow-private");
    assert_eq!(direct.run().expect(0).outcomes()["page"], 6);
    assert!(web.log().len() > hits && proxy.log().len() == used);
}

#[test]
fn unusable_proxy_settings_are_usage_errors_without_the_password() {
    for url in
        ["ftp://me:hush@p.test", "http://me:hush@p.test/x", "socks4://me:hush@p.test", "http://me:hush@"]
    {
        let ended = Pipeline::bare("http://a.test/").with("--proxy").with_one(url).run().expect(2);
        assert!(
            ended.stderr.contains("--proxy: cannot use the proxy") && !ended.stderr.contains("hush"),
            "{}",
            ended.stderr
        );
        let ended = Crawl::of("http://a.test/").environment("https_proxy", url).run().expect(2);
        assert!(
            ended.stderr.contains("https_proxy: cannot use the proxy") && !ended.stderr.contains("hush"),
            "{}",
            ended.stderr
        );
        Crawl::of(serve(Site::new().page("/", "x")).url("/"))
            .environment("http_proxy", url)
            .with("--no-proxy")
            .run();
    }
    let both = Pipeline::bare("http://a.test/").with("--proxy http://p.test --no-proxy").run().expect(2);
    assert!(both.stderr.contains("--no-proxy"), "{}", both.stderr);
}

#[test]
fn faults_of_a_proxy_are_errors_that_name_it() {
    use ProxyFault::{Close, EndlessHeader, Garbage, Hang, SocksReply, Status};
    let (http, socks) = (Proxy::http().start(), Proxy::socks5().start());
    let cases = [
        (&http, true, Close, "closed the connection without a reply"),
        (&http, true, Hang, "did not connect to a.test"),
        (&http, true, Garbage, "does not reply to CONNECT with HTTP"),
        (&http, true, EndlessHeader, "bytes of headers"),
        (&http, true, Status(407), "requires a user name and password"),
        (&http, true, Status(502), "cannot connect to a.test"),
        (&http, true, Status(403), "refuses to connect to a.test"),
        (&http, false, Close, "closed before the response was complete"),
        (&http, false, Hang, "the request through the proxy took longer"),
        (&http, false, Garbage, "through the proxy"),
        (&http, false, EndlessHeader, "through the proxy"),
        (&http, false, Status(407), "requires a user name and password"),
        (&http, false, Status(502), "HTTP 502"),
        (&socks, true, Close, "closed the connection without a reply"),
        (&socks, false, Hang, "did not connect to a.test"),
        (&socks, true, Garbage, "does not speak SOCKS5"),
        (&socks, false, SocksReply(2), "refuses to connect to a.test"),
        (&socks, true, SocksReply(5), "connection refused"),
    ];
    for (proxy, https, fault, words) in cases {
        let (web, seed) = web(https);
        proxy.set_fault(Some(fault));
        let options = "--ignore-robots --connect-timeout 500ms --timeout 1s --network-timeout 300ms --max-host-failures 1";
        let ended = crawl(&web, &seed, &[], &format!("--proxy {} {options}", proxy.url())).expect(1);
        assert!(ended.stderr.contains(words), "{fault:?}, https {https}: {}", ended.stderr);
        let names_it = ended.stderr.contains(&proxy.url()) || matches!(fault, Hang | Status(502)) && !https;
        assert!(names_it, "{fault:?}, https {https}: {}", ended.stderr);
        assert!(web.log().is_empty() && ended.peak_rss < 200 << 20);
    }
}

#[test]
fn status_407_of_a_server_behind_a_proxy_is_a_response_of_that_server() {
    let hostile = Site::new().status("/robots.txt", 404).fallback(|_| testweb::Response::status(407));
    let linking = |request: &testweb::Request| {
        let hostile = request.origin().replace(HOSTS[0], HOSTS[1]);
        testweb::Response::page(linking_to(&[&format!("{hostile}/1"), &format!("{hostile}/2")]))
    };
    let linking = Site::new().status("/robots.txt", 404).fallback(linking);
    let web = Web::builder().host(HOSTS[0], linking).host(HOSTS[1], hostile).start();
    let (proxy, seed) = (Proxy::http().start(), web.url_of(HOSTS[0], "/"));
    let ended =
        crawl(&web, &seed, &[], &format!("--proxy {} --network-timeout 300ms", proxy.url())).expect(0);
    assert_eq!(ended.outcomes()["page"], 1, "{}", ended.stdout);
    assert!(ended.stdout.contains("HTTP 407 ×2"), "{}", ended.stdout);
    assert_eq!(web.log().len(), 5);
}

#[test]
fn unreachable_proxy_is_an_error_and_the_state_can_be_resumed() {
    let (web, seed) = web(false);
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state").display().to_string();
    let port = Proxy::http().start().port();
    let crawl =
        Pipeline::bare(&seed).with(&format!("--similarity 0 --network-timeout 200ms --state {state}"));
    let ended = crawl.with(&format!("--proxy http://me:hush@127.0.0.1:{port}")).run().expect(1);
    let message = format!(
        "cannot continue: the proxy http://127.0.0.1:{port} cannot be reached: 127.0.0.1:{port}: connection refused"
    );
    assert!(
        ended.stderr.contains(&message) && ended.stderr.contains("(--proxy, --no-proxy)"),
        "{}",
        ended.stderr
    );
    assert!(ended.stderr.contains(&format!("to resume: crawler resume {state}")), "{}", ended.stderr);
    assert!(ended.stdout.ends_with("\nStopped: the proxy cannot be used\n"), "{}", ended.stdout);
    assert!(!ended.stderr.contains("hush") && web.log().is_empty());

    let resume = |options: &[&str]| {
        let mut command = binary();
        command.args(["resume", &state]).args(options);
        crate::common::Running::start(command, "/nowhere".into(), None).wait()
    };
    let without = resume(&[]).expect(2);
    assert!(
        without.stderr.contains("started with a proxy, which is not saved; give it again with --proxy"),
        "{}",
        without.stderr
    );
    let without = Pipeline::bare(&seed).with(&format!("--similarity 0 --state {state}")).run().expect(2);
    assert!(without.stderr.contains("started with a proxy, which is not saved"), "{}", without.stderr);
    let proxy = Proxy::http().port(port).start();
    let ended = resume(&["--proxy", &proxy.url()]).expect(0);
    assert_eq!(ended.outcomes()["page"], 6, "no URL failed: {}", ended.stderr);
}

#[test]
fn crawl_waits_for_a_proxy_that_fails_and_no_url_fails() {
    for https in [false, true] {
        let (web, seed) = web(https);
        let proxy = Proxy::http().start();
        let (port, directory) = (proxy.port(), tempfile::tempdir().unwrap());
        let mut pipeline =
            Pipeline::bare(&seed).with(&format!("--similarity 0 --proxy {} --delay 100ms", proxy.url()));
        if https {
            pipeline = pipeline.with("--ca-file").with_one(pem_file(directory.path(), &[&web.ca_pem()]));
        }
        let mut running = pipeline.start();
        running.until("a page was fetched", |_| web.hits() >= 2);
        drop(proxy);
        running.until_message("requests wait for it, for up to 10m");
        let proxy = Proxy::http().port(port).start();
        running.until_message("works again");
        let ended = running.wait().expect(0);
        assert_eq!(
            ended.outcomes().into_iter().collect::<Vec<_>>(),
            [("page".to_owned(), 6)],
            "{}",
            ended.stderr
        );
        assert!(!proxy.log().is_empty());
    }
}

#[test]
fn outputs_are_complete_when_a_proxy_is_given_up() {
    let (web, seed) = web(false);
    let (proxy, directory) = (Proxy::http().start(), tempfile::tempdir().unwrap());
    let path = |name: &str| directory.path().join(name);
    let crawl = Pipeline::bare(&seed)
        .with(&format!("--similarity 0 --proxy {} --delay 300ms --network-timeout 200ms", proxy.url()));
    let mut running = crawl.module("parquet", &path("pages")).module("urls", &path("urls")).start();
    running.until("a page was fetched", |_| web.hits() >= 3);
    drop(proxy);
    let ended = running.wait().expect(1);
    assert!(ended.stderr.contains("cannot continue: the proxy"), "{}", ended.stderr);
    assert!(fs::read(path("pages")).unwrap().ends_with(b"PAR1") && !path("pages.records").exists());
    let rows = objects_in(&path("urls"));
    let count = |outcome: &str| rows.iter().filter(|row| row["outcome"] == outcome).count();
    assert!(count("page") > 0 && count("not reached") > 0, "{rows:?}");
}

#[test]
fn classic_crawl_waits_for_a_proxy_too() {
    let (web, seed) = web(false);
    let proxy = Proxy::socks5().start();
    let port = proxy.port();
    let mut running = Crawl::of(&seed).delay("100ms").with("--proxy").with_one(proxy.url()).start();
    running.until("a page was fetched", |_| web.hits() >= 2);
    drop(proxy);
    running.until_message("requests wait for it");
    let _proxy = Proxy::socks5().port(port).start();
    let ended = running.wait().expect(0);
    assert_eq!(ended.sorted_paths(), ["/", "/1", "/2"]);
}

#[test]
fn addresses_in_links_are_checked_although_the_proxy_resolves_names() {
    let proxy = Proxy::http().start();
    let links = [
        "http://10.0.0.1/",
        "http://127.0.0.1:1/",
        "http://[::1]/",
        "https://192.168.1.1/",
        "http://localhost:1/",
        "http://x.localhost/",
    ];
    let web = Web::builder().host("a.test", Site::new().page("/", linking_to(&links))).start();
    let ended = Pipeline::bare(web.url_of("a.test", "/"))
        .with("--ignore-robots --proxy")
        .with_one(proxy.url())
        .run()
        .expect(0);
    assert_eq!(ended.summary().link_counts["private address"], 4, "{}", ended.stdout);
    assert_eq!(ended.outcomes()["private address"], 2, "names of this machine: {}", ended.stdout);
    assert_eq!(proxy.log().len(), 1, "{:?}", proxy.log());
    // A seed may have any address.
    let seed = web.url("/");
    Pipeline::bare(&seed).with("--ignore-robots --proxy").with_one(proxy.url()).run().expect(1);
    assert_eq!(proxy.log().last().unwrap().target, seed);
}

#[test]
fn servers_see_the_same_delays_through_a_proxy() {
    let ((web, seed), proxy) = (web(false), Proxy::http().start());
    let ended =
        crawl(&web, &seed, &[], &format!("--proxy {} --delay 150ms --workers 2", proxy.url())).expect(0);
    assert_eq!(ended.outcomes()["page"], 6);
    let gap = web.log().smallest_gap().unwrap();
    assert!(gap.as_millis() >= 150, "{gap:?}");
}

#[test]
fn requests_to_the_pagerank_service_go_through_the_proxy() {
    let ((web, seed), proxy) = (web(false), Proxy::http().start());
    let options = format!("--proxy {} --pagerank-url {}", proxy.url(), web.url_of("ranks.test", "/"));
    crawl(&web, &seed, &[], &options).expect(0);
    assert!(
        proxy
            .log()
            .iter()
            .any(|request| request.target.contains("ranks.test") && request.target.contains("getPageRank"))
    );
}

#[test]
fn whole_web_is_found_through_a_proxy_over_reused_connections() {
    let web = Web::builder().seeded_hosts(11, 4, 12).start();
    let (seed, proxy) = (web.url_of("h0.test", "/"), Proxy::http().start());
    let ended = crawl(&web, &seed, &[], &format!("--proxy {} --timeout 5s -v", proxy.url())).expect(0);
    let found: std::collections::BTreeSet<&str> =
        ended.stdout.lines().filter_map(|line| line.trim_start().strip_prefix("Page: ")).collect();
    let truth = web.truth_from(&seed, 99);
    let expected: std::collections::BTreeSet<&str> = truth.keys().map(String::as_str).collect();
    assert_eq!(found, expected, "{}", ended.stdout);
    // This host does not exist. A proxy replies with an error, for robots.txt as well.
    let mut failed =
        ended.stdout.lines().filter(|line| line.contains("Failed: ") && line.contains("elsewhere.invalid"));
    assert!(failed.clone().count() > 1 && failed.all(|line| line.contains("HTTP 502")), "{}", ended.stdout);
    let to_others =
        proxy.log().iter().filter(|request| !request.target.contains("elsewhere.invalid")).count();
    assert!(to_others >= web.log().len());
}
