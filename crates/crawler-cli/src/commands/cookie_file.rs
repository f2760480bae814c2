//! The file of `--save-cookies`. Each worker of a distributed crawl has cookies of its own, and writes them to a part file,
//! which the controller merges.

use std::fs;
use std::path::{Path, PathBuf};

use crawler::CookieJar;
use crawler::internal::backend::WorkerId;
use crawler::internal::cookies::merge_netscape;

use crate::EXIT_NOT_WRITTEN;
use crate::atomic_file::AtomicFile;
use crate::printable::print_error;

/// Cookies are secret: only the user may read them.
const MODE: u32 = 0o600;

/// The cookies of a crawl, and the file for them.
pub struct CookieFile {
    file: AtomicFile,
    jar: CookieJar,
}

impl CookieFile {
    /// Checks that the file can be written. `None` if no file was given.
    pub fn new(path: Option<&Path>, jar: Option<CookieJar>) -> Result<Option<CookieFile>, String> {
        let Some((path, jar)) = path.zip(jar) else { return Ok(None) };
        Ok(Some(CookieFile { file: AtomicFile::new("--save-cookies", path, MODE)?, jar }))
    }

    /// Writes the cookies at the end of a crawl with this exit status, and returns the exit status of the command.
    pub fn write(&self, status: u8) -> u8 {
        self.write_jar(&self.jar, status)
    }

    /// The same for the cookies of the workers, whose part files are removed. What exceeds the limits of a jar is left out.
    pub fn write_merged(&self, parts: &[PathBuf], status: u8) -> u8 {
        let texts: Vec<String> = parts.iter().filter_map(|part| fs::read_to_string(part).ok()).collect();
        if texts.is_empty() {
            // No worker lived to the end.
            return status;
        }
        let status = self.write_jar(&merge_netscape(&texts), status);
        parts.iter().for_each(|part| drop(fs::remove_file(part)));
        status
    }

    fn write_jar(&self, jar: &CookieJar, status: u8) -> u8 {
        let text = jar.to_netscape();
        match self.file.write("the cookies", |file| file.write_all(text.as_bytes())) {
            Ok(()) => status,
            Err(error) => {
                print_error(&error);
                if status == 0 { EXIT_NOT_WRITTEN } else { status }
            }
        }
    }
}

/// The part file of a worker, next to the file for the cookies of the crawl.
pub fn part_file(file: &Path, WorkerId(worker): WorkerId) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(format!(".worker-{worker}"));
    name.into()
}
