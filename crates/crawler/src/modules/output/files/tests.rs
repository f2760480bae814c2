//! Tests of output files: crashes at every byte, and targets that are rejected.

use std::path::PathBuf;

use super::*;
use crate::modules::edges::Edges;
use crate::modules::example;
use crate::modules::jsonl::Jsonl;
use crate::modules::pages::Pages;

const FILES: [&str; 2] = ["pages.jsonl", "edges.csv"];

fn specs(directory: &Path) -> Vec<OutputSpec> {
    vec![
        OutputSpec { output: Box::new(Jsonl::default()), target: Target::File(directory.join(FILES[0])) },
        OutputSpec { output: Box::<Edges>::default(), target: Target::File(directory.join(FILES[1])) },
        OutputSpec { output: Box::new(Pages), target: Target::Directory(directory.join("pages")) },
    ]
}

/// The position after this many pages, and nothing else.
fn at(pages: u64) -> OutputPosition {
    OutputPosition { sequence: pages, page: pages }
}

/// The writes of page `id` of the example crawl, as the durable state records them.
fn writes(specs: &[OutputSpec], id: u64) -> Vec<(usize, OutputWrite)> {
    let url = format!("http://a.test/{id}");
    let body = format!("<p>page {id}");
    let page =
        example::page(&url, body.as_bytes(), &["http://b.test/,", "http://c.test/"][..id as usize % 3]);
    specs.iter().map(|spec| spec.output.render(&page)).enumerate().collect()
}

fn apply(files: &mut OutputFiles, specs: &[OutputSpec], ids: std::ops::RangeInclusive<u64>) -> Vec<u64> {
    for id in ids {
        files.apply(id, Some(id), &writes(specs, id)).unwrap();
    }
    files.flush().unwrap();
    files.lengths()
}

