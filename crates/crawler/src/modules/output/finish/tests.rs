use super::*;
use crate::modules::output::files::{OutputFiles, Start};
use crate::modules::output::new_file::NewFile;
use crate::modules::{Output, OutputWrite, example};
use crate::page::Page;
use std::io::Write as _;

/// The URLs of all pages, and how many there are.
struct Counted;

impl Output for Counted {
    fn name(&self) -> &str {
        "counted"
    }

    fn format(&self) -> String {
        "counted,twice".into()
    }

    fn finisher(&self) -> Option<&dyn Finisher> {
        Some(self)
    }

    fn render(&self, page: &Page) -> OutputWrite {
        let mut bytes = Vec::new();
        push_record(&mut bytes, page.url.as_str().as_bytes());
        OutputWrite::Append(bytes)
    }
}

impl Finisher for Counted {
    fn finish(&self, records: &Records, target: &Path) -> Result<(), StorageError> {
        let mut file = NewFile::create(target)?;
        let (mut reader, mut url, mut count) = (records.read()?, Vec::new(), 0);
        while reader.next(&mut url)? {
            count += 1;
            url.push(b'\n');
            file.write_all(&url).map_err(|error| file.error(error))?;
        }
        writeln!(file, "{count}").map_err(|error| file.error(error))?;
        file.finish()
    }
}

fn spec(target: &Path) -> OutputSpec {
    OutputSpec { output: Box::new(Counted), target: Target::File(target.to_owned()) }
}

fn page(spec: &OutputSpec, number: u64) -> Vec<(usize, OutputWrite)> {
    vec![(0, spec.output.render(&example::page(&format!("http://a.test/{number}"), b"", &[])))]
}

#[test]
fn target_is_made_from_the_records_and_made_again_after_more() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("counted");
    let specs = [spec(&target)];
    let mut files = OutputFiles::open(&specs, Start::Fresh).unwrap();
    files.apply(1, Some(1), &page(&specs[0], 1)).unwrap();
    files.apply(2, Some(2), &page(&specs[0], 2)).unwrap();
    files.flush().unwrap();
    assert!(!target.exists());
    specs[0].finish().unwrap();
    assert_eq!(fs::read_to_string(&target).unwrap(), "http://a.test/1\nhttp://a.test/2\n2\n");
    files.apply(3, Some(3), &page(&specs[0], 3)).unwrap();
    files.flush().unwrap();
    specs[0].finish().unwrap();
    assert!(fs::read_to_string(&target).unwrap().ends_with("http://a.test/3\n3\n"));
    specs[0].remove_records().unwrap();
    let names: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(names, ["counted"]);
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
    assert_eq!(fs::read_to_string(&target).unwrap(), "0\n");
    for wrong in [directory.path(), Path::new("/dev/null")] {
        let error = OutputFiles::open(&[spec(wrong)], Start::Overwrite).unwrap_err().to_string();
        assert!(error.contains("not a regular file"), "{error}");
    }
    let twice = [spec(&target), spec(&directory.path().join("./counted"))];
    let error = OutputFiles::open(&twice, Start::Overwrite).unwrap_err().to_string();
    assert!(error.contains("another module writes to it"), "{error}");
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
