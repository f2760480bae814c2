//! pywb replays the archive of a real documentation site byte for byte, with the index that the crawl wrote.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::manual::{directory, serve_manual};
use crate::archive_judges::{python_path, python_program};
use crate::archive_records::files;
use crate::pipeline::Pipeline;

/// How many pages are replayed: some hundred take some seconds.
const PAGES: usize = 300;

/// Fetches all captures from pywb as they were received, and compares them with the files of the site.
const COMPARE: &str = r#"
import json, os, sys, urllib.request
from urllib.parse import urlsplit

server, index, files = sys.argv[1:]
compared = 0
for line in open(index):
    key, timestamp, fields = line.split(" ", 2)
    fields = json.loads(fields)
    path = os.path.join(files, urlsplit(fields["url"]).path.lstrip("/"))
    if fields["status"] != "200":
        continue
    with urllib.request.urlopen(f"{server}/{timestamp}id_/{fields['url']}", timeout=60) as answer:
        assert answer.status == 200, fields
        body = answer.read()
    assert body == open(path, "rb").read(), f"{fields['url']} differs"
    assert answer.headers["Content-Type"].startswith(fields["mime"]) or fields["mime"] == "warc/revisit", fields
    compared += 1
print(compared)
"#;

/// A server that is stopped at the end.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts pywb with the collections in a directory.
fn start(directory: &Path) -> (Server, u16) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = Command::new(python_path("wayback"));
    command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--directory"]).arg(directory);
    let log = fs::File::create(directory.join("log")).unwrap();
    let server = Server(command.stdout(Stdio::null()).stderr(log).spawn().expect("pywb runs"));
    let started = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        let log = fs::read_to_string(directory.join("log")).unwrap_or_default();
        assert!(started.elapsed() < Duration::from_secs(60), "pywb does not start: {log}");
        thread::sleep(Duration::from_millis(50));
    }
    (server, port)
}

#[test]
#[ignore = "needs the Python package pywb and postgresql-doc: run by make test"]
fn pywb_replays_a_documentation_site_byte_for_byte() {
    let root = TempDir::new().unwrap();
    let web = serve_manual();
    Pipeline::of(web.url("/index.html"))
        .with(&format!("--scope host --similarity 0 --max-pages {PAGES}"))
        .module("warc", &root.path().join("crawl.warc.gz"))
        .run()
        .expect(0);
    let collection = root.path().join("pywb/collections/manual");
    fs::create_dir_all(collection.join("archive")).unwrap();
    fs::create_dir_all(collection.join("indexes")).unwrap();
    for file in files(root.path(), "crawl", "warc.gz") {
        fs::copy(&file, collection.join("archive").join(file.file_name().unwrap())).unwrap();
    }
    let index = collection.join("indexes/index.cdxj");
    fs::copy(root.path().join("crawl.cdxj"), &index).unwrap();
    let (_server, port) = start(&root.path().join("pywb"));
    let server = format!("http://127.0.0.1:{port}/manual");
    let arguments =
        ["-c", COMPARE, &server, &index.display().to_string(), &directory().display().to_string()];
    let compared: usize = python_program("python", &arguments).trim().parse().unwrap();
    assert!(compared >= PAGES, "{compared} pages");
}
