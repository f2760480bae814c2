//! The page files: what is in them, and what happens when they cannot be written.

use std::fs;
use std::time::Duration;

use testweb::{Response, Site};

use crate::common::{Crawl, counts, linking_to, names, serve};

#[test]
fn page_file_has_url_depth_and_the_bytes_as_served() {
    let binary_ish = b"<p>\xFF\xFE\r\n\0no newline at the end \xC3\x28".to_vec();
    let site = Site::new()
        .page("/", linking_to(&["/a?x=1&amp;y=%20#part", "/empty"]))
        .page("/a?x=1&y=%20", binary_ish.clone())
        .page("/empty", "");
    let web = serve(site);
    let ended = Crawl::of(web.url("/")).run().expect(0);
    let file = |number: &str| fs::read(ended.directory.join(number)).unwrap();
    let root = web.url("");
    assert_eq!(
        file("1"),
        format!("{root}/\n0\n{}", linking_to(&["/a?x=1&amp;y=%20#part", "/empty"])).as_bytes()
    );
    assert_eq!(file("2"), [format!("{root}/a?x=1&y=%20\n1\n").as_bytes(), &binary_ish].concat());
    assert_eq!(file("3"), format!("{root}/empty\n1\n").as_bytes());
    assert_eq!(names(&ended.directory).len(), 3, "no other file is left");
}

#[test]
fn failed_page_uses_no_number() {
    let site = Site::new()
        .page("/", linking_to(&["/missing", "/a", "/picture", "/b"]))
        .page("/a", "x")
        .response("/picture", Response::page("x").content_type("image/png"))
        .page("/b", "x");
    let ended = Crawl::of(serve(site).url("/")).run().expect(0);
    let order: Vec<String> = ended.paths().into_iter().map(|(path, _)| path).collect();
    assert_eq!(order, ["/", "/a", "/b"]);
}

#[test]
fn unfinished_file_of_a_crash_is_removed() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join(".page.unfinished"), "half a pa").unwrap();
    let web = serve(Site::new().page("/", "x"));
    Crawl::of(web.url("/")).into_directory(directory.path()).run().expect(0);
    assert_eq!(names(directory.path()), ["1"]);
}

#[test]
fn unwritable_page_is_counted_and_the_crawl_continues() {
    let large = vec![b'x'; 30_000];
    let site = Site::new()
        .page("/", linking_to(&["/large", "/a"]))
        .page("/large", [linking_to(&["/behind"]).as_bytes(), &large].concat())
        .page("/a", "x")
        .page("/behind", "x");
    let web = serve(site);
    // 16 blocks of 512 bytes, or of 1024 in some shells: less than the large page either way.
    let ended = Crawl::of(web.url("/")).in_shell("ulimit -f 16; exec \"$@\"").run().expect(3);
    assert_eq!(ended.outcomes(), counts(&[("page", 3), ("not written", 1)]));
    assert!(ended.line_about("/large").contains("not written: File too large"), "{}", ended.stderr);
    let order: Vec<String> = ended.paths().into_iter().map(|(path, _)| path).collect();
    assert_eq!(order, ["/", "/a", "/behind"], "consecutive, without the missing page");
    assert_eq!(names(&ended.directory).len(), 3, "no part of a page is left: {:?}", names(&ended.directory));
}

#[test]
fn unwritable_seed_is_a_write_error() {
    let web = serve(Site::new().page("/", vec![b'x'; 30_000]));
    let ended = Crawl::of(web.url("/")).in_shell("ulimit -f 16; exec \"$@\"").run().expect(3);
    assert!(names(&ended.directory).is_empty());
}

#[test]
fn removed_directory_is_a_write_error() {
    let directory = tempfile::tempdir().unwrap();
    let pages = directory.path().join("pages");
    fs::create_dir(&pages).unwrap();
    let site = Site::new()
        .page("/", linking_to(&["/a", "/b"]))
        .response("/a", Response::page("x").delay(Duration::from_millis(300)))
        .page("/b", "x");
    let web = serve(site);
    let mut crawl = Crawl::of(web.url("/")).into_directory(&pages).start();
    crawl.until("the first page", |pages| pages.join("1").exists() && web.hits() == 3);
    fs::remove_dir_all(&pages).unwrap();
    let ended = crawl.wait().expect(3);
    assert_eq!(ended.outcomes(), counts(&[("page", 1), ("not written", 2)]));
}

#[test]
fn directory_with_the_name_of_a_page_is_a_write_error_and_untouched() {
    let directory = tempfile::tempdir().unwrap();
    let site = Site::new().response("/", Response::page("x").delay(Duration::from_millis(200)));
    let web = serve(site);
    let mut crawl = Crawl::of(web.url("/")).into_directory(directory.path()).start();
    crawl.until("the request", |_| web.hits() == 2);
    let taken = directory.path().join("1");
    fs::create_dir(&taken).unwrap();
    fs::write(taken.join("mine"), "mine").unwrap();
    // Not `wait`, which expects page files only.
    assert_eq!(crawl.status(), Some(3));
    assert_eq!(fs::read(taken.join("mine")).unwrap(), b"mine");
}

#[test]
fn pages_of_every_size_are_written_completely() {
    let sizes = [1, 4095, 4096, 4097, 65_536, 499_999];
    let paths: Vec<String> = sizes.iter().map(|size| format!("/{size}")).collect();
    let links: Vec<&str> = paths.iter().map(String::as_str).collect();
    let body = |size: usize| -> Vec<u8> { (0..size).map(|n| b"abcdefghij\n"[n % 11]).collect() };
    let site = Site::new().page("/", linking_to(&links));
    let site = sizes.iter().zip(&paths).fold(site, |site, (size, path)| site.text(path, body(*size)));
    let ended = Crawl::of(serve(site).url("/")).with("--concurrency 4").run().expect(0);
    for (size, path) in sizes.iter().zip(&paths) {
        assert!(ended.body_of(path) == body(*size), "{size}");
    }
}
