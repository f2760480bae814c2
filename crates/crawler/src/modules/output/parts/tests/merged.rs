//! Parts made one again, and what is refused.

use super::*;
use crate::modules::output::files::{OutputFiles, Start};

const OUTPUTS: [(&str, &str); 3] = [("pages", ".jsonl"), ("edges", ".csv"), ("pages", "")];

/// What becomes of a file's bytes.
type Change = fn(Vec<u8>) -> Vec<u8>;

/// The parts of one output in this directory, of these workers.
fn named(directory: &Path, (stem, extension): (&str, &str), workers: &[u16]) -> Vec<PathBuf> {
    workers.iter().map(|worker| directory.join(format!("{stem}.{worker}{extension}"))).collect()
}

/// Collects into a path.
fn into(parts: &[PathBuf], output: &Path, overwrite: bool) -> Result<MergeReport, MergeError> {
    collect(parts, Destination::Path(output), overwrite)
}

#[track_caller]
fn is_refused(parts: &[PathBuf], output: &Path, words: &[&str]) {
    let refused = match into(parts, output, false) {
        Err(MergeError::Refused(why)) => why,
        other => panic!("{other:?}"),
    };
    for word in words {
        assert!(refused.contains(word), "{word:?} is not in {refused}");
    }
}

/// Three workers, of whom the second and the third delivered pages again.
fn three_workers(directory: &Path) {
    let deliveries: [&[(u64, u64)]; 3] = [&[(8, 1), (2, 1), (5, 1)], &[(2, 2), (1, 1)], &[(5, 3), (700, 1)]];
    for (worker, deliveries) in (1..).zip(deliveries) {
        let mut parts = open(directory, worker).unwrap();
        deliveries.iter().for_each(|(task_id, lease_id)| add(&mut parts, *task_id, *lease_id));
    }
}

#[test]
fn the_output_is_byte_for_byte_what_one_process_writes() {
    let (directory, expected) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    three_workers(directory.path());
    let one = specs(expected.path());
    let mut files = OutputFiles::open(&one, Start::Fresh).unwrap();
    for (id, (task_id, lease_id)) in (1..).zip([(1, 1), (2, 2), (5, 3), (8, 1), (700, 1)]) {
        files.apply(id, &additions(&one, task_id, lease_id)).unwrap();
    }
    files.flush().unwrap();
    for (stem, extension) in OUTPUTS {
        // Whatever order they are named in, and also if a worker is still at work.
        let _at_work = open(directory.path(), 2).unwrap();
        let parts = named(directory.path(), (stem, extension), &[3, 1, 2]);
        let output = directory.path().join(format!("{stem}{extension}"));
        let collected = into(&parts, &output, false).unwrap();
        assert_eq!(collected, MergeReport { pages: 5, parts: 3, repeated: 2, withdrawn: 0, torn: 0 });
        let expected = expected.path().join(format!("{stem}{extension}"));
        if output.is_dir() {
            let files = |path: &Path| contents(path).into_values().collect::<Vec<_>>();
            assert_eq!(files(&output), files(&expected));
            assert!((1..=5).all(|number| output.join(number.to_string()).is_file()));
            continue;
        }
        assert_eq!(text(output.clone()), text(expected.clone()));
        let mut printed = Vec::new();
        collect(&parts, Destination::Stream(&mut printed), false).unwrap();
        assert_eq!(printed, fs::read(expected).unwrap());
    }
    assert!(contents(directory.path()).keys().all(|path| !path.to_string_lossy().contains("unfinished")));
}

