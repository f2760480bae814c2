//! Loads real pages: the PostgreSQL manual from the Debian package.

use std::fs;
use std::path::PathBuf;

const DOCUMENTATION: &str = "/usr/share/doc";
const PACKAGE: &str = "postgresql-doc-";

/// Every recent release of the manual has more than a thousand pages.
const MIN_PAGES: usize = 1_000;

/// All pages of the manual, sorted by file name.
pub fn pages() -> Vec<String> {
    let mut paths = manual().and_then(|directory| html_files(&directory)).unwrap_or_default();
    assert!(
        paths.len() >= MIN_PAGES,
        "cannot load the PostgreSQL manual: found {} pages in {DOCUMENTATION}/{PACKAGE}*/html; \
         install it, e.g. with: sudo apt-get install postgresql-doc",
        paths.len()
    );
    paths.sort();
    paths.iter().map(|path| fs::read_to_string(path).expect("a page in UTF-8")).collect()
}

/// The directory of the newest installed release.
fn manual() -> Option<PathBuf> {
    let packages = fs::read_dir(DOCUMENTATION).ok()?.filter_map(Result::ok);
    let releases =
        packages.filter_map(|entry| entry.file_name().to_str()?.strip_prefix(PACKAGE)?.parse().ok());
    let newest: u32 = releases.max()?;
    Some(format!("{DOCUMENTATION}/{PACKAGE}{newest}/html").into())
}

fn html_files(directory: &PathBuf) -> Option<Vec<PathBuf>> {
    let paths = fs::read_dir(directory).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    Some(paths.filter(|path| path.extension().is_some_and(|extension| extension == "html")).collect())
}
