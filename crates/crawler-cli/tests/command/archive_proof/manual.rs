//! A real documentation site: the PostgreSQL manual, served on loopback.

use std::fs;
use std::path::{Path, PathBuf};

use testweb::{Response, Site, Web};

use crate::common::serve;

/// Where the manual is. `make test` installs it.
pub fn directory() -> PathBuf {
    let packages = fs::read_dir("/usr/share/doc").unwrap().map(|entry| entry.unwrap().path().join("html"));
    let is_manual = |path: &PathBuf| path.display().to_string().contains("/postgresql-doc-");
    packages.filter(|path| path.is_dir()).find(is_manual).expect("postgresql-doc is installed")
}

/// Serves the manual.
pub fn serve_manual() -> Web {
    let directory = directory();
    serve(Site::new().fallback(move |request| response(&directory, &request.path)))
}

fn response(directory: &Path, path: &str) -> Response {
    let name = path.trim_start_matches('/').split(['?', '#']).next().unwrap_or_default();
    let content_type = match Path::new(name).extension().and_then(|end| end.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    };
    match fs::read(directory.join(name)) {
        Ok(content) if !name.contains("..") => Response::page(content).content_type(content_type),
        _ => Response::status(404),
    }
}
