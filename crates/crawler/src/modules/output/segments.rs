//! Outputs that are split into files of bounded size: `crawl-00001.warc.gz`, `crawl-00002.warc.gz`, … of `crawl.warc.gz`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::warc::encoding::Encoding;
use crate::warc::writer::warcinfo;

/// The digits of a file's number. A larger number has more.
const DIGITS: usize = 5;

/// How an archive is split into files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentRule {
    /// A file to which more would be appended ends when it has this many bytes.
    pub max_bytes: u64,
    /// The fields of the first record of each file.
    pub info: String,
}

/// The names of the files of an output.
#[derive(Debug, Clone)]
pub(super) struct SegmentNames {
    output: PathBuf,
    encoding: Encoding,
    stem: String,
}

impl SegmentNames {
    /// The names for an output, by its path.
    pub(super) fn from_output(output: &Path) -> SegmentNames {
        let (encoding, stem) = match Encoding::from_path(output) {
            Some((encoding, stem)) => (encoding, stem.to_owned()),
            None => (Encoding::Gzip, output.file_name().unwrap_or_default().to_string_lossy().into_owned()),
        };
        SegmentNames { output: output.to_owned(), encoding, stem }
    }

    /// The name of a file.
    fn name(&self, number: u32) -> String {
        format!("{}-{number:0DIGITS$}{}", self.stem, self.encoding.extension())
    }

    /// The path of a file.
    pub(super) fn path(&self, number: u32) -> PathBuf {
        self.output.with_file_name(self.name(number))
    }

    /// The first bytes of a file.
    pub(super) fn header(&self, number: u32, rule: &SegmentRule, archive_id: &str) -> Vec<u8> {
        warcinfo(self.encoding, &self.name(number), &rule.info, archive_id)
    }

    /// The numbers of the files that exist, in order, each with its length.
    pub(super) fn existing(&self) -> io::Result<Vec<(u32, u64)>> {
        let parent = self.output.parent().filter(|parent| !parent.as_os_str().is_empty());
        let mut found = Vec::new();
        for entry in fs::read_dir(parent.unwrap_or(Path::new(".")))? {
            let entry = entry?;
            let number = entry.file_name().to_str().and_then(|name| self.number(name));
            if let Some(number) = number {
                // A symbolic link has the length of its target.
                let length = fs::metadata(entry.path()).map_or(0, |file| file.len());
                found.push((number, length));
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    /// The number in the name of a file.
    fn number(&self, name: &str) -> Option<u32> {
        let digits =
            name.strip_prefix(&self.stem)?.strip_suffix(self.encoding.extension())?.strip_prefix('-')?;
        let number = digits.parse().ok().filter(|number| *number > 0)?;
        (self.name(number) == name).then_some(number)
    }
}

/// What the names of an output's files start with, before their number: `crawl` of `crawl.warc.gz`.
pub(in crate::modules) fn stem(output: &Path) -> String {
    SegmentNames::from_output(output).stem
}

/// The files of an output, in order.
pub(in crate::modules) fn existing_files(output: &Path) -> io::Result<Vec<PathBuf>> {
    let names = SegmentNames::from_output(output);
    Ok(names.existing()?.into_iter().map(|(number, _)| names.path(number)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_numbers_and_other_files_are_none() {
        let names = SegmentNames::from_output(Path::new("/x/crawl.warc.gz"));
        assert_eq!(names.path(1), Path::new("/x/crawl-00001.warc.gz"));
        assert_eq!(names.path(123_456), Path::new("/x/crawl-123456.warc.gz"));
        for (name, number) in [
            ("crawl-00007.warc.gz", Some(7)),
            ("crawl-123456.warc.gz", Some(123_456)),
            ("crawl-7.warc.gz", None),
            ("crawl-00000.warc.gz", None),
            ("crawl-+0007.warc.gz", None),
            ("crawl-00007.warc", None),
            ("other-00007.warc.gz", None),
            ("crawl.warc.gz", None),
        ] {
            assert_eq!(names.number(name), number, "{name}");
        }
        assert_eq!(SegmentNames::from_output(Path::new("crawl")).path(2), Path::new("crawl-00002.warc.gz"));
        assert_eq!(SegmentNames::from_output(Path::new("a.warc")).path(2), Path::new("a-00002.warc"));
    }
}
