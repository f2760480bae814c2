//! What other programs say about the archives of crawls, and about their indexes and WACZ files.

use std::fs;

use tempfile::TempDir;
use testweb::{Certificate, Web};

use super::{files_of, site_of_all_kinds, valid};
use crate::archive_files::python_program;
use crate::pipeline::Pipeline;

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
        let files = files_of(directory.path(), stem);
        valid(&files, &[]);
        let mut names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        for name in &names {
            let said = python_program("warcio", &["check", "--verbose", name]);
            assert!(!said.contains("failed") && said.contains("digest pass"), "{said}");
            python_program("fastwarc", &["check", "--verify-payloads", "--quiet", name]);
        }
        names.insert(0, "--sort".into());
        let theirs = python_program("cdxj-indexer", &names.iter().map(String::as_str).collect::<Vec<_>>());
        let ours = fs::read_to_string(directory.path().join(format!("{stem}.cdxj"))).unwrap();
        for (our, their) in ours.lines().zip(theirs.lines()) {
            assert_eq!(our, their);
        }
        assert_eq!(ours.lines().count(), theirs.lines().count());
        let wacz = directory.path().join(format!("{stem}.wacz")).display().to_string();
        let said = python_program("wacz", &["validate", "-f", &wacz]);
        assert!(said.contains("Validation succeeded"), "{said}");
    }
}
