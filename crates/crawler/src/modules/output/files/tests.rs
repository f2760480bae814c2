//! Files after crashes, and what is refused.

use std::path::PathBuf;

use super::*;
use crate::modules::edges::Edges;
use crate::modules::example;
use crate::modules::jsonl::Jsonl;
use crate::modules::pages::Pages;

const FILES: [&str; 2] = ["pages.jsonl", "edges.csv"];

fn specs(directory: &Path) -> Vec<OutputSpec> {
    vec![
        OutputSpec { output: Box::new(Jsonl), target: Target::File(directory.join(FILES[0])) },
        OutputSpec { output: Box::new(Edges), target: Target::File(directory.join(FILES[1])) },
        OutputSpec { output: Box::new(Pages), target: Target::Directory(directory.join("pages")) },
    ]
}

/// What page `id` of the example crawl adds, as a durable store records it.
fn additions(specs: &[OutputSpec], id: u64) -> Vec<(usize, OutputWrite)> {
    let url = format!("http://a.test/{id}");
    let body = format!("<p>page {id}");
    let page =
        example::page(&url, body.as_bytes(), &["http://b.test/,", "http://c.test/"][..id as usize % 3]);
    specs.iter().map(|spec| spec.output.render(&page)).enumerate().collect()
}

fn apply(files: &mut OutputFiles, specs: &[OutputSpec], ids: std::ops::RangeInclusive<u64>) -> Vec<u64> {
    for id in ids {
        files.apply(id, &additions(specs, id)).unwrap();
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
fn after_a_crash_at_any_byte_a_resume_writes_the_same_bytes() {
    const PAGES: u64 = 5;
    let whole = tempfile::tempdir().unwrap();
    let specs_of_whole = specs(whole.path());
    let mut files = OutputFiles::open(&specs_of_whole, Start::Fresh).unwrap();
    let mut noted = vec![(0, vec![0; 3])];
    for id in 1..=PAGES {
        noted.push((id, apply(&mut files, &specs_of_whole, id..=id)));
    }
    let expected = relative(whole.path());
    assert!(expected.iter().any(|(path, _)| path.ends_with("pages/5")), "{expected:?}");

    let all = &noted[PAGES as usize].1;
    for (last_id, committed) in &noted {
        // At every byte of the page after, and when everything was written and not yet noted.
        let next = &noted[(last_id + 1).min(PAGES) as usize].1;
        let most = (0..2).map(|file| next[file] - committed[file]).max().unwrap();
        for later in (0..=most).chain([u64::from(u16::MAX)]) {
            // The files as the crash left them: some bytes more than was noted, and later pages.
            let crashed = tempfile::tempdir().unwrap();
            for (file, name) in FILES.iter().enumerate() {
                let bytes = fs::read(whole.path().join(name)).unwrap();
                let left = (committed[file] + later).min(all[file]);
                fs::write(crashed.path().join(name), &bytes[..left as usize]).unwrap();
            }
            fs::create_dir(crashed.path().join("pages")).unwrap();
            for id in 1..=(last_id + later).min(PAGES) {
                let name = format!("pages/{id}");
                fs::copy(whole.path().join(&name), crashed.path().join(&name)).unwrap();
            }
            fs::write(crashed.path().join("pages/.page.unfinished"), "half").unwrap();

            let specs = specs(crashed.path());
            let start = Start::Resumed { committed, last_id: *last_id };
            let mut files = OutputFiles::open(&specs, start).unwrap();
            // The head of a file stands before any page, and counts as soon as it waits.
            let heads = if *last_id == 0 { vec![0, 8, 0] } else { committed.clone() };
            assert_eq!((files.last_id(), files.lengths()), (*last_id, heads));
            apply(&mut files, &specs, last_id + 1..=PAGES);
            assert_eq!(relative(crashed.path()), expected, "{later} bytes after page {last_id}");
        }
    }
}

#[test]
fn a_page_applied_again_is_not_written_again_and_none_may_be_left_out() {
    let directory = tempfile::tempdir().unwrap();
    let specs = specs(directory.path());
    let mut files = OutputFiles::open(&specs, Start::Fresh).unwrap();
    let lengths = apply(&mut files, &specs, 1..=2);
    assert_eq!(apply(&mut files, &specs, 1..=2), lengths);
    let hole = files.apply(4, &additions(&specs, 4)).unwrap_err();
    assert_eq!(hole.to_string(), "page 4 was to be written after page 2");
    assert_eq!(files.lengths(), lengths);
}

#[test]
fn a_file_shorter_than_committed_is_refused_and_nothing_destroyed() {
    let directory = tempfile::tempdir().unwrap();
    let specs = specs(directory.path());
    let committed = apply(&mut OutputFiles::open(&specs, Start::Fresh).unwrap(), &specs, 1..=3);
    let edges = directory.path().join(FILES[1]);
    fs::write(&edges, "from,to\n").unwrap();
    fs::write(directory.path().join("pages/9"), "later").unwrap();
    let before = contents(directory.path());
    let start = Start::Resumed { committed: &[committed[0] - 1, committed[1], 0], last_id: 2 };
    let refused = OutputFiles::open(&specs, start).unwrap_err().to_string();
    assert!(refused.contains(FILES[1]) && refused.contains("has 8 bytes"), "{refused}");
    assert_eq!(contents(directory.path()), before);
    fs::remove_file(&edges).unwrap();
    let refused = OutputFiles::open(&specs, start).unwrap_err().to_string();
    assert!(refused.contains("has 0 bytes"), "{refused}");
}

#[test]
fn a_fresh_crawl_refuses_what_another_wrote_unless_told_to_overwrite() {
    for existing in [FILES[0], FILES[1], "pages/7"] {
        let directory = tempfile::tempdir().unwrap();
        let specs = specs(directory.path());
        fs::create_dir(directory.path().join("pages")).unwrap();
        fs::write(directory.path().join(existing), "something").unwrap();
        let refused = OutputFiles::open(&specs, Start::Fresh).unwrap_err().to_string();
        assert!(refused.contains("--overwrite"), "{refused}");
        assert_eq!(fs::read(directory.path().join(existing)).unwrap(), b"something");
        let mut files = OutputFiles::open(&specs, Start::Overwrite).unwrap();
        apply(&mut files, &specs, 1..=1);
        assert_eq!(contents(directory.path()).len(), 3);
        assert!(contents(directory.path()).iter().all(|(_, bytes)| bytes != b"something"));
    }
}

#[test]
fn two_crawls_or_two_modules_do_not_share_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let first = OutputFiles::open(&specs(directory.path()), Start::Fresh).unwrap();
    let refused = OutputFiles::open(&specs(directory.path()), Start::Overwrite).unwrap_err().to_string();
    assert!(refused.contains("another crawl or another module"), "{refused}");
    drop(first);
    let mut twice = specs(directory.path());
    twice[1].target = twice[0].target.clone();
    let refused = OutputFiles::open(&twice, Start::Overwrite).unwrap_err().to_string();
    assert!(refused.contains("another crawl or another module"), "{refused}");
}

#[test]
fn a_page_that_could_not_be_written_counts_nowhere_and_can_be_applied_again() {
    let directory = tempfile::tempdir().unwrap();
    let specs = specs(directory.path());
    let mut files = OutputFiles::open(&specs, Start::Fresh).unwrap();
    let lengths = apply(&mut files, &specs, 1..=1);
    let obstacle = directory.path().join("pages/2");
    fs::create_dir(&obstacle).unwrap();
    let refused = files.apply(2, &additions(&specs, 2)).unwrap_err().to_string();
    assert!(refused.contains("pages/2'"), "{refused}");
    assert_eq!((files.lengths(), files.last_id()), (lengths, 1));
    fs::remove_dir(&obstacle).unwrap();
    // As if the page's file had been written and another output of the page had failed.
    fs::write(&obstacle, "an earlier attempt").unwrap();
    apply(&mut files, &specs, 2..=2);
    assert_eq!(fs::read(&obstacle).unwrap(), b"http://a.test/2\n2\n<p>page 2");
    files.sync().unwrap();
}

#[test]
fn what_does_not_fit_its_place_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let specs = specs(directory.path());
    let mut files = OutputFiles::open(&specs, Start::Fresh).unwrap();
    for wrong in
        [(2, OutputWrite::Append(vec![])), (0, OutputWrite::File(vec![])), (3, OutputWrite::Append(vec![]))]
    {
        assert_eq!(files.apply(1, &[wrong]).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    let resumed = Start::Resumed { committed: &[0, 0], last_id: 0 };
    drop(files);
    let refused = OutputFiles::open(&specs, resumed).unwrap_err().to_string();
    assert!(refused.contains("begun with 2 output modules and is resumed with 3"), "{refused}");
}

#[test]
fn a_directory_that_lost_pages_is_refused_and_nothing_destroyed() {
    let directory = tempfile::tempdir().unwrap();
    let specs = specs(directory.path());
    let committed = apply(&mut OutputFiles::open(&specs, Start::Fresh).unwrap(), &specs, 1..=3);
    let start = Start::Resumed { committed: &committed, last_id: 3 };
    fs::remove_file(directory.path().join("pages/2")).unwrap();
    fs::write(directory.path().join("pages/4"), "later").unwrap();
    let before = contents(directory.path());
    let refused = OutputFiles::open(&specs, start).unwrap_err().to_string();
    assert!(refused.contains("pages' has no file 2 where the crawl had written 1 to 3"), "{refused}");
    assert_eq!(contents(directory.path()), before);
    fs::remove_dir_all(directory.path().join("pages")).unwrap();
    let refused = OutputFiles::open(&specs, start).unwrap_err().to_string();
    assert!(refused.contains("pages' is not there"), "{refused}");
    assert!(!directory.path().join("pages").exists(), "nor is it made anew");
}

#[test]
fn if_one_output_is_refused_the_others_are_left_as_they_were() {
    for obstacle in ["pages/7", "pages/.page.unfinished"] {
        let directory = tempfile::tempdir().unwrap();
        let specs = specs(directory.path());
        fs::create_dir_all(directory.path().join(obstacle)).unwrap();
        fs::write(directory.path().join(FILES[1]), "from an earlier crawl").unwrap();
        let refused = OutputFiles::open(&specs, Start::Overwrite).unwrap_err().to_string();
        assert!(refused.contains("is in the way"), "{refused}");
        assert_eq!(fs::read(directory.path().join(FILES[1])).unwrap(), b"from an earlier crawl");
    }
}

#[test]
fn a_crawl_that_does_not_begin_leaves_no_head_behind_and_one_without_pages_does() {
    let directory = tempfile::tempdir().unwrap();
    let specs = specs(directory.path());
    drop(OutputFiles::open(&specs, Start::Fresh).unwrap());
    let mut files = OutputFiles::open(&specs, Start::Fresh).expect("nothing is in the way");
    files.flush().unwrap();
    drop(files);
    assert_eq!(fs::read(directory.path().join(FILES[1])).unwrap(), b"from,to\n");
}
