//! The validator notices each defect, so that its silence means something.

use std::fs;
use std::io::Read;
use std::path::PathBuf;

use flate2::read::MultiGzDecoder;
use tempfile::TempDir;
use testweb::Site;

use crate::archive_judges::{valid, validated};
use crate::archive_records::files;
use crate::common::{linking_to, serve};
use crate::pipeline::Pipeline;
use crate::replay::archives::gzip;

/// The members of an archive, decoded.
fn members(archive: &[u8]) -> Vec<Vec<u8>> {
    let (mut records, mut rest) = (Vec::new(), archive);
    while !rest.is_empty() {
        let mut decoder = flate2::bufread::GzDecoder::new(rest);
        let mut record = Vec::new();
        decoder.read_to_end(&mut record).unwrap();
        rest = decoder.into_inner();
        records.push(record);
    }
    records
}

fn replaced(record: &[u8], old: &str, new: &str) -> Vec<u8> {
    let text = record.iter().map(|byte| char::from(*byte)).collect::<String>();
    assert!(text.contains(old), "{old}: {text}");
    text.replacen(old, new, 1).chars().map(|character| character as u8).collect()
}

#[test]
fn each_defect_is_noticed() {
    let directory = TempDir::new().unwrap();
    let web = serve(
        Site::new()
            .page("/", linking_to(&["/one", "/two"]))
            .page("/one", "<p>the same text")
            .page("/two", "<p>the same text"),
    );
    let archive = directory.path().join("crawl.warc.gz");
    Pipeline::of(web.url("/")).with("--scope host --similarity 0").module("warc", &archive).run().expect(0);
    let file = files(directory.path(), "crawl", "warc.gz").remove(0);
    valid(std::slice::from_ref(&file), &[]);
    let whole = fs::read(&file).unwrap();
    let records = members(&whole);
    let mut decoded = Vec::new();
    MultiGzDecoder::new(&whole[..]).read_to_end(&mut decoded).unwrap();
    assert_eq!(records.concat(), decoded);
    let first = |kind: &str| {
        let field = format!("WARC-Type: {kind}\r\n");
        records.iter().position(|record| String::from_utf8_lossy(record).contains(&field)).unwrap()
    };
    let (response, request, revisit) = (first("response"), first("request"), first("revisit"));
    let with = |index: usize, old: &str, new: &str| {
        let mut changed = records.clone();
        changed[index] = replaced(&changed[index], old, new);
        changed.iter().flat_map(|record| gzip(record)).collect::<Vec<u8>>()
    };
    let without = |index: usize| {
        let kept = records.iter().enumerate().filter(|(other, _)| *other != index);
        kept.flat_map(|(_, record)| gzip(record)).collect::<Vec<u8>>()
    };
    let garbage = [&whole[..], b"garbage"].concat();
    let joined: Vec<u8> =
        [gzip(&records[..2].concat()), records[2..].iter().flat_map(|record| gzip(record)).collect()]
            .concat();
    let defects: Vec<(&str, Vec<u8>)> = vec![
        ("a truncated last record", whole[..whole.len() - 20].to_vec()),
        ("bytes after the last record", garbage),
        ("two records in a member", joined),
        ("another version", with(response, "WARC/1.1", "WARC/1.0")),
        ("a date without fractions", with(response, &date_of(&records[response]), "2026-11-05T06:07:08Z")),
        (
            "another date than the request's",
            with(request, &date_of(&records[request]), "2026-11-05T06:07:08.123Z"),
        ),
        ("brackets", with(response, "WARC-Target-URI: http", "WARC-Target-URI: <http")),
        ("a wrong length", with(response, "Content-Length: ", "Content-Length: 1")),
        ("a changed payload", with(response, "\r\n\r\n", "\r\n\r\n ").to_vec()),
        ("a wrong digest", with(response, "WARC-Payload-Digest: sha1:", "WARC-Payload-Digest: sha1:A")),
        ("no warcinfo", without(0)),
        ("no request", without(request)),
        ("no response", without(response)),
        ("a repeated record", [&whole[..], &gzip(&records[response]), &gzip(&records[request])].concat()),
        ("a revisit without the URI", with(revisit, "WARC-Refers-To-Target-URI", "X-Refers-To-Target-URI")),
        ("a revisit of nothing", with(revisit, "WARC-Refers-To-Date: 2", "WARC-Refers-To-Date: 1")),
        ("no address", with(response, "WARC-IP-Address", "X-IP-Address")),
        ("no change without status 304", with(revisit, "identical-payload-digest", "server-not-modified")),
        ("a profile of 1.0", with(revisit, "/warc/1.1/revisit", "/warc/1.0/revisit")),
        (
            "a transfer coding",
            with(response, "HTTP/1.1 ", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX: "),
        ),
    ];
    let path: PathBuf = directory.path().join(file.file_name().unwrap());
    for (defect, bytes) in defects {
        fs::write(&path, bytes).unwrap();
        let (_, violations) = validated(std::slice::from_ref(&path), &[]);
        assert!(!violations.is_empty(), "not noticed: {defect}");
    }
    fs::write(&path, &whole).unwrap();
    let (_, violations) = validated(&[path], &["--secret", "the same text"]);
    assert!(violations.contains("it has the secret"), "{violations}");
}

/// The date in a record's header.
fn date_of(record: &[u8]) -> String {
    let text = String::from_utf8_lossy(record);
    let (_, rest) = text.split_once("WARC-Date: ").unwrap();
    rest.split_once("\r\n").unwrap().0.to_owned()
}
