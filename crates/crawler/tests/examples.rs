//! Runs the examples, as cargo builds them next to the tests.

#![allow(missing_docs)]

#[path = "examples/linked_pages.rs"]
mod linked_pages;

use std::env;
use std::path::PathBuf;
use std::process::Command;

/// The path of an example. `cargo test` builds the examples of a package before it runs the tests.
fn example(name: &str) -> PathBuf {
    let test = env::current_exe().unwrap();
    // The test is in `deps`, next to `examples`.
    let path = test.parent().and_then(|deps| deps.parent()).unwrap().join("examples").join(name);
    assert!(path.exists(), "no {}; run cargo build -p crawler --examples", path.display());
    path
}

#[test]
fn crawl_directory_prints_every_edge() {
    linked_pages::assert_prints_every_edge(&mut Command::new(example("crawl_directory")));
}

#[cfg(feature = "net")]
#[test]
fn pipeline_prints_pages_and_failed_seeds() {
    let web = testweb::Web::builder().site(testweb::Site::new().page("/", "<title>start</title>")).start();
    let output = Command::new(example("pipeline")).args([web.url("/"), web.url("/gone")]).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(stdout, format!("{} \"start\", 0 links\n", web.url("/")));
    assert!(stderr.starts_with(&format!("seed {}: HTTP 404\n1 page", web.url("/gone"))), "{stderr}");
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let output = Command::new(example("pipeline")).arg(web.url("/gone")).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}

#[cfg(feature = "net")]
#[test]
fn closed_standard_output_ends_the_examples_without_a_panic() {
    use std::process::Stdio;
    use testweb::{Response, Site, Web};

    let next = |path: &str| format!("/{}", path.trim_start_matches('/').parse().unwrap_or(0) + 1);
    let page = move |path: &str| format!("<title>{path}</title><a href={}>next</a>", next(path));
    let endless = Site::new().fallback(move |request| Response::page(page(&request.path)));
    let web = Web::builder().site(endless).start();
    let directory = tempfile::tempdir().unwrap();
    let pages = directory.path().display().to_string();
    let url = web.url("/");
    for (name, arguments) in [
        ("pipeline", vec![url.as_str()]),
        ("custom_module", vec![url.as_str()]),
        ("classic", vec![url.as_str(), &pages, "1"]),
    ] {
        let mut child = Command::new(example(name));
        let mut child = child.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !stderr.contains("panicked"), "{name}: {stderr}");
    }
    assert!(web.hits() < 20, "{}", web.hits());
}
