//! Page files for the example `crawl_directory`, in Rust and in C: both print the same for the same pages.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

/// Runs the example on a directory of page files. "home" links to "news" twice, to a missing page, and out of the
/// directory. "news" is not UTF-8 and links to a page whose name is not UTF-8.
pub(crate) fn assert_prints_every_edge(example: &mut Command) {
    let pages = tempfile::tempdir().unwrap();
    let path = |name: &[u8]| pages.path().join(OsStr::from_bytes(name));
    fs::write(path(b"home"), "link:news and link: news\nlink:gone link:../home").unwrap();
    fs::write(path(b"news"), b"link:home \xff\xfe link:caf\xe9").unwrap();
    fs::write(path(b"caf\xe9"), "").unwrap();
    let output = example.arg(pages.path()).arg("home").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = output.stdout.strip_suffix(b"\n").expect("lines");
    let mut edges: Vec<_> = text.split(|&byte| byte == b'\n').collect();
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
