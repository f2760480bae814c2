//! Tests of outputs that are split: crashes at every byte, and files that are not the crawl's.

use super::*;
use crate::modules::output::files::{OpenTarget, OutputFiles};
use crate::modules::output::{OutputPosition, OutputWrite, Target};
use crate::warc::digest;

const RULE: u64 = 1_000;

/// Enough for a header and two or three writes.
fn target(directory: &Path, max_bytes: u64) -> OpenTarget<'static> {
    OpenTarget {
        target: Target::File(directory.join("a.warc")),
        header: Default::default(),
        segments: Some(SegmentRule { max_bytes, info: "software: test\r\n".into() }),
    }
}

fn open(directory: &Path, start: Start) -> Result<OutputFiles, StorageError> {
    OutputFiles::open_targets(&[target(directory, RULE)], start)
}

fn resumed(directory: &Path, length: u64, sequence: u64) -> Result<OutputFiles, StorageError> {
    let written = OutputPosition { sequence, page: 0 };
    open(directory, Start::Resumed { committed: &[length], written })
}

/// What URL `id` writes.
fn bytes(id: u64) -> Vec<u8> {
    let block = format!("write {id} {}", "x".repeat(300));
    let digest = digest::sha1(block.as_bytes());
    let length = block.len();
    format!("WARC/1.1\r\nWARC-Type: metadata\r\nWARC-Block-Digest: {digest}\r\nContent-Length: {length}\r\n\r\n{block}\r\n\r\n")
        .into_bytes()
}

fn apply(files: &mut OutputFiles, id: u64) -> u64 {
    files.apply(id, None, &[(0, OutputWrite::Append(bytes(id)))]).unwrap();
    files.flush().unwrap();
    files.lengths()[0]
}

/// The files with the writes in each of them, without their headers.
fn contents(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found: Vec<(String, Vec<u8>)> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), without_header(&entry.path())))
        .collect();
    found.sort();
    found
}

fn without_header(path: &Path) -> Vec<u8> {
    let content = fs::read(path).unwrap();
    let first_write =
        memchr::memmem::find(&content, b"WARC/1.1\r\nWARC-Type: metadata").unwrap_or(content.len());
    let header = String::from_utf8(content[..first_write].to_vec()).unwrap();
    let name = path.file_name().unwrap().to_str().unwrap();
    assert!(header.contains(&format!("WARC-Filename: {name}\r\n")), "{header}");
    content[first_write..].to_vec()
}

#[test]
fn resume_after_a_crash_at_any_byte_writes_the_same_records_to_the_same_files() {
    const WRITES: u64 = 8;
    let uninterrupted = tempfile::tempdir().unwrap();
    let mut files = open(uninterrupted.path(), Start::Fresh).unwrap();
    let mut lengths = vec![0];
    lengths.extend((1..=WRITES).map(|id| apply(&mut files, id)));
    drop(files);
    let expected = contents(uninterrupted.path());
    assert!(expected.len() >= 3, "{}", expected.len());
    assert!(expected.iter().all(|(_, content)| !content.is_empty()));
    for committed in 0..=WRITES {
        // The crash leaves the writes up to `crash`, which is at or after what was recorded, and a part of the next one.
        for crash in committed..=WRITES {
            for written in [0, 1, 100, 299] {
                let directory = tempfile::tempdir().unwrap();
                let mut files = open(directory.path(), Start::Fresh).unwrap();
                let mut length = 0;
                for id in 1..=crash {
                    let written = apply(&mut files, id);
                    length = if id == committed { written } else { length };
                }
                files.append_unrecorded(0, &bytes(crash + 1)[..written]).unwrap();
                files.flush().unwrap();
                drop(files);
                let mut files = resumed(directory.path(), length, committed).unwrap();
                for id in committed + 1..=WRITES {
                    apply(&mut files, id);
                }
                drop(files);
                assert!(
                    contents(directory.path()) == expected,
                    "recorded {committed}, crash after {crash}, of which {written} bytes were written"
                );
            }
        }
    }
}

