//! What the modules of a crawl write to.

use std::path::PathBuf;

use crawler::internal::modules::Target;
use crawler::internal::modules::registry::{self, RegisteredModule};

/// The file or directory that a module writes to.
pub fn output_path(module: &str) -> Option<PathBuf> {
    match registry::parse(module) {
        Ok(RegisteredModule::Output(spec)) => match spec.target {
            Target::File(path) | Target::Directory(path) => Some(path),
            _ => None,
        },
        _ => None,
    }
}

/// Whether a module sends pages to a program.
pub fn is_program(module: &str) -> bool {
    module.starts_with("exec=")
}

/// Whether a module writes pages to standard output.
pub fn writes_to_stdout(module: &str) -> bool {
    let name = module.split('=').next().unwrap_or_default();
    registry::PRINTING.contains(&name) && matches!(registry::parse(module), Ok(RegisteredModule::Module(_)))
}
