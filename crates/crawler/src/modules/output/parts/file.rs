//! A part that is a file, and its index.

use std::io;
use std::path::{Path, PathBuf};

use super::index::{self, IndexEntry, IndexReader, PartHeader};
use super::{ExistingPart, kept, refused};
use crate::error::Error;
use crate::modules::output::files::Handle;
use crate::modules::output::files::append::AppendFile;

/// One file and its index, of which the index is written last: what it does not name is torn.
#[derive(Debug)]
pub(super) struct FilePart {
    path: PathBuf,
    part: AppendFile,
    index: AppendFile,
    /// The lengths of both with all whole pages.
    whole: (u64, u64),
}

impl FilePart {
    /// Opens a part, new or not, keeps others out of it, and changes nothing in it.
    pub(super) fn open(path: &Path) -> Result<FilePart, Error> {
        // The index comes into being first, so that there is never a part without one.
        let index = AppendFile::open(&index::path_of(path))?;
        let part = AppendFile::open(path)?;
        Ok(FilePart { path: path.to_owned(), part, index, whole: (0, 0) })
    }

    /// Looks how far the part is, and refuses one that this crawl cannot go on with.
    pub(super) fn check(&mut self, header: &PartHeader, overwrite: bool) -> Result<ExistingPart, Error> {
        let replaced =
            |why: &str| if overwrite { Ok(ExistingPart::Nothing) } else { Err(refused(&self.path, why)) };
        let holds = self.part.found()?;
        let unreadable =
            |error: io::Error| refused(&self.path, &format!("its index cannot be read: {error}"));
        let mut reader = IndexReader::open(&self.path).map_err(unreadable)?;
        let found = match reader.header() {
            Err(wrong) => return replaced(&wrong),
            Ok(None) if holds == 0 => return Ok(ExistingPart::Nothing),
            Ok(None) => {
                return replaced(&format!("it holds {holds} bytes, and its index says nothing of them"));
            }
            Ok(Some(found)) => found,
        };
        if let Some(why) = found.is_not(header) {
            return if found.is_of_crawl_of(header) { Err(kept(&self.path, &why)) } else { replaced(&why) };
        }
        loop {
            match reader.page() {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(wrong) => return Err(kept(&self.path, &wrong)),
            }
        }
        if holds < reader.end() && reader.end() > header.head {
            let end = reader.end();
            return Err(kept(&self.path, &format!("it has {holds} bytes where its index names {end}")));
        }
        // A head that is torn is written again.
        self.whole = (if holds < header.head { 0 } else { reader.end() }, reader.length());
        Ok(ExistingPart::Part)
    }

    /// Cuts off what is torn, or everything, and goes on from there.
    pub(super) fn begin(
        &mut self,
        found: ExistingPart,
        header: &PartHeader,
        head: &[u8],
    ) -> Result<(), Error> {
        if let ExistingPart::Nothing = found {
            self.whole = (0, 0);
        }
        self.part.begin(self.whole.0)?;
        self.index.begin(self.whole.1)?;
        if let ExistingPart::Nothing = found {
            self.index.append(&header.line());
        }
        self.part.put_head(head);
        // The index says whose the part is before there is anything in it.
        self.index
            .flush()
            .and_then(|()| self.part.flush())
            .map_err(|error| Error::Output(error.to_string()))?;
        self.whole = (self.part.length(), self.index.length());
        Ok(())
    }

    /// Writes what a page adds, which does not count yet.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.part.append(bytes);
        self.part.flush()
    }

    /// Names what was written last, or that an earlier loan's page is withdrawn.
    pub(super) fn name(&mut self, task_id: u64, lease_id: u64, withdrawn: bool) -> io::Result<()> {
        let (offset, end) = (self.whole.0, self.part.length());
        let length = (!withdrawn).then_some(end - offset);
        self.index.append(IndexEntry { task_id, lease_id, offset, length }.text().as_bytes());
        self.index.flush()
    }

    /// What was named counts from now on.
    pub(super) fn keep(&mut self) {
        self.whole = (self.part.length(), self.index.length());
    }

    /// Gives up what was written since anything was kept.
    pub(super) fn take_back(&mut self) -> io::Result<()> {
        let (part, index) = self.whole;
        // In this order, so that the index never names what is not there.
        self.index.take_back(index).and_then(|()| self.part.take_back(part))
    }

    /// The length of the part.
    pub(super) fn length(&self) -> u64 {
        self.part.length()
    }

    /// Handles to sync the part by, then its index.
    pub(super) fn handles(&self) -> io::Result<[Handle; 2]> {
        Ok([self.part.handle()?, self.index.handle()?])
    }
}
