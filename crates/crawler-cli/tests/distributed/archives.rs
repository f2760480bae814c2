//! Web archives of distributed crawls whose workers are killed.

use std::collections::BTreeMap;

use super::archive_records::{files, records, responses};
use super::fixture::Fixture;

#[test]
#[ignore = "needs redis-server: run by make test"]
fn collected_archive_has_each_url_once_after_kills() {
    let fixture = Fixture::slow(12, 15);
    let options = ["--dead-after", "3s", "--module", "warc=site.warc.gz", "--warc-size", "20KB"];
    let controller = fixture.start_crawl(3, &options);
    for role in ["worker 0", "worker 1", "frontier"] {
        fixture.kill(role);
    }
    controller.wait_for_success();
    let merged = fixture.run(&["collect", "--of", "site.warc.gz", "--wacz"]);
    assert!(merged.contains("URLs from 3 part files"), "{merged}");
    let directory = fixture.directory.path();
    let files = files(directory, "site", "warc.gz");
    assert!(files.len() > 1);
    let names = files.iter().map(|file| file.to_str().unwrap());
    let index = fixture.run(&["index"].into_iter().chain(names).collect::<Vec<_>>());
    assert_eq!(std::fs::read_to_string(directory.join("site.cdxj")).unwrap(), index);
    assert!(directory.join("site.wacz").is_file());
    let records = records(&files);
    let mut archived: BTreeMap<&str, u32> = BTreeMap::new();
    for response in responses(&records).filter(|response| response.status() == 200) {
        *archived.entry(response.url()).or_default() += 1;
    }
    for page in fixture.pages() {
        assert_eq!(archived.get(page.as_str()), Some(&1), "{page}");
    }
}
