//! What other programs say about the archives of crawls, and about their indexes and WACZ files.

use std::fs;

use tempfile::TempDir;
use testweb::{Certificate, Web};

use super::site_of_all_kinds;
use super::visits::{archive_of_visits, files_of};
use crate::archive_judges::{are_accepted, valid};
use crate::archive_records::files;
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
        let files = files(directory.path(), stem, "warc.gz");
        are_accepted(&files, &valid(&files, &[]));
    }
}

#[test]
#[ignore = "needs the Python packages warcio, fastwarc, cdxj-indexer and wacz: run by make test"]
fn other_programs_accept_the_archive_of_killed_visits() {
    let (place, _web) = archive_of_visits();
    let files = files_of(&place);
    are_accepted(&files, &valid(&files, &[]));
}
