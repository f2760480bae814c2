//! No two options of a command write to the same place: refused before anything is fetched or written.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use tempfile::TempDir;

use crate::common::{run, serve};
use crate::state::StateDir;
use testweb::Site;

/// An empty directory, and commands that write to it.
struct Place(TempDir);

impl Place {
    fn new() -> Place {
        Place(TempDir::new().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    /// What a pipeline says whose options have `@` for the directory.
    fn crawl(&self, options: &str) -> String {
        self.refused(&["crawl", "http://127.0.0.1:1/"], options)
    }

    /// The same for a classic crawl into the directory.
    fn classic(&self, options: &str) -> String {
        self.refused(&["http://127.0.0.1:1/", self.0.path().to_str().unwrap(), "1"], options)
    }

    fn refused(&self, command: &[&str], options: &str) -> String {
        let options = options.replace('@', self.0.path().to_str().unwrap());
        run(&[command, &options.split(' ').collect::<Vec<_>>()].concat()).expect(2).stderr
    }

    fn files(&self) -> usize {
        fs::read_dir(self.0.path()).unwrap().count()
    }
}

#[test]
fn two_options_do_not_write_the_same_file_or_stream() {
    let place = Place::new();
    let same = "write the same file; give different files";
    for (stderr, message) in [
        (place.crawl("--log @/f --module jsonl=@/f"), same),
        (place.crawl("--log @/f --summary @/f"), same),
        (place.crawl("--log @/f --save-cookies @/f"), same),
        (place.crawl("--summary @/f --save-cookies @/f"), same),
        (place.crawl("--summary @/./f --module csv=@/f"), same),
        (place.crawl("--summary @/t.parquet --module parquet=@/t.parquet"), same),
        (place.classic("--log @/f --summary @/f"), same),
        (place.classic("--log @/f --urls @/f"), same),
        (place.classic("--save-cookies @/f --urls @/f"), same),
        (place.crawl("--log - --progress json"), "both write to standard error; give one of them a file"),
        (place.crawl("--log - --summary /dev/stderr"), "both write to standard error"),
        (place.crawl("--log /dev/stdout --module jsonl=-"), "both write to standard output"),
        (place.crawl("--log /dev/stdout --module exec=cat"), "both write to standard output"),
        (place.crawl("--log-level debug"), "--log-level needs --log <FILE>"),
    ] {
        assert!(stderr.contains(message), "{message}: {stderr}");
    }
    assert_eq!(place.files(), 0, "nothing was written");
}

#[test]
fn files_are_not_written_where_an_output_writes_others() {
    let place = Place::new();
    for (stderr, message) in [
        (place.classic("--log @/1"), "pages have names of this form there; give another name or directory"),
        (place.classic("--summary @/12"), "pages have names of this form there"),
        (place.classic("--save-cookies @/12"), "pages have names of this form there"),
        (place.classic("--urls @/3"), "pages have names of this form there"),
        (place.crawl("--module pages=@/p --summary @/p/1"), "pages have names of this form there"),
        (place.crawl("--module pages=@/p --log @/p"), "it is the directory of --module pages="),
        (place.crawl("--module markdown=@/p --log @/p/1.md"), "pages have names of this form there"),
        (place.crawl("--module mirror=@/m --log @/m/a/log"), "makes that directory"),
        (place.crawl("--module mirror=@/m --state @/m/state"), "makes that directory"),
        (place.crawl("--module jsonl=@/f/pages --log @/f"), "/f' is the file of --log"),
        (place.crawl("--state @/s --log @/s"), "it is the directory of --state"),
        (place.crawl("--state @/s --summary @/s/crawl.state"), "the state has a file of that name"),
    ] {
        assert!(stderr.contains(message), "{message}: {stderr}");
        assert!(stderr.contains("cannot write --") || stderr.contains("is the directory"), "{stderr}");
    }
    assert_eq!(place.files(), 0, "nothing was written");
}

#[test]
fn two_names_of_a_file_are_one_file() {
    let place = Place::new();
    fs::write(place.path("pages"), "kept").unwrap();
    symlink(place.path("pages"), place.path("link")).unwrap();
    fs::hard_link(place.path("pages"), place.path("hard")).unwrap();
    for name in ["link", "hard"] {
        let stderr = place.crawl(&format!("--overwrite --module jsonl=@/pages --log @/{name}"));
        assert!(stderr.contains("write the same file"), "{stderr}");
    }
    assert_eq!(fs::read_to_string(place.path("pages")).unwrap(), "kept");
}

#[test]
fn devices_and_other_names_in_a_directory_can_be_shared() {
    let web = serve(Site::new().page("/", "a page"));
    let place = Place::new();
    let url = web.url("/");
    let pages = place.path("pages");
    fs::create_dir(&pages).unwrap();
    let (log, summary) = (place.path("pages/log"), place.path("pages/1.json"));
    run(&[&url, &pages, "1", "--delay", "0", "--allow-private", "--log", &log, "--summary", &summary])
        .expect(0);
    assert!(Path::new(&log).exists() && Path::new(&summary).exists());
    let shared = ["--log", "/dev/null", "--summary", "/dev/null", "--allow-private"];
    run(&[&["crawl", &url, "--delay", "0"], &shared[..]].concat()).expect(0);
}

#[test]
fn resumed_crawl_does_not_log_to_its_output() {
    let (web, place, files) = (serve(Site::new().page("/", "a page")), StateDir::new(), Place::new());
    let pages = files.path("pages.jsonl");
    place.crawl(web.url("/")).with(&format!("--module jsonl={pages}")).run().expect(0);
    let before = fs::read_to_string(&pages).unwrap();
    let stderr = run(&["resume", &place.state(), "--log", &pages]).expect(2).stderr;
    assert!(stderr.contains("--log and --module jsonl="), "{stderr}");
    assert_eq!(fs::read_to_string(&pages).unwrap(), before);
}
