//! Tests of the merge: its result, and parts and destinations that are rejected.

use super::*;
use crate::modules::output::files::{OutputFiles, Start};
use crate::modules::registry::{self, RegisteredModule};

const OUTPUTS: [(&str, &str); 3] = [("pages", ".jsonl"), ("edges", ".csv"), ("pages", "")];

/// A change to the bytes of a file.
type Change = fn(Vec<u8>) -> Vec<u8>;

/// The paths of these workers' parts of one output.
fn part_paths(directory: &Path, (stem, extension): (&str, &str), workers: &[u16]) -> Vec<PathBuf> {
    workers.iter().map(|worker| directory.join(format!("{stem}.{worker}{extension}"))).collect()
}

/// Merges into a path.
fn merge_into(parts: &[PathBuf], output: &Path, overwrite: bool) -> Result<MergeReport, MergeError> {
    merge(parts, Destination::Path(output), overwrite)
}

#[track_caller]
fn assert_refused(parts: &[PathBuf], output: &Path, texts: &[&str]) {
    let refused = match merge_into(parts, output, false) {
        Err(MergeError::Refused(cause)) => cause,
        other => panic!("{other:?}"),
    };
    for text in texts {
        assert!(refused.contains(text), "{text:?} is not in {refused}");
    }
}

/// Writes the parts of three workers. Workers 2 and 3 have newer versions of pages of worker 1.
fn three_workers(directory: &Path) {
    let versions: [&[(u64, u64)]; 3] = [&[(8, 1), (2, 1), (5, 1)], &[(2, 2), (1, 1)], &[(5, 3), (700, 1)]];
    for (worker, versions) in (1..).zip(versions) {
        let mut parts = open(directory, worker).unwrap();
        versions.iter().for_each(|(task_id, lease_id)| add(&mut parts, *task_id, *lease_id));
    }
}

#[test]
fn merge_is_byte_for_byte_what_one_process_writes() {
    let (directory, expected) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    three_workers(directory.path());
    let one = specs(expected.path());
    let mut files = OutputFiles::open(&one, Start::Fresh).unwrap();
    for (id, (task_id, lease_id)) in (1..).zip([(1, 1), (2, 2), (5, 3), (8, 1), (700, 1)]) {
        files.apply(id, Some(id), &writes(&one, task_id, lease_id)).unwrap();
    }
    files.flush().unwrap();
    for (stem, extension) in OUTPUTS {
        // In any order, and also while a worker has its parts open.
        let _open = open(directory.path(), 2).unwrap();
        let parts = part_paths(directory.path(), (stem, extension), &[3, 1, 2]);
        let output = directory.path().join(format!("{stem}{extension}"));
        let report = merge_into(&parts, &output, false).unwrap();
        assert_eq!(report, MergeReport { pages: 5, parts: 3, superseded: 2, ..MergeReport::default() });
        let expected = expected.path().join(format!("{stem}{extension}"));
        if output.is_dir() {
            let files = |path: &Path| contents(path).into_values().collect::<Vec<_>>();
            assert_eq!(files(&output), files(&expected));
            assert!((1..=5).all(|number| output.join(number.to_string()).is_file()));
            continue;
        }
        assert_eq!(text(output.clone()), text(expected.clone()));
        let mut printed = Vec::new();
        merge(&parts, Destination::Stream(&mut printed), false).unwrap();
        assert_eq!(printed, fs::read(expected).unwrap());
    }
    assert!(contents(directory.path()).keys().all(|path| !path.to_string_lossy().contains("unfinished")));
}

