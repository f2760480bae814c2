//! Damaged archives: what is damaged is reported and skipped, everything else is used.

use tempfile::TempDir;

use super::archives::{gzip, gzipped, page, pages, record, text_of, write};
use super::replay;
use crate::pipeline::{objects, urls};

#[test]
fn damaged_records_are_named_and_skipped() {
    let directory = TempDir::new().unwrap();
    let records = pages(0..9);
    let members: Vec<Vec<u8>> = records.iter().map(|record| gzip(record)).collect();
    let mut damaged = members.clone();
    let middle = damaged[4].len() / 2;
    damaged[4][middle] ^= 0xFF;
    let offset: usize = members[..4].iter().map(Vec::len).sum();
    let archive = write(directory.path(), "a.warc.gz", &damaged.concat());
    let ended = replay(&format!("{archive} --module jsonl=-")).expect(5);
    assert_eq!(urls(&objects(&ended.stdout)).len(), 8);
    let message = format!("a.warc.gz: damaged record at byte {offset}: ");
    assert!(ended.stderr.contains(&message), "{}", ended.stderr);
    assert!(ended.stderr.contains("Damaged            1"), "{}", ended.stderr);
    let whole = members.concat();
    let archive = write(directory.path(), "truncated.warc.gz", &whole[..whole.len() - 5]);
    let ended = replay(&format!("{archive} --module jsonl=-")).expect(5);
    assert_eq!(urls(&objects(&ended.stdout)).len(), 8);
    assert!(ended.stderr.contains("is incomplete"), "{}", ended.stderr);
}

#[test]
fn digest_shows_damage_where_nothing_else_does() {
    let directory = TempDir::new().unwrap();
    let block = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>as it was";
    let digest = "sha1:EPNHFBSHH5B4SJZJ2YHWKYX3CRJHNBDS";
    let with_digest = record("response", "http://a.test/changed", &[("WARC-Block-Digest", digest)], block);
    let archive = write(
        directory.path(),
        "a.warc",
        &[with_digest.clone(), page("http://a.test/", text_of(1))].concat(),
    );
    let ended = replay(&archive).expect(5);
    assert!(ended.stderr.contains("at byte 0: its content does not match its digest"), "{}", ended.stderr);
    assert!(ended.stdout.contains("Pages              1"), "{}", ended.stdout);
    // The checksum of gzip has shown that nothing has changed since it was written.
    let archive = write(directory.path(), "a.warc.gz", &gzip(&with_digest));
    replay(&archive).expect(0);
}

#[test]
fn many_damaged_records_are_counted() {
    let directory = TempDir::new().unwrap();
    let records: Vec<Vec<u8>> = (0..60)
        .map(|number| match number % 2 {
            0 => page(&format!("http://a.test/{number}"), text_of(number)),
            _ => b"WARC/1.1\r\nWARC-Type: response\r\n\r\nno length\r\n\r\n".to_vec(),
        })
        .collect();
    let archive = write(directory.path(), "a.warc.gz", &gzipped(&records));
    let ended = replay(&archive).expect(5);
    assert!(
        ended.stdout.contains("Pages             30") && ended.stdout.contains("Damaged           30"),
        "{}",
        ended.stdout
    );
    assert_eq!(ended.stderr.matches("damaged record at byte").count(), 20, "{}", ended.stderr);
    assert!(ended.stderr.contains("more damaged records"), "{}", ended.stderr);
    let verbose = replay(&format!("{archive} -v")).expect(5);
    assert_eq!(verbose.stderr.matches("damaged record at byte").count(), 30);
    assert_eq!(verbose.stdout.matches("Page: http://a.test/").count(), 30);
}

