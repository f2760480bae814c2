//! A part that is a directory: a file `TICKET.LOAN` for each page, one that says whose they are, and one of lines
//! `TICKET LOAN` for pages that are withdrawn.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::index::PartHeader;
use super::{ExistingPart, kept, refused};
use crate::error::Error;
use crate::modules::output::files;
use crate::modules::output::files::append::AppendFile;
use crate::modules::output::numbered_dir::{Handle, NumberedDir, UNFINISHED};

/// The file that says whose the pages are: the line that an index begins with.
const IDENTITY: &str = "crawl.json";

/// The file that says which pages of earlier loans are withdrawn.
const WITHDRAWN: &str = "withdrawn";

/// More than a line of it has.
const LONGEST_LINE: u64 = 64;

/// More than an identity has.
const LONGEST_IDENTITY: u64 = 64 * 1024;

/// The directory, held open.
#[derive(Debug)]
pub(super) struct DirectoryPart {
    files: NumberedDir,
    /// A line counts when its line feed is there.
    withdrawn: AppendFile,
    /// The length of its whole lines.
    whole: u64,
}

/// A page's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) task_id: u64,
    pub(super) lease_id: u64,
}

impl Name {
    pub(super) fn text(&self) -> String {
        let Name { task_id, lease_id } = self;
        format!("{task_id}.{lease_id}")
    }

    fn parse(text: &str) -> Option<Name> {
        let (task_id, lease_id) = text.split_once('.')?;
        let name = Name { task_id: task_id.parse().ok()?, lease_id: lease_id.parse().ok()? };
        // What is not written as it would be written here is a file of somebody else.
        (name.text() == text).then_some(name)
    }
}

impl DirectoryPart {
    /// Opens a part, new or not, keeps others out of it, and changes nothing in it.
    pub(super) fn open(path: &Path) -> Result<DirectoryPart, Error> {
        files::make_directory(path)?;
        let files = NumberedDir::open(path)?;
        let withdrawn = AppendFile::open(&path.join(WITHDRAWN))?;
        Ok(DirectoryPart { files, withdrawn, whole: 0 })
    }

    /// Looks how far the part is, and refuses one that this crawl cannot go on with.
    pub(super) fn check(&mut self, header: &PartHeader, overwrite: bool) -> Result<ExistingPart, Error> {
        let path = self.files.path();
        // Also whether it can be written to, and clears what a crash has left unfinished.
        self.files.check_after(u64::MAX)?;
        let unusable = |source| Error::Directory { path: path.to_owned(), source };
        let replaced =
            |why: &str| if overwrite { Ok(ExistingPart::Nothing) } else { Err(refused(path, why)) };
        self.whole = whole_lines(&path.join(WITHDRAWN)).map_err(unusable)?;
        match identity(path) {
            Ok(None) => match names(path).map_err(unusable)?.first() {
                None => Ok(ExistingPart::Nothing),
                Some(name) => replaced(&format!("it has pages (file {}) and no {IDENTITY}", name.text())),
            },
            Ok(Some(found)) => match found.is_not(header) {
                None => Ok(ExistingPart::Part),
                Some(why) if found.is_of_crawl_of(header) => Err(kept(path, &why)),
                Some(why) => replaced(&why),
            },
            Err(wrong) => replaced(&wrong),
        }
    }

    /// Cuts off what is torn; or removes everything, and says whose the part is.
    pub(super) fn begin(&mut self, found: ExistingPart, header: &PartHeader) -> Result<(), Error> {
        if let ExistingPart::Part = found {
            return self.withdrawn.begin(self.whole);
        }
        self.withdrawn.begin(0)?;
        let unusable = |source| Error::Directory { path: self.files.path().to_owned(), source };
        for name in names(self.files.path()).map_err(unusable)? {
            fs::remove_file(self.files.path().join(name.text())).map_err(unusable)?;
        }
        self.files.replace_as(IDENTITY, &header.line()).map_err(unusable)
    }

    /// Writes a page's file whole.
    pub(super) fn write(&self, task_id: u64, lease_id: u64, bytes: &[u8]) -> io::Result<()> {
        let name = Name { task_id, lease_id }.text();
        let written = self.files.replace_as(&name, bytes);
        written.map_err(|error| files::named(&self.files.path().join(name), &error))
    }

    /// Notes that what earlier loans have written does not count.
    pub(super) fn withdraw(&mut self, task_id: u64, lease_id: u64) -> io::Result<()> {
        let before = self.withdrawn.length();
        self.withdrawn.append(format!("{task_id} {lease_id}\n").as_bytes());
        let written = self.withdrawn.flush();
        if written.is_err() {
            // Nothing of it is in the file, and it is not to come later.
            self.withdrawn.take_back(before)?;
        }
        written
    }

    /// A handle to sync it by, with all that is in it.
    pub(super) fn handle(&self) -> io::Result<Handle> {
        self.files.handle().map_err(|error| files::named(self.files.path(), &error))
    }
}

/// Whether a directory is a part.
pub(super) fn is_part(path: &Path) -> bool {
    path.join(IDENTITY).is_file()
}

/// Whose a directory's pages are, if it says so.
pub(super) fn identity(path: &Path) -> Result<Option<PartHeader>, String> {
    let path: PathBuf = path.join(IDENTITY);
    let mut text = Vec::new();
    let read = File::open(&path).and_then(|file| file.take(LONGEST_IDENTITY).read_to_end(&mut text));
    match read {
        Ok(_) => PartHeader::parse(&text).map(Some).map_err(|wrong| format!("'{}' {wrong}", path.display())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("cannot read '{}': {error}", path.display())),
    }
}

/// The pages of a directory.
pub(super) fn names(path: &Path) -> io::Result<Vec<Name>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path)? {
        names.extend(entry?.file_name().to_str().and_then(Name::parse));
    }
    Ok(names)
}

/// Tells which tickets of a directory are withdrawn, and on which loans. Lines that are no such thing are told as none.
pub(super) fn withdrawn(path: &Path, mut tell: impl FnMut(Option<Name>)) -> io::Result<()> {
    let file = match File::open(path.join(WITHDRAWN)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    let mut lines = BufReader::new(file);
    let mut line = Vec::new();
    loop {
        line.clear();
        lines.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line)?;
        match line.split_last() {
            Some((b'\n', line)) => tell(std::str::from_utf8(line).ok().and_then(line_of)),
            Some(_) if line.len() as u64 == LONGEST_LINE => tell(None),
            _ => return Ok(()),
        }
    }
}

fn line_of(line: &str) -> Option<Name> {
    let (task_id, lease_id) = line.split_once(' ')?;
    Some(Name { task_id: task_id.parse().ok()?, lease_id: lease_id.parse().ok()? })
}

/// How many bytes of a file are whole lines.
fn whole_lines(path: &Path) -> io::Result<u64> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let from = length.saturating_sub(LONGEST_LINE);
    let mut end = Vec::new();
    file.seek(SeekFrom::Start(from))?;
    file.take(LONGEST_LINE).read_to_end(&mut end)?;
    Ok(end.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| from + at as u64 + 1))
}

/// How many bytes of a page or a line that was not finished a directory has.
pub(super) fn torn(path: &Path) -> u64 {
    let length = |name| fs::symlink_metadata(path.join(name)).map_or(0, |found| found.len());
    let whole = whole_lines(&path.join(WITHDRAWN)).unwrap_or(0);
    length(UNFINISHED) + length(WITHDRAWN).saturating_sub(whole)
}
