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