#[test]
fn a_withdrawn_page_is_left_out_unless_it_was_delivered_later() {
    let directory = tempfile::tempdir().unwrap();
    three_workers(directory.path());
    let mut parts = open(directory.path(), 1).unwrap();
    for (task_id, lease_id) in [(5, 2), (8, 2), (1, 2), (900, 4)] {
        parts.withdraw(task_id, lease_id).unwrap();
    }
    for output in OUTPUTS {
        let parts = named(directory.path(), output, &[1, 2, 3]);
        let collected = into(&parts, &directory.path().join(format!("all{}", output.1)), false).unwrap();
        assert_eq!(collected, MergeReport { pages: 3, parts: 3, repeated: 2, withdrawn: 2, torn: 0 });
    }
    assert_eq!(contents(&directory.path().join("all")).len(), 3);
    drop(parts);
    // A torn line is no withdrawal, and is cut off.
    let lines = directory.path().join("pages.1/withdrawn");
    fs::write(&lines, text(lines.clone()) + "700 9").unwrap();
    let output = directory.path().join("again");
    let collected = into(&named(directory.path(), OUTPUTS[2], &[1, 2, 3]), &output, false).unwrap();
    assert_eq!((collected.pages, collected.torn), (3, 5));
    open(directory.path(), 1).unwrap().withdraw(2, 9).unwrap();
    assert_eq!(text(lines.clone()), "5 2\n8 2\n1 2\n900 4\n2 9\n");
    fs::write(&lines, "5\n").unwrap();
    let failed = into(&named(directory.path(), OUTPUTS[2], &[1]), &output, true).unwrap_err();
    assert!(failed.to_string().contains("the file 'withdrawn' of part"), "{failed}");
    assert!(text(directory.path().join("all/2")).starts_with("http://a.test/5\n"));
}

#[test]
fn parts_that_do_not_belong_together_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    three_workers(directory.path());
    drop(Parts::open(&specs(directory.path()), 4, &crawl("another"), false).unwrap());
    let output = at("out");
    let (one, four) = (at("edges.1.csv"), at("edges.4.csv"));
    is_refused(
        &[one.clone(), four],
        &output,
        &["crawl 'example' (7f)", "edges.4.csv' of crawl 'another' (7f)"],
    );
    is_refused(&[at("pages.1"), at("pages.4")], &output, &["pages.4' of crawl 'another' (7f)"]);
    is_refused(&[one.clone(), at("pages.2.jsonl")], &output, &["is of module 'edges'", "of module 'jsonl'"]);
    is_refused(
        &[one.clone(), at("../").join(directory.path().file_name().unwrap()).join("edges.1.csv")],
        &output,
        &["named twice"],
    );
    is_refused(&[at("edges.1.csv.index")], &output, &["edges.1.csv.index' is no part", "it has no index"]);
    is_refused(&[], &output, &["name the parts"]);
    assert!(!output.exists());
    // A mixture of kinds under one module's name, as only a program of one's own can have it.
    fs::copy(at("edges.1.csv.index"), at("pages.1/crawl.json")).unwrap();
    let header = text(at("edges.1.csv.index"));
    fs::write(at("pages.1/crawl.json"), header.lines().next().unwrap()).unwrap();
    is_refused(&[one, at("pages.1")], &output, &["is a directory and part", "edges.1.csv' is a file"]);
}

#[test]
fn an_index_named_beside_its_part_is_no_part_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let spec = OutputSpec { output: Box::new(Edges), target: Target::File(directory.path().join("edges")) };
    let mut parts = Parts::open(&[spec], 1, &crawl("example"), false).unwrap();
    parts.add(1, 1, &[(0, OutputWrite::Append(b"a,b\n".to_vec()))]).unwrap();
    let part = directory.path().join("edges.1");
    let collected =
        into(&[part.clone(), index::path_of(&part)], &directory.path().join("all"), false).unwrap();
    assert_eq!((collected.parts, collected.pages), (1, 1));
}

#[test]
fn who_names_the_output_is_told_its_parts() {
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
    is_refused(&[at("pages.jsonl")], &output, &["pages.jsonl' is no part: it is not there", &jsonl]);
    fs::write(at("pages.jsonl"), "").unwrap();
    is_refused(&[at("pages.jsonl")], &output, &["it has no index '", &jsonl]);
    let pages = list(["pages.1", "pages.2", "pages.10"]);
    is_refused(&[at("pages")], &output, &["is not there", &pages]);
    fs::create_dir(at("pages")).unwrap();
    is_refused(&[at("pages")], &output, &["no 'crawl.json'", &pages]);
    is_refused(&[at("nothing.csv")], &output, &["name parts that workers have written"]);
    (11..20).for_each(|worker| drop(open(directory.path(), worker).unwrap()));
    is_refused(&[at("edges.csv")], &output, &["edges.15.csv and 4 more"]);
}

