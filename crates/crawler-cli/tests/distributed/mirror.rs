//! Mirrors of distributed crawls.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use testweb::{Response, Site, Web};

use super::fixture::Fixture;
use super::process::Process;

/// The files below a directory with their content.
fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().map(PathBuf::from).unwrap();
        match path.is_dir() {
            true => files
                .extend(self::files(&path).into_iter().map(|(inner, content)| (name.join(inner), content))),
            false => drop(files.insert(name, fs::read(&path).unwrap())),
        }
    }
    files
}

/// A site with pages that link to each other and to those of another host, through redirects.
fn site(other: &'static str) -> Site {
    Site::new().fallback(move |request| {
        let other = request.origin().replace(&request.host(), other);
        let number = |prefix: &str| request.path.strip_prefix(prefix).and_then(|number| number.parse::<u32>().ok());
        match (number("/page/"), number("/moved/")) {
            (Some(number @ 0..20), _) => {
                let next = (number + 1) % 20;
                Response::page(format!(
                    "<link rel=stylesheet href=/style.css><a href=/page/{next}>next</a> <a href='{other}/moved/{next}#x'>other {number}</a>"
                ))
            }
            (_, Some(number)) => Response::redirect(302, &format!("/page/{number}")),
            _ if request.path == "/style.css" => Response::text("body { color: red }").content_type("text/css"),
            _ => Response::status(404),
        }
    })
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn collected_mirror_is_that_of_a_crawl_in_one_process() {
    let fixture = Fixture::new(1, 1);
    let web = Web::builder().host("a.test", site("b.test")).host("b.test", site("a.test")).start();
    let seed = web.url_of("a.test", "/page/0");
    let options = ["--delay", "0", "--allow-private", "--resolve", "*=127.0.0.1", "--scope", "any"];
    let crawl = |more: &[&str]| {
        let mut command = fixture.crawler(&["crawl", &seed]);
        command.args(options).args(more);
        Process::start(command).wait_for_success()
    };
    crawl(&["--module", "mirror=alone"]);
    crawl(&["--module", "mirror=together", "--redis", &fixture.redis_url, "--workers", "2"]);
    assert!(!fixture.directory.path().join("together").exists());
    fixture.run(&["collect", "--of", "together"]);
    let [alone, together] = ["alone", "together"].map(|name| files(&fixture.directory.path().join(name)));
    assert_eq!(together.keys().collect::<Vec<_>>(), alone.keys().collect::<Vec<_>>());
    assert_eq!(together, alone);
    assert_eq!(alone.len(), 2 * (20 + 1) + 1, "pages, stylesheets and the list");
}
