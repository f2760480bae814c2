//! Archives that other programs write: wget and warcio.

use std::fs;
use std::process::Command;

use tempfile::TempDir;
use testweb::Site;

use super::{by_url, replay};
use crate::common::serve;
use crate::pipeline::{Pipeline, objects, urls};

#[test]
#[ignore = "needs wget: run by make test"]
fn archive_of_wget_has_the_pages_of_a_crawl() {
    let directory = TempDir::new().unwrap();
    let web = serve(Site::seeded(3, 40));
    let modules = "--similarity 0 --module jsonl=-,fields=url,title,content_type,bytes,links,text";
    let crawled = Pipeline::of(web.url("/")).with("--scope host").with(modules).run().expect(0);
    let crawled = by_url(objects(&crawled.stdout));
    for (name, option) in [("gz", "--warc-file=gz"), ("plain", "--no-warc-compression")] {
        let mut wget = Command::new("wget");
        wget.args(["--quiet", "--recursive", "--level=inf", "--execute=robots=off", option]);
        if name == "plain" {
            wget.arg("--warc-file=plain");
        }
        // It fails where a link is broken.
        wget.arg(web.url("/")).current_dir(directory.path()).env_remove("http_proxy").status().unwrap();
        let archive = directory.path().join(if name == "gz" { "gz.warc.gz" } else { "plain.warc" });
        let replayed = replay(&format!("{} {modules}", archive.display())).expect(0);
        // It does not find all links that browsers do, and finds some in comments.
        let found = by_url(objects(&replayed.stdout));
        let common: Vec<&String> = found.keys().filter(|url| crawled.contains_key(*url)).collect();
        assert!(common.len() * 2 > crawled.len(), "{} of {} pages", common.len(), crawled.len());
        for url in common {
            assert_eq!(found[url], crawled[url]);
        }
        assert!(!replayed.stderr.contains("Damaged"), "{}", replayed.stderr);
    }
}

/// Writes an archive with every kind of record that warcio writes.
pub const WRITE: &str = r#"
import io, sys
from warcio.warcwriter import WARCWriter
from warcio.statusandheaders import StatusAndHeaders

for name, gzip, version in [("1.0.warc.gz", True, "1.0"), ("1.1.warc", False, "1.1")]:
    with open(sys.argv[1] + "/" + name, "wb") as file:
        writer = WARCWriter(file, gzip=gzip, warc_version=version)
        writer.write_record(writer.create_warcinfo_record(name, {"software": "test"}))
        for number in range(20):
            uri = f"http://a.test/{version}/{number}"
            words = " ".join(f"w{number * 1000 + word * word}of{version}" for word in range(50))
            head = StatusAndHeaders("200 OK", [("Content-Type", "text/html")], protocol="HTTP/1.1")
            body = io.BytesIO(f"<title>{number}</title>{words}".encode())
            response = writer.create_warc_record(uri, "response", payload=body, http_headers=head)
            request_head = StatusAndHeaders("GET / HTTP/1.1", [("Host", "a.test")], is_http_request=True)
            request = writer.create_warc_record(uri, "request", http_headers=request_head)
            writer.write_request_response_pair(request, response)
        revisit = writer.create_revisit_record(f"http://a.test/{version}/again", "sha1:X", uri, "2026-01-01T00:00:00Z",
                                               http_headers=head)
        writer.write_record(revisit)
        resource = writer.create_warc_record(f"http://a.test/{version}/file", "resource", payload=io.BytesIO(f"<p>a resource of {version}".encode()),
                                             warc_content_type="text/html")
        writer.write_record(resource)
"#;

#[test]
#[ignore = "needs the Python package warcio: run by make test"]
fn archives_of_warcio_are_read() {
    let directory = TempDir::new().unwrap();
    let interpreter = std::env::var("CRAWLER_TEST_PYTHON").unwrap_or_else(|_| "python3".into());
    let output = Command::new(interpreter).args(["-c", WRITE]).arg(directory.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let [first, second] = ["1.0.warc.gz", "1.1.warc"].map(|name| directory.path().join(name));
    let rows = directory.path().join("urls.jsonl");
    let modules = format!("--module jsonl=- --module urls={}", rows.display());
    let ended = replay(&format!("{} {} {modules}", first.display(), second.display())).expect(0);
    assert_eq!(urls(&objects(&ended.stdout)).len(), 42);
    let rows = fs::read_to_string(rows).unwrap();
    assert_eq!(rows.matches("\"duplicate\"").count(), 2, "{rows}");
}
