//! Mirrors: the site as files that a browser can open without a network.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use testweb::{Response, Site, Web};

use crate::browser::Browser;
use crate::common::{linking_to, names, serve};
use crate::pipeline::{Pipeline, objects_in};

/// A red pixel.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0\x90wS\xde\0\0\0\x0cIDATx\x9cc\xf8\xcf\xc0\0\0\x03\x01\x01\0\xc9\xfe\x92\xef\0\0\0\0IEND\xaeB`\x82";

fn image() -> Response {
    Response::text("").body(PNG).content_type("image/png")
}

fn css(text: &str) -> Response {
    Response::text(text.to_owned()).content_type("text/css")
}

fn script(text: &str) -> Response {
    Response::text(text.to_owned()).content_type("text/javascript")
}

/// The files of a mirror with their content, by their paths.
fn files(mirror: &Path) -> BTreeMap<String, Vec<u8>> {
    let (mut files, mut directories) = (BTreeMap::new(), vec![mirror.to_owned()]);
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else {
                let name = path.strip_prefix(mirror).unwrap().to_str().unwrap().to_owned();
                files.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    files
}

/// The files of a mirror by their URLs.
fn listed(mirror: &Path) -> BTreeMap<String, PathBuf> {
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let list = objects_in(&mirror.join("mirror.jsonl"));
    list.iter().map(|file| (text(&file["url"]), mirror.join(text(&file["file"])))).collect()
}

/// The start page: it has every kind of reference, and links to names that need care. `cdn` is the origin of another host.
fn start_page(cdn: &str) -> String {
    format!(
        r##"<!DOCTYPE html><html><head><title>Start</title><link rel=stylesheet href="/css/main.css?v=3">
<link rel="stylesheet" href="{cdn}/cdn.css" integrity="sha256-AAAA" crossorigin>
<link rel=icon href=/favicon.ico><link rel="canonical" href="/"><link rel=manifest href=/app.webmanifest>
<style>@import "/css/imported.css"; .bg {{ background: url(img/bg.png) }}</style>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'">
<script src="/js/app.js" integrity="sha256-AAAA" crossorigin="anonymous"></script></head>
<body style="background: url('/img/style%20attribute.png')"><div class=bg>text</div>
<a href=/docs/>docs</a> <a href="docs/intro">1</a> <a href="docs/intro.html#part">2</a> <a href="/a%20b%23c.html">3</a>
<a href="/caf&eacute;">4</a> <a href="/100%25">5</a> <a href="/Case">6</a> <a href="/case">7</a> <a href='/q?x=1&amp;y=%2F'>8</a>
<a href="/con">9</a> <a href=/.git/config>10</a> <a href="/based/">11</a> <a href="/moved#part">12</a> <a href=/legacy>13</a>
<a href="/wide">14</a> <a href="/a.html">15</a> <a href="/a.html/b">16</a> <a href="/refreshed">17</a> <a href="/missing">18</a>
<a href="http://elsewhere.test/">19</a> <a href="mailto:a@b.test">20</a> <a href="#here">21</a> <a href="/plain.txt">22</a>
<img src=/img/1.png srcset="/img/1.png 1x, /img/2,x.png 2x"> <img src="data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7">
<picture><source srcset="/img/wide.png"><img src="/img/narrow.png"></picture> <iframe src="/frame?id=1"></iframe>
<img src="/image.php?id=7" crossorigin=use-credentials> <p id=here>here</body></html>"##
    )
}

/// The paths of plain pages with names that need care.
const PAGES: [&str; 12] = [
    "/docs/intro",
    "/docs/intro.html",
    "/a%20b%23c.html",
    "/caf%C3%A9",
    "/100%25",
    "/Case",
    "/case",
    "/q?x=1&y=%2F",
    "/con",
    "/.git/config",
    "/a.html",
    "/a.html/b",
];

/// A site whose start page has every kind of reference.
fn site() -> Site {
    let linked = |text: &str| {
        format!("<meta charset=utf-8><p id=part>{text}<img src=\"/img/1.png\"><a href=\"/\">start</a>")
    };
    let utf16: Vec<u8> = linked("wide Ω").encode_utf16().flat_map(u16::to_le_bytes).collect();
    PAGES
        .into_iter()
        .fold(Site::new(), |site, path| site.page(path, linked(path)))
        .fallback(|request| match request.path.as_str() {
            "/" => Response::page(start_page(&request.origin().replace("a.test", "cdn.test"))),
            _ => Response::status(404),
        })
        .page("/docs/", "<a href='../docs/intro'>up</a> <img src=../img/1.png>")
        .page("/based/", "<base href='/docs/'><a href=intro#part>based</a> <a href=#top>docs</a> <img src=../img/1.png>")
        .redirect("/moved", "/moved/again")
        .redirect("/moved/again", "/docs/intro.html")
        .page("/refreshed", "<meta http-equiv=refresh content='999; url=/docs/intro'>")
        .page("/frame?id=1", linked("in a frame"))
        .response(
            "/legacy",
            Response::page(&b"caf\xE9 <a href='/caf\xC3\xA9'>x</a><img src=/img/1.png>"[..])
                .content_type("text/html; charset=windows-1252"),
        )
        .response("/wide", Response::page(utf16).content_type("text/html; charset=utf-16le"))
        .text("/plain.txt", "text")
        .response("/css/main.css?v=3", css(":root { --main: 1 } @import 'x'; @font-face { font-family: F; src: url(../fonts/f.woff2?v=1#f) } body { font-family: F; background: url( \"../img/bg.png\" ) }"))
        .response("/css/imported.css", css("@import url(more.css); :root { --imported: 1 }"))
        .response("/css/more.css", css("/* é */ :root { --more: 1 }"))
        .response("/js/app.js", script("window.ran = true"))
        .response("/fonts/f.woff2?v=1", Response::text("no font").content_type("font/woff2"))
        .response("/app.webmanifest", Response::text("{}").content_type("application/manifest+json"))
        .response("/favicon.ico", image().content_type("image/x-icon"))
        .response("/image.php?id=7", image())
        .response("/img/1.png", image())
        .response("/img/2,x.png", image())
        .response("/img/wide.png", image())
        .response("/img/narrow.png", image())
        .response("/img/bg.png", image())
        .response("/img/style%20attribute.png", image())
}

fn cdn() -> Site {
    Site::new()
        .response("/cdn.css", css(":root { --cdn: 1; background: url(cdn.png) }"))
        .response("/cdn.png", image())
}

fn serve_site() -> Web {
    Web::builder().host("cdn.test", cdn()).host("a.test", site()).start()
}

fn crawl(web: &Web, mirror: &Path) -> Pipeline {
    Pipeline::of(web.url_of("a.test", "/")).with("--scope host --requisites").module("mirror", mirror)
}

#[test]
#[ignore = "needs chromium: run by make test"]
fn browser_without_a_network_loads_every_page_and_all_it_needs() {
    let web = serve_site();
    let directory = tempfile::tempdir().unwrap();
    let mirror = directory.path().join("mirror");
    crawl(&web, &mirror).run().expect(0);
    let (listed, [start, legacy, wide, image]) =
        (listed(&mirror), ["/", "/legacy", "/wide", "/img/bg.png"].map(|path| web.url_of("a.test", path)));
    drop(web);
    let mut browser = Browser::start();
    let mut pages = 0;
    for (url, file) in &listed {
        let is_page = file.extension().is_some_and(|extension| extension == "html" || extension == "txt");
        if !is_page {
            continue;
        }
        pages += 1;
        let (requests, failures) = browser.open(file);
        assert!(failures.is_empty(), "{url}: {failures:#?}");
        let remote: Vec<_> = requests
            .iter()
            .filter(|request| !request.starts_with("file:") && !request.starts_with("data:"))
            .collect();
        assert!(remote.is_empty(), "{url}: {remote:?}");
        let broken = "[...document.images].filter(image => !image.naturalWidth).map(image => image.src)";
        assert_eq!(browser.evaluate(broken), serde_json::json!([]), "{url}");
    }
    assert_eq!(pages, 20, "{listed:#?}");
    browser.open(&listed[&start]);
    for stylesheet in ["main", "imported", "more", "cdn"] {
        let property =
            format!("getComputedStyle(document.documentElement).getPropertyValue('--{stylesheet}')");
        assert_eq!(browser.evaluate(&property), "1", "{stylesheet}");
    }
    assert_eq!(browser.evaluate("window.ran"), true, "the script is not blocked");
    browser.open(&listed[&legacy]);
    assert!(browser.evaluate("document.body.textContent").as_str().unwrap().starts_with("café"));
    browser.open(&listed[&wide]);
    assert!(browser.evaluate("document.body.textContent").as_str().unwrap().starts_with("wide Ω"));
    // The browser reports what is missing.
    fs::remove_file(&listed[&image]).unwrap();
    assert!(!browser.open(&listed[&start]).1.is_empty());
}

#[test]
fn mirror_has_every_page_and_file_and_its_links_lead_to_them() {
    let web = serve_site();
    let directory = tempfile::tempdir().unwrap();
    let mirror = directory.path().join("mirror");
    crawl(&web, &mirror).run().expect(0);
    let files = files(&mirror);
    let hosts = [format!("a.test+{}", web.port()), format!("cdn.test+{}", web.port())];
    let text = |path: &str| String::from_utf8(files[&format!("{}/{path}", hosts[0])].clone()).unwrap();
    for path in [
        "docs/index.html",
        "docs/intro.html",
        "a b#c.html",
        "café.html",
        "100%.html",
        "q@x=1&y=_.html",
        "_con.html",
    ] {
        assert!(files.contains_key(&format!("{}/{path}", hosts[0])), "{path} in {:#?}", files.keys());
    }
    for path in [
        "css/main.css@v=3.css",
        "css/more.css",
        "img/2,x.png",
        "image.php@id=7.png",
        "fonts/f.woff2@v=1.woff2",
    ] {
        assert!(files.contains_key(&format!("{}/{path}", hosts[0])), "{path} in {:#?}", files.keys());
    }
    assert_eq!(files[&format!("{}/cdn.png", hosts[1])], PNG);
    let start = text("index.html");
    for expected in [
        "<link rel=stylesheet href=\"css/main.css@v=3.css\">".to_owned(),
        format!("<link rel=\"stylesheet\" href=\"../cdn.test+{}/cdn.css\" data-integrity", web.port()),
        "<a href=\"a%20b%23c.html\">3</a>".into(),
        "<a href=\"caf%C3%A9.html\">4</a>".into(),
        "<a href=\"100%25.html\">5</a>".into(),
        "<a href=\"_git/config.html\">10</a>".into(),
        format!("<a href=\"{}\">18</a>", web.url_of("a.test", "/missing")),
        "<a href=\"http://elsewhere.test/\">19</a> <a href=\"mailto:a@b.test\">20</a> <a href=\"#here\">21</a>".into(),
        "srcset=\"img/1.png 1x, img/2%2Cx.png 2x\"".into(),
        "@import \"css/imported.css\"; .bg { background: url(\"img/bg.png\") }".into(),
    ] {
        assert!(start.contains(&expected), "{expected} in {start}");
    }
    let moved = listed(&mirror)[&web.url_of("a.test", "/docs/intro.html")].file_name().unwrap().to_owned();
    let moved = format!("<a href=\"docs/{}#part\">12</a>", moved.to_str().unwrap());
    assert!(start.contains(&moved), "a redirect is followed: {moved} in {start}");
    assert!(text("based/index.html").starts_with("<base href=\"\"><a href=\"../docs/intro"));
    assert!(
        text("based/index.html")
            .contains("<a href=\"../docs/index.html#top\">docs</a> <img src=\"../img/1.png\">")
    );
    assert!(text("css/main.css@v=3.css").contains("src: url(\"../fonts/f.woff2@v=1.woff2#f\")"));
    assert_eq!(names(directory.path()), ["mirror"], "nothing is left next to the mirror");
}

#[test]
fn killed_crawl_gives_the_same_mirror_after_a_resume() {
    let web = serve_site();
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    crawl(&web, &path("whole")).run().expect(0);
    let whole = files(&path("whole"));
    for moment in [3, 12, 25] {
        let (mirror, state) = (path(&format!("mirror{moment}")), path(&format!("state{moment}")));
        let before = web.hits();
        let start =
            || crawl(&web, &mirror).with("--delay 20ms --state").with_one(state.display().to_string());
        let mut killed = start().start();
        killed.until("some requests", |_| web.hits() >= before + moment);
        killed.signal(Signal::KILL);
        killed.wait();
        assert!(!mirror.exists() && path(&format!("mirror{moment}.records")).exists());
        start().run().expect(0);
        assert_eq!(files(&mirror), whole, "killed after {moment} requests");
    }
}

#[test]
fn stopped_crawl_leaves_a_mirror_and_a_resume_completes_it() {
    let web = serve_site();
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let start = || crawl(&web, &path("mirror")).with("--state").with_one(path("state").display().to_string());
    crawl(&web, &path("whole")).run().expect(0);
    start().with("--max-pages 5").run().expect(0);
    let (first, whole) = (listed(&path("mirror")), listed(&path("whole")));
    assert!(first.contains_key(&web.url_of("a.test", "/")) && first.len() < whole.len(), "{first:#?}");
    start().with("--max-pages 1000").run().expect(0);
    assert_eq!(files(&path("mirror")), files(&path("whole")));
}

#[test]
fn directory_with_anything_but_a_mirror_is_refused_before_the_first_request() {
    let web = serve(Site::new().page("/", "x"));
    let directory = tempfile::tempdir().unwrap();
    let mirror = directory.path().join("mirror");
    fs::create_dir(&mirror).unwrap();
    fs::write(mirror.join("notes.txt"), "precious").unwrap();
    let crawl = || Pipeline::of(web.url("/")).module("mirror", &mirror);
    for (options, cause) in [
        ("", "it is not empty; name another one, or overwrite it (--overwrite)"),
        (
            "--overwrite",
            "it contains 'notes.txt', which is not part of a mirror and would be removed; move it, or name",
        ),
    ] {
        let refused = crawl().with(options).run().expect(2);
        assert!(refused.stderr.contains(cause), "{}", refused.stderr);
    }
    assert_eq!((web.hits(), names(directory.path())), (0, vec!["mirror".to_owned()]));
    fs::remove_file(mirror.join("notes.txt")).unwrap();
    crawl().run().expect(0);
    crawl().run().expect(2);
    crawl().with("--overwrite").run().expect(0);
    assert_eq!(files(&mirror).len(), 2);
    let host = names(&mirror).into_iter().find(|name| mirror.join(name).is_dir()).unwrap();
    let notes = mirror.join(host).join("notes.txt");
    fs::write(&notes, "precious").unwrap();
    let refused = crawl().with("--overwrite").run().expect(2);
    assert!(refused.stderr.contains("/notes.txt', which is not part of a mirror"), "{}", refused.stderr);
    assert_eq!(fs::read(&notes).unwrap(), b"precious");
}

#[test]
fn hostile_names_stay_in_the_mirror() {
    let paths = [
        "/..%2f..%2f..%2fescaped",
        "/%2e%2e%2fescaped",
        "/..%5c..%5cescaped",
        "/a%00b",
        "/%2fetc%2fpasswd",
        "/~%2f",
        "/.../...",
        "/mirror.jsonl",
        "/a//b",
        "/a%0ab",
        "/aux.html",
        "/x.html",
        "/x.html/.",
    ];
    let long = format!("/{}", "n".repeat(1_500));
    let paths = [&paths[..], &[&long]].concat();
    let site = Site::new().page("/", linking_to(&paths));
    let web = serve(site.fallback(|request| Response::page(format!("<p>{}", request.path))));
    let directory = tempfile::tempdir().unwrap();
    let mirror = directory.path().join("mirror");
    Pipeline::of(web.url("/")).with("--scope host").module("mirror", &mirror).run().expect(0);
    assert_eq!(names(directory.path()), ["mirror"]);
    let host = format!("127.0.0.1+{}", web.port());
    let files = files(&mirror);
    assert!(
        files.keys().all(|name| name == "mirror.jsonl" || name.starts_with(&format!("{host}/"))),
        "{files:#?}"
    );
    assert_eq!(
        (listed(&mirror).len(), files.len()),
        (paths.len() + 1, paths.len() + 2),
        "{:#?}",
        files.keys()
    );
}