#[test]
fn retracted_page_is_left_out_unless_a_later_lease_added_it() {
    let directory = tempfile::tempdir().unwrap();
    three_workers(directory.path());
    let mut parts = open(directory.path(), 1).unwrap();
    for (task_id, lease_id) in [(5, 2), (8, 2), (1, 2), (900, 4)] {
        parts.add(task_id, lease_id, &[]).unwrap();
    }
    for output in OUTPUTS {
        let parts = part_paths(directory.path(), output, &[1, 2, 3]);
        let report = merge_into(&parts, &directory.path().join(format!("all{}", output.1)), false).unwrap();
        assert_eq!(
            report,
            MergeReport { pages: 3, parts: 3, superseded: 2, retracted: 2, ..MergeReport::default() }
        );
    }
    assert_eq!(contents(&directory.path().join("all")).len(), 3);
    drop(parts);
    // An incomplete line is not a tombstone. The next open truncates it.
    let lines = directory.path().join("pages.1/withdrawn");
    fs::write(&lines, text(lines.clone()) + "700 9").unwrap();
    let output = directory.path().join("again");
    let report = merge_into(&part_paths(directory.path(), OUTPUTS[2], &[1, 2, 3]), &output, false).unwrap();
    assert_eq!((report.pages, report.incomplete_bytes), (3, 5));
    open(directory.path(), 1).unwrap().add(2, 9, &[]).unwrap();
    assert_eq!(text(lines.clone()), "5 2\n8 2\n1 2\n900 4\n2 9\n");
    fs::write(&lines, "5\n").unwrap();
    let failed = merge_into(&part_paths(directory.path(), OUTPUTS[2], &[1]), &output, true).unwrap_err();
    assert!(failed.to_string().contains("pages.1': its file 'withdrawn' is damaged"), "{failed}");
    assert!(text(directory.path().join("all/2")).starts_with("http://a.test/5\n"));
}

#[test]
fn page_that_the_crawl_did_not_take_is_retracted_by_its_own_lease() {
    let directory = tempfile::tempdir().unwrap();
    let mut parts = open(directory.path(), 1).unwrap();
    for task_id in [1, 2, 3] {
        add(&mut parts, task_id, 7);
    }
    parts.add(2, 7, &[]).unwrap();
    drop(parts);
    for output in OUTPUTS {
        let parts = part_paths(directory.path(), output, &[1]);
        let report = merge_into(&parts, &directory.path().join(format!("all{}", output.1)), false).unwrap();
        assert_eq!((report.pages, report.retracted, report.superseded), (2, 1, 0), "{output:?}");
    }
}

#[test]
fn parts_of_different_crawls_or_outputs_are_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    three_workers(directory.path());
    drop(Parts::open(&specs(directory.path()), 4, &crawl("another"), false).unwrap());
    let output = at("out");
    let (one, four) = (at("edges.1.csv"), at("edges.4.csv"));
    assert_refused(
        &[one.clone(), four],
        &output,
        &["crawl 'example' (7f)", "edges.4.csv' to crawl 'another' (7f)"],
    );
    assert_refused(&[at("pages.1"), at("pages.4")], &output, &["pages.4' to crawl 'another' (7f)"]);
    assert_refused(
        &[one.clone(), at("pages.2.jsonl")],
        &output,
        &["belongs to module 'edges'", "to module 'jsonl'"],
    );
    assert_refused(
        &[one.clone(), at("../").join(directory.path().file_name().unwrap()).join("edges.1.csv")],
        &output,
        &["named twice"],
    );
    assert_refused(
        &[at("edges.1.csv.index")],
        &output,
        &["edges.1.csv.index': it has no index", "it has no index"],
    );
    assert_refused(&[], &output, &["name the parts"]);
    assert!(!output.exists());
    // A file and a directory with the same output name, which only a custom `Output` can have.
    fs::copy(at("edges.1.csv.index"), at("pages.1/crawl.json")).unwrap();
    let header = text(at("edges.1.csv.index"));
    fs::write(at("pages.1/crawl.json"), header.lines().next().unwrap()).unwrap();
    assert_refused(&[one, at("pages.1")], &output, &["is a directory and part", "edges.1.csv' is a file"]);
}

#[test]
fn index_given_with_its_part_is_ignored() {
    let directory = tempfile::tempdir().unwrap();
    let spec =
        OutputSpec { output: Box::<Edges>::default(), target: Target::File(directory.path().join("edges")) };
    let mut parts = Parts::open(&[spec], 1, &crawl("example"), false).unwrap();
    parts.add(1, 1, &[(0, OutputWrite::Append(b"a,b\n".to_vec()))]).unwrap();
    let part = directory.path().join("edges.1");
    let report =
        merge_into(&[part.clone(), index::index_path(&part)], &directory.path().join("all"), false).unwrap();
    assert_eq!((report.parts, report.pages), (1, 1));
}