/// All files below a directory with their bytes.
fn contents(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            found.push((path.clone(), fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}

fn relative(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let strip = |(path, bytes): (PathBuf, _)| (path.strip_prefix(directory).unwrap().to_owned(), bytes);
    contents(directory).into_iter().map(strip).collect()
}

#[test]
fn resume_after_a_crash_at_any_byte_writes_the_same_bytes() {
    const PAGES: u64 = 5;
    let uninterrupted = tempfile::tempdir().unwrap();
    let uninterrupted_specs = specs(uninterrupted.path());
    let mut files = OutputFiles::open(&uninterrupted_specs, Start::Fresh).unwrap();
    let mut checkpoints = vec![(0, vec![0; 3])];
    for id in 1..=PAGES {
        checkpoints.push((id, apply(&mut files, &uninterrupted_specs, id..=id)));
    }
    let expected = relative(uninterrupted.path());
    assert!(expected.iter().any(|(path, _)| path.ends_with("pages/5")), "{expected:?}");

    let all = &checkpoints[PAGES as usize].1;
    for (last_id, committed) in &checkpoints {
        // Crash at every byte of the next page, and after all pages were written but not recorded.
        let next = &checkpoints[(last_id + 1).min(PAGES) as usize].1;
        let page_length = (0..2).map(|file| next[file] - committed[file]).max().unwrap();
        for later in (0..=page_length).chain([u64::from(u16::MAX)]) {
            // The files as the crash left them: longer than recorded, with later pages.
            let crashed = tempfile::tempdir().unwrap();
            for (file, name) in FILES.iter().enumerate() {
                let bytes = fs::read(uninterrupted.path().join(name)).unwrap();
                let length = (committed[file] + later).min(all[file]);
                fs::write(crashed.path().join(name), &bytes[..length as usize]).unwrap();
            }
            fs::create_dir(crashed.path().join("pages")).unwrap();
            for id in 1..=(last_id + later).min(PAGES) {
                let name = format!("pages/{id}");
                fs::copy(uninterrupted.path().join(&name), crashed.path().join(&name)).unwrap();
            }
            fs::write(crashed.path().join("pages/.page.unfinished"), "half").unwrap();

            let specs = specs(crashed.path());
            let start = Start::Resumed { committed, written: at(*last_id) };
            let mut files = OutputFiles::open(&specs, start).unwrap();
            // The length includes the buffered header.
            let lengths = if *last_id == 0 { vec![0, 8, 0] } else { committed.clone() };
            assert_eq!((files.position(), files.lengths()), (at(*last_id), lengths));
            apply(&mut files, &specs, last_id + 1..=PAGES);
            assert_eq!(relative(crashed.path()), expected, "{later} bytes after page {last_id}");
        }
    }
}

#[test]
fn page_is_written_once_and_gaps_are_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let specs = specs(directory.path());
    let mut files = OutputFiles::open(&specs, Start::Fresh).unwrap();
    let lengths = apply(&mut files, &specs, 1..=2);
    assert_eq!(apply(&mut files, &specs, 1..=2), lengths);
    let gap = files.apply(4, Some(4), &writes(&specs, 4)).unwrap_err();
    assert_eq!(gap.to_string(), "cannot write to the outputs: they have number 4, and the last ones had 2");
    assert_eq!(files.lengths(), lengths);
}

#[test]
fn resume_rejects_a_file_shorter_than_committed_and_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let specs = specs(directory.path());
    let committed = apply(&mut OutputFiles::open(&specs, Start::Fresh).unwrap(), &specs, 1..=3);
    let edges = directory.path().join(FILES[1]);
    fs::write(&edges, "from,to\n").unwrap();
    fs::write(directory.path().join("pages/9"), "later").unwrap();
    let before = contents(directory.path());
    let start = Start::Resumed { committed: &[committed[0] - 1, committed[1], 0], written: at(2) };
    let error = OutputFiles::open(&specs, start).unwrap_err().to_string();
    assert!(error.contains(FILES[1]) && error.contains("has 8 bytes, but"), "{error}");
    assert_eq!(contents(directory.path()), before);
    fs::remove_file(&edges).unwrap();
    let error = OutputFiles::open(&specs, start).unwrap_err().to_string();
    assert!(error.contains("has 0 bytes"), "{error}");
}

#[test]
fn fresh_crawl_rejects_existing_output_unless_overwriting() {
    for existing in [FILES[0], FILES[1], "pages/7"] {
        let directory = tempfile::tempdir().unwrap();
        let specs = specs(directory.path());
        fs::create_dir(directory.path().join("pages")).unwrap();
        fs::write(directory.path().join(existing), "something").unwrap();
        let error = OutputFiles::open(&specs, Start::Fresh).unwrap_err().to_string();
        assert!(error.contains("overwrite"), "{error}");
        assert_eq!(fs::read(directory.path().join(existing)).unwrap(), b"something");
        let mut files = OutputFiles::open(&specs, Start::Overwrite).unwrap();
        apply(&mut files, &specs, 1..=1);
        assert_eq!(contents(directory.path()).len(), 3);
        assert!(contents(directory.path()).iter().all(|(_, bytes)| bytes != b"something"));
    }
}

#[test]
fn output_file_is_locked_against_other_crawls_and_modules() {
    let directory = tempfile::tempdir().unwrap();
    let first = OutputFiles::open(&specs(directory.path()), Start::Fresh).unwrap();
    let error = OutputFiles::open(&specs(directory.path()), Start::Overwrite).unwrap_err().to_string();
    assert!(error.contains("another crawl or another module"), "{error}");
    drop(first);
    let mut twice = specs(directory.path());
    twice[1].target = twice[0].target.clone();
    let error = OutputFiles::open(&twice, Start::Overwrite).unwrap_err().to_string();
    assert!(error.contains("another module writes to it"), "{error}");
}

