//! The library as it is installed: found by pkg-config, linked either way, and running the documented
//! example.

mod toolchain;

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;
use toolchain::{crate_directory, library_directory, succeed};

/// A site of page files: home links to news twice, to a page that is missing, and out of the directory.
fn site() -> TempDir {
    let site = TempDir::new().unwrap();
    fs::write(site.path().join("home"), "link:news and link: news\nlink:gone link:../home").unwrap();
    fs::write(site.path().join("news"), "link:home").unwrap();
    site
}

const EDGES: [&str; 5] = ["home -> ../home", "home -> gone", "home -> news", "home -> news", "news -> home"];

fn assert_crawls_the_site(example: &mut Command) {
    let site = site();
    let output = succeed(example.arg(site.path()).arg("home"));
    let text = String::from_utf8(output.stdout).unwrap();
    let mut edges: Vec<_> = text.lines().collect();
    edges.sort();
    assert_eq!(edges, EDGES);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "2 pages, 2 broken links, 5 edges\n");
}

fn install(prefix: &Path) {
    succeed(Command::new(crate_directory().join("install.sh")).arg(library_directory()).arg(prefix));
}

/// What pkg-config says about the installed library; nothing if there is no pkg-config.
fn pkg_config(prefix: &Path, options: &[&str]) -> Option<Vec<String>> {
    Command::new("pkg-config").arg("--version").output().ok()?;
    let mut command = Command::new("pkg-config");
    let output =
        succeed(command.args(options).arg("crawl").env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")));
    Some(String::from_utf8(output.stdout).unwrap().split_whitespace().map(str::to_owned).collect())
}

#[test]
fn the_example_builds_against_the_installed_library_and_crawls_a_directory() {
    let prefix = TempDir::new().unwrap();
    install(prefix.path());
    let (include, lib) = (prefix.path().join("include"), prefix.path().join("lib"));
    let by_hand = |path: &Path, flag: &str| format!("{flag}{}", path.display());
    let shared = pkg_config(prefix.path(), &["--cflags", "--libs"])
        .unwrap_or_else(|| vec![by_hand(&include, "-I"), by_hand(&lib, "-L"), "-lcrawl".to_owned()]);
    let program = prefix.path().join("example");
    let example = crate_directory().join("examples/crawl_directory.c");
    succeed(Command::new("cc").arg(&example).args(&shared).args(["-lpthread", "-o"]).arg(&program));
    assert_crawls_the_site(Command::new(&program).env("LD_LIBRARY_PATH", &lib));
}

#[test]
fn the_example_builds_against_the_static_library_alone() {
    let prefix = TempDir::new().unwrap();
    install(prefix.path());
    fs::remove_file(prefix.path().join("lib/libcrawl.so")).unwrap();
    let Some(flags) = pkg_config(prefix.path(), &["--cflags", "--libs", "--static"]) else {
        return;
    };
    let program = prefix.path().join("example");
    let example = crate_directory().join("examples/crawl_directory.c");
    succeed(Command::new("cc").arg(&example).args(&flags).arg("-o").arg(&program));
    assert_crawls_the_site(&mut Command::new(&program));
}

#[test]
fn destdir_moves_the_files_and_not_what_they_say() {
    let directory = TempDir::new().unwrap();
    let mut script = Command::new(crate_directory().join("install.sh"));
    succeed(script.arg(library_directory()).arg("/opt/crawl").env("DESTDIR", directory.path()));
    let root = directory.path().join("opt/crawl");
    for file in ["lib/libcrawl.so", "lib/libcrawl.a", "include/crawl.h", "include/crawler.h"] {
        assert!(root.join(file).exists(), "{file}");
    }
    let text = fs::read_to_string(root.join("lib/pkgconfig/crawl.pc")).unwrap();
    assert!(text.contains("prefix=/opt/crawl\n"), "{text}");
    assert!(text.contains(&format!("Version: {}\n", env!("CARGO_PKG_VERSION"))), "{text}");
}

#[test]
fn the_rust_example_does_the_same() {
    // The name of the file is the name of the example; cargo builds it with the crate's own tests.
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["run", "--quiet", "-p", "crawler", "--example", "crawl_directory", "--"]);
    assert_crawls_the_site(cargo.current_dir(crate_directory()));
}