#[test]
fn error_for_an_output_lists_its_parts() {
    let directory = tempfile::tempdir().unwrap();
    for worker in [10, 2, 1] {
        open(directory.path(), worker).unwrap();
    }
    let at = |name: &str| directory.path().join(name);
    let output = at("out");
    let list = |names: [&str; 3]| {
        format!("its parts are {}", names.map(|name| at(name).display().to_string()).join(", "))
    };
    let jsonl = list(["pages.1.jsonl", "pages.2.jsonl", "pages.10.jsonl"]);
    assert_refused(&[at("pages.jsonl")], &output, &["pages.jsonl': it does not exist", &jsonl]);
    fs::write(at("pages.jsonl"), "").unwrap();
    assert_refused(&[at("pages.jsonl")], &output, &["it has no index '", &jsonl]);
    let pages = list(["pages.1", "pages.2", "pages.10"]);
    assert_refused(&[at("pages")], &output, &["does not exist", &pages]);
    fs::create_dir(at("pages")).unwrap();
    assert_refused(&[at("pages")], &output, &["no 'crawl.json'", &pages]);
    assert_refused(&[at("nothing.csv")], &output, &["name parts that workers have written"]);
    (11..20).for_each(|worker| drop(open(directory.path(), worker).unwrap()));
    assert_refused(&[at("edges.csv")], &output, &["edges.15.csv and 4 more"]);
}

#[test]
fn existing_output_is_replaced_only_with_overwrite_and_a_part_never() {
    let directory = tempfile::tempdir().unwrap();
    three_workers(directory.path());
    let at = |name: &str| directory.path().join(name);
    let before = contents(directory.path());
    for (output, parts) in [
        ("edges.2.csv", &["edges.1.csv", "edges.2.csv"][..]),
        ("edges.2.csv.index", &["edges.1.csv", "edges.2.csv"]),
        ("pages.3", &["pages.3", "pages.1"]),
    ] {
        let parts: Vec<PathBuf> = parts.iter().map(|part| at(part)).collect();
        let refused = merge_into(&parts, &at(output), true).unwrap_err().to_string();
        assert!(refused.contains("it is one of the parts"), "{refused}");
    }
    assert_eq!(contents(directory.path()), before);

    let (files, directories) = (
        part_paths(directory.path(), OUTPUTS[1], &[1, 2]),
        part_paths(directory.path(), OUTPUTS[2], &[1, 2]),
    );
    fs::write(at("all.csv"), "precious").unwrap();
    fs::create_dir(at("all")).unwrap();
    fs::write(at("all/1"), "precious").unwrap();
    assert_refused(&files, &at("all.csv"), &["all.csv'", "it already has 8 bytes", "overwrite"]);
    assert_refused(&directories, &at("all"), &["all' contains pages", "overwrite"]);
    assert_refused(&directories, &at("all.csv"), &["all.csv'", "not a directory"]);
    assert_refused(&files, &at("all"), &["all'", "not a regular file"]);
    assert_refused(&files, &at("nowhere/all.csv"), &["nowhere/all.csv'", "No such file"]);
    assert_refused(&files, Path::new("/dev/null"), &["/dev/null'", "not a regular file"]);
    assert_eq!((text(at("all.csv")), text(at("all/1"))), ("precious".into(), "precious".into()));
    merge_into(&files, &at("all.csv"), true).unwrap();
    merge_into(&directories, &at("all"), true).unwrap();
    assert!(
        text(at("all.csv")).starts_with("from,to\n") && text(at("all/1")).starts_with("http://a.test/1\n")
    );
    let mut printed = Vec::new();
    let refused = merge(&directories, Destination::Stream(&mut printed), false).unwrap_err().to_string();
    assert!(refused.contains("cannot print the output"), "{refused}");
}

#[test]
fn damaged_part_is_named_and_the_output_is_unchanged() {
    let changes: [(&str, Change, &str); 5] = [
        ("edges.2.csv", |it| it[..it.len() - 1].to_vec(), "edges.2.csv': it has "),
        ("edges.2.csv.index", |_| Vec::new(), "bytes that its index does not name"),
        ("edges.2.csv.index", |it| it[1..].to_vec(), "does not start with the header of a part"),
        ("edges.2.csv.index", |it| [&it[..], b"1 01 8 0\n"].concat(), "line 4 of "),
        ("edges.2.csv.index", |it| [&it[..], &[b'7'; 70_000]].concat(), "line 4 of "),
    ];
    for (name, change, text_of_error) in changes {
        let directory = tempfile::tempdir().unwrap();
        three_workers(directory.path());
        let path = directory.path().join(name);
        fs::write(&path, change(fs::read(&path).unwrap())).unwrap();
        let output = directory.path().join("all.csv");
        fs::write(&output, "precious").unwrap();
        let failed =
            merge_into(&part_paths(directory.path(), OUTPUTS[1], &[1, 2, 3]), &output, true).unwrap_err();
        assert!(
            matches!(&failed, MergeError::Unreadable(cause) if cause.contains(text_of_error)),
            "{failed}"
        );
        assert_eq!(text(output), "precious");
    }
}