#[test]
fn page_that_failed_to_write_does_not_count_and_can_be_retried() {
    let directory = tempfile::tempdir().unwrap();
    let specs = specs(directory.path());
    let mut files = OutputFiles::open(&specs, Start::Fresh).unwrap();
    let lengths = apply(&mut files, &specs, 1..=1);
    let obstacle = directory.path().join("pages/2");
    fs::create_dir(&obstacle).unwrap();
    let error = files.apply(2, Some(2), &writes(&specs, 2)).unwrap_err().to_string();
    assert!(error.contains("pages/2'"), "{error}");
    assert_eq!((files.lengths(), files.position()), (lengths, at(1)));
    fs::remove_dir(&obstacle).unwrap();
    // As if the page's file had been written and the write to another output had failed.
    fs::write(&obstacle, "an earlier attempt").unwrap();
    apply(&mut files, &specs, 2..=2);
    assert_eq!(fs::read(&obstacle).unwrap(), b"http://a.test/2\n2\n<p>page 2");
    files.sync().unwrap();
}

#[test]
fn writes_of_the_wrong_kind_are_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let specs = specs(directory.path());
    let mut files = OutputFiles::open(&specs, Start::Fresh).unwrap();
    for wrong in
        [(2, OutputWrite::Append(vec![])), (0, OutputWrite::File(vec![])), (3, OutputWrite::Append(vec![]))]
    {
        assert_eq!(files.apply(1, Some(1), &[wrong]).unwrap_err().kind(), StorageErrorKind::Internal);
    }
    let resumed = Start::Resumed { committed: &[0, 0], written: at(0) };
    drop(files);
    let error = OutputFiles::open(&specs, resumed).unwrap_err().to_string();
    assert!(error.contains("it has the lengths of 2 outputs, and there are 3"), "{error}");
}

#[test]
fn resume_rejects_a_directory_with_missing_pages_and_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let specs = specs(directory.path());
    let committed = apply(&mut OutputFiles::open(&specs, Start::Fresh).unwrap(), &specs, 1..=3);
    let start = Start::Resumed { committed: &committed, written: at(3) };
    fs::remove_file(directory.path().join("pages/2")).unwrap();
    fs::write(directory.path().join("pages/4"), "later").unwrap();
    let before = contents(directory.path());
    let error = OutputFiles::open(&specs, start).unwrap_err().to_string();
    assert!(error.contains("pages': it has no file 2, but the crawl had written 1 to 3"), "{error}");
    assert_eq!(contents(directory.path()), before);
    fs::remove_dir_all(directory.path().join("pages")).unwrap();
    let error = OutputFiles::open(&specs, start).unwrap_err().to_string();
    assert!(error.contains("pages': it does not exist"), "{error}");
    assert!(!directory.path().join("pages").exists(), "the directory is not created");
}

#[test]
fn rejected_output_leaves_the_others_unchanged() {
    for obstacle in ["pages/7", "pages/.page.unfinished"] {
        let directory = tempfile::tempdir().unwrap();
        let specs = specs(directory.path());
        fs::create_dir_all(directory.path().join(obstacle)).unwrap();
        fs::write(directory.path().join(FILES[1]), "from an earlier crawl").unwrap();
        let error = OutputFiles::open(&specs, Start::Overwrite).unwrap_err().to_string();
        assert!(error.contains("something that is not a file is there"), "{error}");
        assert_eq!(fs::read(directory.path().join(FILES[1])).unwrap(), b"from an earlier crawl");
    }
}

#[test]
fn header_is_written_by_a_flush_and_not_by_a_drop() {
    let directory = tempfile::tempdir().unwrap();
    let specs = specs(directory.path());
    drop(OutputFiles::open(&specs, Start::Fresh).unwrap());
    let mut files = OutputFiles::open(&specs, Start::Fresh).expect("the file is empty");
    files.flush().unwrap();
    drop(files);
    assert_eq!(fs::read(directory.path().join(FILES[1])).unwrap(), b"from,to\n");
}