#[test]
fn files_of_others_are_neither_replaced_nor_removed() {
    let directory = tempfile::tempdir().unwrap();
    let path = |number: u32| directory.path().join(format!("a-0000{number}.warc"));
    fs::write(path(3), "precious").unwrap();
    let error = open(directory.path(), Start::Fresh).unwrap_err().to_string();
    assert!(
        error.contains("a-00003.warc' already has")
            || error.contains("a-00003.warc': it already has 8 bytes"),
        "{error}"
    );
    assert!(!path(1).exists(), "nothing is left behind");
    fs::remove_file(path(3)).unwrap();
    let mut files = open(directory.path(), Start::Fresh).unwrap();
    fs::write(path(2), "precious").unwrap();
    let error =
        (1..9).find_map(|id| files.apply(id, None, &[(0, OutputWrite::Append(bytes(id)))]).err()).unwrap();
    assert!(error.to_string().contains("another program has made it"), "{error}");
    files.flush().unwrap();
    let (length, sequence) = (files.lengths()[0], files.position().sequence);
    drop(files);
    let error = resumed(directory.path(), length, sequence).unwrap_err().to_string();
    assert!(error.contains("this crawl has not written it") && error.contains("a-00002.warc"), "{error}");
    assert_eq!(fs::read(path(2)).unwrap(), b"precious");
    fs::remove_file(path(2)).unwrap();
    let mut files = resumed(directory.path(), length, sequence).unwrap();
    apply(&mut files, sequence + 1);
    assert!(path(2).exists());
}

#[test]
fn missing_and_short_files_are_reported_and_nothing_is_changed() {
    let directory = tempfile::tempdir().unwrap();
    let mut files = open(directory.path(), Start::Fresh).unwrap();
    let length = (1..=8).map(|id| apply(&mut files, id)).last().unwrap();
    drop(files);
    let moved = directory.path().join("moved");
    fs::rename(directory.path().join("a-00002.warc"), &moved).unwrap();
    let error = resumed(directory.path(), length, 8).unwrap_err().to_string();
    assert!(error.contains("restore the files"), "{error}");
    fs::rename(&moved, directory.path().join("a-00002.warc")).unwrap();
    let error = resumed(directory.path(), length + 1, 8).unwrap_err().to_string();
    assert!(error.contains("restore the files"), "{error}");
    assert_eq!(resumed(directory.path(), length, 8).unwrap().lengths(), [length]);
}

#[test]
fn overwriting_removes_all_files_of_earlier_crawls_and_no_others() {
    let directory = tempfile::tempdir().unwrap();
    for name in
        ["a-00001.warc", "a-00002.warc", "a-00007.warc", "a-00002.warc.gz", "a-2.warc", "b-00001.warc"]
    {
        fs::write(directory.path().join(name), "old").unwrap();
    }
    let mut files = open(directory.path(), Start::Overwrite).unwrap();
    files.flush().unwrap();
    let error = open(directory.path(), Start::Overwrite).unwrap_err().to_string();
    assert!(error.contains("another crawl or another module writes to it"), "{error}");
    let mut names: Vec<_> =
        fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["a-00001.warc", "a-00002.warc.gz", "a-2.warc", "b-00001.warc"]);
}

#[cfg(target_os = "linux")]
#[test]
fn finished_files_are_closed_and_fsynced_when_that_is_asked_for() {
    const WRITES: u64 = 300;
    // More than a header, and less than one with a write: each write has a file of its own.
    const ONE_WRITE: u64 = 500;
    let directory = tempfile::tempdir().unwrap();
    let mut files = OutputFiles::open_targets(&[target(directory.path(), ONE_WRITE)], Start::Fresh).unwrap();
    for id in 1..=WRITES {
        apply(&mut files, id);
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count() as u64, WRITES);
    let is_of_output = |entry: &io::Result<fs::DirEntry>| {
        let opened = entry.as_ref().ok().and_then(|entry| fs::read_link(entry.path()).ok());
        opened.is_some_and(|path| path.starts_with(directory.path().canonicalize().unwrap()))
    };
    let open = fs::read_dir("/proc/self/fd").unwrap().filter(is_of_output).count();
    assert_eq!(open, 2, "the first one, which is locked, and the current one");
    let closed = |files: &mut OutputFiles| {
        let handles = files.handles().unwrap();
        handles.sync().unwrap();
        handles.0.iter().filter(|handle| matches!(handle, SyncHandle::Closed(_))).count() as u64
    };
    assert_eq!((closed(&mut files), closed(&mut files)), (WRITES - 1, 0));
    apply(&mut files, WRITES + 1);
    assert_eq!(closed(&mut files), 1);
}