#[test]
fn part_of_a_worker_that_crashed_before_its_first_page_has_no_pages() {
    let directory = tempfile::tempdir().unwrap();
    three_workers(directory.path());
    drop(open(directory.path(), 4).unwrap());
    let (part, index) = (directory.path().join("edges.4.csv"), directory.path().join("edges.4.csv.index"));
    let (output_header, part_header) = (fs::read(&part).unwrap(), fs::read(&index).unwrap());
    let parts = part_paths(directory.path(), OUTPUTS[1], &[4, 1, 2, 3]);
    // In the order of the writes: the header of the index, then the header of the output.
    for written in 0..=part_header.len() + output_header.len() {
        fs::write(&index, &part_header[..written.min(part_header.len())]).unwrap();
        fs::write(&part, &output_header[..written.saturating_sub(part_header.len())]).unwrap();
        let output = directory.path().join("all.csv");
        let report = merge_into(&parts, &output, true).unwrap();
        assert_eq!((report.pages, report.parts), (5, 4));
        assert!(text(output).starts_with("from,to\nhttp://a.test/1,"));
        let reopened = directory.path().join("again");
        fs::create_dir_all(&reopened).unwrap();
        fs::copy(&index, reopened.join("edges.4.csv.index")).unwrap();
        fs::copy(&part, reopened.join("edges.4.csv")).unwrap();
        drop(open(&reopened, 4).unwrap());
        assert_eq!(fs::read(reopened.join("edges.4.csv")).unwrap(), output_header, "after {written} bytes");
        assert_eq!(fs::read(reopened.join("edges.4.csv.index")).unwrap(), part_header);
    }
}

#[test]
fn parts_of_an_output_that_is_made_at_the_end_are_merged_and_it_is_made() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let spec = || match registry::parse(&format!("graphml={}", path("graph.xml").display())) {
        Ok(RegisteredModule::Output(spec)) => spec,
        other => panic!("{other:?}"),
    };
    for (worker, versions) in [(1, &[(8, 1), (2, 1)][..]), (2, &[(2, 2), (1, 1)])] {
        let specs = [spec()];
        let mut parts = Parts::open(&specs, worker, &crawl("example"), false).unwrap();
        for (task_id, lease_id) in versions {
            parts.add(*task_id, *lease_id, &writes(&specs, *task_id, *lease_id)).unwrap();
        }
    }
    let output = path("graph.xml");
    let parts = parts_of(&output);
    assert_eq!(parts, [path("graph.1.xml.records"), path("graph.2.xml.records")]);
    let mut printed = Vec::new();
    let refused = merge(&parts, Destination::Stream(&mut printed), false).unwrap_err().to_string();
    assert_eq!(refused, "cannot print the output: graphml needs a file; name a file as output");
    let report = merge_into(&parts, &output, false).unwrap();
    assert_eq!(
        report,
        MergeReport {
            pages: 3,
            parts: 2,
            superseded: 1,
            retracted: 0,
            incomplete_bytes: 0,
            is_of_urls: true,
            is_archive: false
        }
    );
    let graph = text(output.clone());
    assert_eq!(graph.matches("<data key=\"outcome\">").count(), 3, "{graph}");
    let edge = |lease: u64| format!("<edge source=\"http://a.test/2\" target=\"http://b.test/{lease},\">");
    assert!(graph.contains(&edge(2)) && !graph.contains(&edge(1)), "the larger lease counts: {graph}");
    assert_refused(&parts, &output, &["graph.xml': it already has", "overwrite"]);
    merge_into(&parts, &output, true).unwrap();
    assert_eq!(text(output), graph);
    let names = contents(directory.path());
    assert_eq!(names.len(), 5, "two parts, two indexes, one graph: {:?}", names.keys());
}