#[test]
fn what_is_there_is_replaced_only_if_told_so_and_never_a_part() {
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
        let refused = into(&parts, &at(output), true).unwrap_err().to_string();
        assert!(refused.contains("is one of the parts"), "{refused}");
    }
    assert_eq!(contents(directory.path()), before);

    let (files, directories) =
        (named(directory.path(), OUTPUTS[1], &[1, 2]), named(directory.path(), OUTPUTS[2], &[1, 2]));
    fs::write(at("all.csv"), "precious").unwrap();
    fs::create_dir(at("all")).unwrap();
    fs::write(at("all/1"), "precious").unwrap();
    is_refused(&files, &at("all.csv"), &["all.csv'", "exists and holds 8 bytes", "--overwrite"]);
    is_refused(&directories, &at("all"), &["all' holds pages", "--overwrite"]);
    is_refused(&directories, &at("all.csv"), &["all.csv'", "not a directory"]);
    is_refused(&files, &at("all"), &["all'", "not a regular file"]);
    is_refused(&files, &at("nowhere/all.csv"), &["nowhere/all.csv'", "No such file"]);
    is_refused(&files, Path::new("/dev/null"), &["/dev/null'", "not a regular file"]);
    assert_eq!((text(at("all.csv")), text(at("all/1"))), ("precious".into(), "precious".into()));
    into(&files, &at("all.csv"), true).unwrap();
    into(&directories, &at("all"), true).unwrap();
    assert!(
        text(at("all.csv")).starts_with("from,to\n") && text(at("all/1")).starts_with("http://a.test/1\n")
    );
    let mut printed = Vec::new();
    let refused = collect(&directories, Destination::Stream(&mut printed), false).unwrap_err().to_string();
    assert!(refused.contains("cannot be printed"), "{refused}");
}

#[test]
fn a_damaged_part_is_named_and_leaves_the_output_as_it_was() {
    let changes: [(&str, Change, &str); 5] = [
        ("edges.2.csv", |it| it[..it.len() - 1].to_vec(), "edges.2.csv' has "),
        ("edges.2.csv.index", |_| Vec::new(), "says nothing of the "),
        ("edges.2.csv.index", |it| it[1..].to_vec(), "does not begin as one does"),
        ("edges.2.csv.index", |it| [&it[..], b"1 01 8 0\n"].concat(), "line 4 of "),
        ("edges.2.csv.index", |it| [&it[..], &[b'7'; 70_000]].concat(), "line 4 of "),
    ];
    for (name, change, words) in changes {
        let directory = tempfile::tempdir().unwrap();
        three_workers(directory.path());
        let path = directory.path().join(name);
        fs::write(&path, change(fs::read(&path).unwrap())).unwrap();
        let output = directory.path().join("all.csv");
        fs::write(&output, "precious").unwrap();
        let failed = into(&named(directory.path(), OUTPUTS[1], &[1, 2, 3]), &output, true).unwrap_err();
        assert!(matches!(&failed, MergeError::Unreadable(why) if why.contains(words)), "{failed}");
        assert_eq!(text(output), "precious");
    }
}

#[test]
fn a_worker_that_died_before_its_first_page_has_a_part_without_pages() {
    let directory = tempfile::tempdir().unwrap();
    three_workers(directory.path());
    drop(open(directory.path(), 4).unwrap());
    let (part, index) = (directory.path().join("edges.4.csv"), directory.path().join("edges.4.csv.index"));
    let (head, header) = (fs::read(&part).unwrap(), fs::read(&index).unwrap());
    let parts = named(directory.path(), OUTPUTS[1], &[4, 1, 2, 3]);
    // In the order in which they are written: the header of the index, then the head of the part.
    for written in 0..=header.len() + head.len() {
        fs::write(&index, &header[..written.min(header.len())]).unwrap();
        fs::write(&part, &head[..written.saturating_sub(header.len())]).unwrap();
        let output = directory.path().join("all.csv");
        let collected = into(&parts, &output, true).unwrap();
        assert_eq!((collected.pages, collected.parts), (5, 4));
        assert!(text(output).starts_with("from,to\nhttp://a.test/1,"));
        let reopened = directory.path().join("again");
        fs::create_dir_all(&reopened).unwrap();
        fs::copy(&index, reopened.join("edges.4.csv.index")).unwrap();
        fs::copy(&part, reopened.join("edges.4.csv")).unwrap();
        drop(open(&reopened, 4).unwrap());
        assert_eq!(fs::read(reopened.join("edges.4.csv")).unwrap(), head, "after {written} bytes");
        assert_eq!(fs::read(reopened.join("edges.4.csv.index")).unwrap(), header);
    }
}