#[test]
fn bombs_take_little_memory() {
    let directory = TempDir::new().unwrap();
    let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\n\r\n";
    let zeros = vec![b'x'; 30_000_000];
    let inner = [&head[..], &gzip(&zeros)].concat();
    let plain = [&b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"[..], &zeros].concat();
    let records = [
        record("response", "http://a.test/inner", &[], &inner),
        record("response", "http://a.test/outer", &[], &plain),
        record("response", "http://a.test/next", &[], b"HTTP/1.1 200 OK\r\n\r\nnext"),
    ];
    let archive = write(directory.path(), "a.warc.gz", &gzipped(&records));
    let ended =
        replay(&format!("{archive} --similarity 0 --module jsonl=-,fields=url,bytes,truncated")).expect(0);
    let pages = objects(&ended.stdout);
    let sizes: Vec<(u64, bool)> = pages
        .iter()
        .map(|page| (page["bytes"].as_u64().unwrap(), page["truncated"].as_bool().unwrap()))
        .collect();
    assert_eq!(sizes.len(), 3);
    assert_eq!(sizes.iter().filter(|size| **size == (500_000, true)).count(), 2, "{sizes:?}");
    assert!(ended.peak_rss < 100 << 20, "{} bytes", ended.peak_rss);
}

/// The largest block of a zstd frame.
const MAX_BLOCK: usize = 128 << 10;

/// A zstd frame of these bytes, and then of this many times the byte x, that needs a window of 2 to the power of `window_log` bytes.
fn zstd_frame(window_log: u8, start: &[u8], repeated: usize) -> Vec<u8> {
    let block = |kind: usize, is_last: bool, size: usize| {
        ((size << 3 | kind << 1 | usize::from(is_last)) as u32).to_le_bytes()[..3].to_vec()
    };
    let mut frame =
        [&[0x28, 0xB5, 0x2F, 0xFD, 0, (window_log - 10) << 3][..], &block(0, false, start.len()), start]
            .concat();
    let mut left = repeated;
    while left > 0 {
        let size = left.min(MAX_BLOCK);
        left -= size;
        frame.extend([block(1, false, size), b"x".to_vec()].concat());
    }
    frame.extend(block(0, true, 4));
    frame.extend(b"\r\n\r\n");
    frame
}

/// A record of a page of this many bytes, in a frame with such a window.
fn page_in_frame(url: &str, window_log: u8, bytes: usize) -> Vec<u8> {
    let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n";
    let record = record("response", url, &[], &[&head[..], &vec![b'x'; bytes]].concat());
    let start = record.len() - bytes - 4;
    zstd_frame(window_log, &record[..start], bytes)
}

#[test]
fn zstd_frames_with_long_windows_take_little_memory() {
    const LONG: usize = 140 << 20;
    let directory = TempDir::new().unwrap();
    let archives: Vec<String> = (0..8)
        .map(|number| {
            let url = |name: &str| format!("http://a.test/{name}{number}");
            let frames = [
                page_in_frame(&url("before"), 23, 10),
                page_in_frame(&url("long"), 27, LONG),
                page_in_frame(&url("after"), 23, 10),
            ];
            write(directory.path(), &format!("{number}.warc.zst"), &frames.concat())
        })
        .collect();
    let ended =
        replay(&format!("{} --similarity 0 --module jsonl=-,fields=url", archives.join(" "))).expect(5);
    let found = urls(&objects(&ended.stdout));
    assert_eq!(found.len(), 16, "{found:?}");
    assert!(found.iter().all(|url| !url.contains("long")), "{found:?}");
    let reason = "its zstd frame needs a window of more than 8 MB";
    assert_eq!(ended.stderr.matches(reason).count(), 8, "{}", ended.stderr);
    assert!(ended.peak_rss < 100 << 20, "{} bytes", ended.peak_rss);
    // The longest window that is read.
    let archive = write(directory.path(), "long.warc.zst", &page_in_frame("http://a.test/", 23, LONG));
    let ended = replay(&format!("{archive} --module jsonl=-,fields=url,bytes,truncated")).expect(0);
    let page = &objects(&ended.stdout)[0];
    assert_eq!((page["bytes"].as_u64(), page["truncated"].as_bool()), (Some(500_000), Some(true)));
}
