//! What other programs say about the archives of crawls, and about their indexes and WACZ files.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;
use testweb::{Certificate, Web};

use super::visits::{archive_of_visits, files_of};
use super::{site_of_all_kinds, valid};
use crate::archive_files::{python_path, python_program};
use crate::archive_records::files;
use crate::pipeline::Pipeline;

/// Checks all digests with FastWARC. It takes the payload digest of a revisit for that of the revisit's own block, which has no payload;
/// the standard says that it is that of the payload to which the revisit refers.
fn check_with_fastwarc(archive: &str, revisits: &[&str]) {
    let arguments = ["check", "--verify-payloads", "--quiet", "--output", "/dev/stdout", archive];
    let output = Command::new(python_path("fastwarc")).args(arguments).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.lines().count() > 2, "{said}{}", String::from_utf8_lossy(&output.stderr));
    for line in said.lines() {
        let (id, verdict) = line.rsplit_once(": ").unwrap();
        let is_right = matches!(verdict, "OK, PAYLOAD_OK" | "OK, PAYLOAD_NO_DIGEST");
        assert!(is_right || verdict == "OK, PAYLOAD_FAIL" && revisits.contains(&id), "{line}");
    }
}

/// Checks the files of an archive, its index and its WACZ file with all programs.
#[track_caller]
fn are_accepted(files: &[PathBuf]) {
    let responses = valid(files, &[]);
    let revisits: Vec<&str> = responses
        .iter()
        .filter(|response| response["type"] == "revisit")
        .map(|response| response["id"].as_str().unwrap())
        .collect();
    let mut names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    for name in &names {
        let said = python_program("warcio", &["check", "--verbose", name]);
        assert!(!said.contains("failed") && said.contains("digest pass"), "{said}");
        check_with_fastwarc(name, &revisits);
    }
    names.insert(0, "--sort".into());
    let theirs = python_program("cdxj-indexer", &names.iter().map(String::as_str).collect::<Vec<_>>());
    let stem = names[1].strip_suffix("-00001.warc.gz").unwrap();
    let ours = fs::read_to_string(format!("{stem}.cdxj")).unwrap();
    for (our, their) in ours.lines().zip(theirs.lines()) {
        assert_eq!(our, their);
    }
    assert_eq!(ours.lines().count(), theirs.lines().count());
    let said = python_program("wacz", &["validate", "-f", &format!("{stem}.wacz")]);
    assert!(said.contains("Validation succeeded"), "{said}");
}

#[test]
#[ignore = "needs the Python packages warcio, fastwarc, cdxj-indexer and wacz: run by make test"]
fn other_programs_accept_archives_indexes_and_wacz_files() {
    let directory = TempDir::new().unwrap();
    let web = Web::builder().site(site_of_all_kinds()).https(Certificate::Good).start();
    let authority = directory.path().join("ca.pem");
    fs::write(&authority, web.ca_pem()).unwrap();
    for (stem, seed) in [("http1", web.url("/")), ("http2", web.https_url("/"))] {
        Pipeline::of(seed)
            .with("--scope host --max-page-bytes 200KB --similarity 0 --wacz --warc-size 10KB")
            .with(&format!("--ca-file {}", authority.display()))
            .module("warc", &directory.path().join(format!("{stem}.warc.gz")))
            .run()
            .expect(0);
        are_accepted(&files(directory.path(), stem, "warc.gz"));
    }
}

#[test]
#[ignore = "needs the Python packages warcio, fastwarc, cdxj-indexer and wacz: run by make test"]
fn other_programs_accept_the_archive_of_killed_visits() {
    let (place, _web) = archive_of_visits();
    are_accepted(&files_of(&place));
}
