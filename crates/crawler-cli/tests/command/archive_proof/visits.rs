//! The archive of a crawl that visits its URLs again: what has not changed refers to what the archive has.

use std::path::PathBuf;

use serde_json::Value;
use testweb::{ChangingSite, Validator, Web};

use super::valid;
use crate::archive_files::crawler;
use crate::archive_records::files;
use crate::common::{linking_to, serve};
use crate::recrawl::words;
use crate::resume::killed_after;
use crate::state::StateDir;

/// The paths of the site, the types of their records in three visits, and the profiles of those that are revisits.
const EXPECTED: [(&str, [&str; 3]); 7] = [
    ("/", ["response", "server-not-modified", "server-not-modified"]),
    ("/etag", ["response", "server-not-modified", "server-not-modified"]),
    ("/date", ["response", "server-not-modified", "server-not-modified"]),
    ("/none", ["response", "identical-payload-digest", "identical-payload-digest"]),
    ("/changed", ["response", "response", "server-not-modified"]),
    ("/same/1", ["response", "server-not-modified", "server-not-modified"]),
    ("/same/2", ["identical-payload-digest", "server-not-modified", "server-not-modified"]),
];

/// A crawl of three visits, the second of which is killed twice, and its web.
pub fn archive_of_visits() -> (StateDir, Web) {
    let (site, place) = (ChangingSite::new(), StateDir::new());
    site.page("/", linking_to(&EXPECTED.map(|(path, _)| path)[1..]), Validator::ETag);
    for (path, validator) in [
        ("/etag", Validator::WeakETag),
        ("/date", Validator::LastModified),
        ("/none", Validator::None),
        ("/changed", Validator::ETag),
    ] {
        site.page(path, words(&path[1..]), validator);
    }
    for path in ["/same/1", "/same/2"] {
        site.page(path, words("same"), Validator::ETag);
    }
    let web = serve(site.site());
    let crawl =
        place.crawl(web.url("/")).with("--scope host --similarity 0 --per-host 1 --warc-size 2KB --wacz");
    crawl.module("warc", &place.path("crawl.warc.gz")).run().expect(0);
    site.page("/changed", words("changed") + "and more", Validator::ETag);
    for requests in [3, 4] {
        killed_after(&web, requests, place.recrawl("--delay 100ms"));
    }
    place.recrawl("--delay 0s").wait().expect(0);
    place.recrawl("").wait().expect(0);
    (place, web)
}

/// The files of the archive.
pub fn files_of(place: &StateDir) -> Vec<PathBuf> {
    files(place.path("crawl.warc.gz").parent().unwrap(), "crawl", "warc.gz")
}

#[test]
fn archive_of_visits_has_each_once_and_refers_to_what_it_has() {
    let (place, web) = archive_of_visits();
    let files = files_of(&place);
    assert!(files.len() > 2, "{files:?}");
    let responses = valid(&files, &[]);
    for (path, expected) in EXPECTED {
        let is_it = |response: &&Value| response["url"] == web.url(path).as_str();
        let kind = |response: &Value| {
            let kind = if response["type"] == "revisit" { "profile" } else { "type" };
            response[kind].as_str().unwrap().to_owned()
        };
        let found: Vec<String> = responses.iter().filter(is_it).map(kind).collect();
        let same = |kinds: &[String]| kinds.iter().filter(|kind| *kind == "identical-payload-digest").count();
        if path.starts_with("/same") {
            // Either of the two may be the first.
            assert_eq!((found.len(), &found[1..]), (3, &expected.map(str::to_owned)[1..]), "{path}");
            assert!(same(&found) <= 1, "{found:?}");
        } else {
            assert_eq!(found, expected, "{path}");
        }
    }
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    for archive in [names.join(" "), place.path("crawl.wacz").display().to_string()] {
        for (path, text) in [("/etag", words("etag")), ("/same/1", words("same")), ("/same/2", words("same"))]
        {
            let shown = crawler(&format!("show {} --archive {archive}", web.url(path))).expect(0);
            assert_eq!(shown.stdout, text, "{path}");
        }
    }
}
