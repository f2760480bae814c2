use super::*;
use crate::modules::check::{Check, CheckOptions, ReportFormat};
use crate::modules::output::files::{OutputFiles, Start};
use crate::modules::output::new_file::NewFile;

fn spec(target: &Path) -> OutputSpec {
    let options = CheckOptions { format: Some(ReportFormat::Text), ..CheckOptions::default() };
    OutputSpec { output: Box::new(Check::new(options)), target: Target::File(target.to_owned()) }
}

#[test]
fn incomplete_last_record_is_not_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.records");
    let mut bytes = b"crawler-records-1 counted\n".to_vec();
    let header = bytes.len();
    push_record(&mut bytes, b"one");
    let one = bytes.len();
    push_record(&mut bytes, b"");
    let empty = bytes.len();
    push_record(&mut bytes, b"three");
    for length in header..=bytes.len() {
        fs::write(&path, &bytes[..length]).unwrap();
        let records = Records::open(&path).unwrap().unwrap();
        let (mut reader, mut record, mut count) = (records.read().unwrap(), Vec::new(), 0);
        while reader.next(&mut record).unwrap() {
            count += 1;
        }
        let complete = [one, empty, bytes.len()].iter().filter(|end| **end <= length).count();
        assert_eq!(count, complete, "{length} bytes");
    }
    let records = Records::open(&path).unwrap().unwrap();
    let mut record = Vec::new();
    assert!(records.read_from(empty as u64).unwrap().next(&mut record).unwrap());
    assert_eq!((record.as_slice(), records.format.as_str()), (&b"three"[..], "counted"));
    for other in ["", "crawler-records-1 counted", "crawler-records-2 counted\n", "from,to\n"] {
        fs::write(&path, other).unwrap();
        assert!(Records::open(&path).unwrap().is_none(), "{other:?}");
    }
}

#[test]
fn existing_target_is_refused_unless_it_may_be_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("counted");
    fs::write(&target, "precious").unwrap();
    let error = OutputFiles::open(&[spec(&target)], Start::Fresh).unwrap_err().to_string();
    assert!(error.contains("counted': it already has 8 bytes; name another one, or overwrite it"), "{error}");
    assert!(!records_path(&target).exists(), "nothing was created");
    let mut files = OutputFiles::open(&[spec(&target)], Start::Overwrite).unwrap();
    files.flush().unwrap();
    assert_eq!(fs::read_to_string(&target).unwrap(), "precious", "until the new one is made");
    spec(&target).finish().unwrap();
    assert!(fs::read_to_string(&target).unwrap().contains("0 pages, "));
    for wrong in [directory.path(), Path::new("/dev/null")] {
        let error = OutputFiles::open(&[spec(wrong)], Start::Overwrite).unwrap_err().to_string();
        assert!(error.contains("not a regular file"), "{error}");
    }
    let twice = [spec(&target), spec(&directory.path().join("./counted"))];
    let error = OutputFiles::open(&twice, Start::Overwrite).unwrap_err().to_string();
    assert!(error.contains("another module writes to it"), "{error}");
}

#[test]
fn target_that_was_made_from_the_records_during_the_crawl_is_replaced_and_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("report.txt");
    let specs = [spec(&target)];
    let mut files = OutputFiles::open(&specs, Start::Fresh).unwrap();
    files.flush().unwrap();
    let records = Records::open(&records_path(&target)).unwrap().unwrap();
    finish_file_of_crawl(&records, &target, false).unwrap();
    files.check_unchanged(0, &specs[0].target).unwrap();
    fs::write(&target, "precious").unwrap();
    let error = files.check_unchanged(0, &specs[0].target).unwrap_err();
    assert_eq!(error.kind(), StorageErrorKind::AlreadyExists);
    specs[0].remove_records().unwrap();
    let names: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(names, ["report.txt"]);
}

#[test]
fn target_that_is_being_made_by_another_process_is_not_touched() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("counted");
    let other = NewFile::create(&target).unwrap();
    let error = NewFile::create(&target).unwrap_err();
    assert_eq!(error.kind(), StorageErrorKind::InUse);
    drop(other);
    NewFile::create(&target).unwrap().finish().unwrap();
    assert_eq!(fs::read(&target).unwrap(), b"");
}

#[test]
fn records_of_an_unknown_output_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.records");
    fs::write(&path, "crawler-records-1 counted,twice\n").unwrap();
    let records = Records::open(&path).unwrap().unwrap();
    let error = finish_file(&records, &directory.path().join("x"), false).unwrap_err();
    assert_eq!(error.kind(), StorageErrorKind::Unsupported);
    assert!(error.to_string().contains("this program has no output 'counted,twice'"), "{error}");
}
