//! A part that is a directory: a file `TICKET.LOAN` for each page, and one that says whose they are.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::index::Header;
use super::{Found, kept, refused};
use crate::error::Error;
use crate::modules::files;
use crate::modules::numbered::{Handle, NumberedFiles, UNFINISHED};

/// The file that says whose the pages are: the line that an index begins with.
const IDENTITY: &str = "crawl.json";

/// What is added to the name where an earlier loan's page is withdrawn.
const WITHDRAWN: &str = "withdrawn";

/// More than an identity has.
const LONGEST_IDENTITY: u64 = 64 * 1024;

/// The directory, held open.
#[derive(Debug)]
pub(super) struct DirectoryPart {
    files: NumberedFiles,
}

/// A page's file, or the note that it is withdrawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) ticket: u64,
    pub(super) loan: u64,
    pub(super) withdrawn: bool,
}

impl Name {
    pub(super) fn text(&self) -> String {
        let Name { ticket, loan, withdrawn } = self;
        if *withdrawn { format!("{ticket}.{loan}.{WITHDRAWN}") } else { format!("{ticket}.{loan}") }
    }

    fn parse(text: &str) -> Option<Name> {
        let mut fields = text.splitn(3, '.');
        let (ticket, loan) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        let name = Name { ticket, loan, withdrawn: fields.next().is_some() };
        // What is not written as it would be written here is a file of somebody else.
        (name.text() == text).then_some(name)
    }
}

impl DirectoryPart {
    /// Opens a part, new or not, keeps others out of it, and changes nothing in it.
    pub(super) fn open(path: &Path) -> Result<DirectoryPart, Error> {
        files::make_directory(path)?;
        Ok(DirectoryPart { files: NumberedFiles::open(path)? })
    }

    /// Refuses a part that this crawl cannot go on with.
    pub(super) fn check(&mut self, header: &Header, overwrite: bool) -> Result<Found, Error> {
        let path = self.files.path();
        // Also whether it can be written to, and clears what a crash has left unfinished.
        self.files.check_after(u64::MAX)?;
        let unusable = |cause| Error::Directory { path: path.to_owned(), cause };
        let replaced = |why: &str| if overwrite { Ok(Found::Nothing) } else { Err(refused(path, why)) };
        match identity(path) {
            Ok(None) => match names(path).map_err(unusable)?.first() {
                None => Ok(Found::Nothing),
                Some(name) => replaced(&format!("it has pages (file {}) and no {IDENTITY}", name.text())),
            },
            Ok(Some(found)) => match found.is_not(header) {
                None => Ok(Found::Part),
                Some(why) if found.is_of_crawl_of(header) => Err(kept(path, &why)),
                Some(why) => replaced(&why),
            },
            Err(wrong) => replaced(&wrong),
        }
    }

    /// Says whose the part is, after the removal of what it was.
    pub(super) fn begin(&mut self, found: Found, header: &Header) -> Result<(), Error> {
        let Found::Nothing = found else { return Ok(()) };
        let unusable = |cause| Error::Directory { path: self.files.path().to_owned(), cause };
        for name in names(self.files.path()).map_err(unusable)? {
            fs::remove_file(self.files.path().join(name.text())).map_err(unusable)?;
        }
        self.files.replace_as(IDENTITY, &header.line()).map_err(unusable)
    }

    /// Writes a page's file whole.
    pub(super) fn write(&self, ticket: u64, loan: u64, bytes: &[u8]) -> io::Result<()> {
        self.replace(Name { ticket, loan, withdrawn: false }, bytes)
    }

    /// Notes that what earlier loans have written does not count.
    pub(super) fn withdraw(&self, ticket: u64, loan: u64) -> io::Result<()> {
        self.replace(Name { ticket, loan, withdrawn: true }, b"")
    }

    fn replace(&self, name: Name, bytes: &[u8]) -> io::Result<()> {
        let written = self.files.replace_as(&name.text(), bytes);
        written.map_err(|error| files::named(&self.files.path().join(name.text()), &error))
    }

    /// A handle to sync it by.
    pub(super) fn handle(&self) -> io::Result<Handle> {
        self.files.handle().map_err(|error| files::named(self.files.path(), &error))
    }
}

/// Whether a directory is a part.
pub(super) fn is_part(path: &Path) -> bool {
    path.join(IDENTITY).is_file()
}

/// Whose a directory's pages are, if it says so.
pub(super) fn identity(path: &Path) -> Result<Option<Header>, String> {
    let path: PathBuf = path.join(IDENTITY);
    let mut text = Vec::new();
    let read = File::open(&path).and_then(|file| file.take(LONGEST_IDENTITY).read_to_end(&mut text));
    match read {
        Ok(_) => Header::parse(&text).map(Some).map_err(|wrong| format!("'{}' {wrong}", path.display())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("cannot read '{}': {error}", path.display())),
    }
}

/// The pages of a directory, and those that are withdrawn.
pub(super) fn names(path: &Path) -> io::Result<Vec<Name>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path)? {
        names.extend(entry?.file_name().to_str().and_then(Name::parse));
    }
    Ok(names)
}

/// How many bytes of a page that was not finished a directory has.
pub(super) fn torn(path: &Path) -> u64 {
    fs::symlink_metadata(path.join(UNFINISHED)).map_or(0, |found| found.len())
}
