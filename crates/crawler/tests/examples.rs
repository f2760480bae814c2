//! Runs the examples that need no network, as cargo builds them next to the tests.

#![allow(missing_docs)]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

/// The path of an example. `cargo test` builds the examples of a package before it runs the tests.
fn example(name: &str) -> PathBuf {
    let test = env::current_exe().unwrap();
    // The test is in `deps`, next to `examples`.
    let path = test.parent().and_then(|deps| deps.parent()).unwrap().join("examples").join(name);
    assert!(path.exists(), "no {}; run cargo build -p crawler --examples", path.display());
    path
}

/// The C example of libcrawl must print the same for the same pages.
#[test]
fn crawl_directory_prints_every_edge() {
    let pages = tempfile::tempdir().unwrap();
    let path = |name: &[u8]| pages.path().join(OsStr::from_bytes(name));
    fs::write(path(b"home"), "link:news and link: news\nlink:gone link:../home").unwrap();
    // Neither this page nor the name of the page that it links to is UTF-8.
    fs::write(path(b"news"), b"link:home \xff\xfe link:caf\xe9").unwrap();
    fs::write(path(b"caf\xe9"), "").unwrap();
    let output = Command::new(example("crawl_directory")).arg(pages.path()).arg("home").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let mut edges: Vec<_> = output.stdout.strip_suffix(b"\n").unwrap().split(|&byte| byte == b'\n').collect();
    edges.sort();
    let expected: [&[u8]; 6] = [
        b"home -> ../home",
        b"home -> gone",
        b"home -> news",
        b"home -> news",
        b"news -> caf\xe9",
        b"news -> home",
    ];
    assert_eq!(edges, expected);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "3 pages, 2 broken links, 6 edges\n");
}

#[cfg(feature = "net")]
#[test]
fn path_priorities_crawls_the_preferred_path_first() {
    use testweb::{Response, Site, Web};

    let path = |number| format!("/{}/{number}", if number < 60 { "news" } else { "docs" });
    let links: String = (0..70).map(|number| format!("<a href={}>{number}</a>", path(number))).collect();
    let site = Site::new().page("/", links).fallback(|request| Response::text(request.path.clone()));
    let web = Web::builder().site(site).start();
    let output =
        Command::new(example("path_priorities")).args([&web.url("/"), "/docs/", "11"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 11);
    let log = web.log().filter(|hit| hit.status == Some(200) && hit.path != "/");
    assert_eq!(log.len(), 10);
    // The worst priority is drawn once in a hundred times.
    let preferred = log.iter().filter(|hit| hit.path.starts_with("/docs/")).count();
    assert!(preferred >= 8, "{:?}", log.paths());
}
