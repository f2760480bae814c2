//! What the modules of a crawl write to, and whether two of them write to the same.

use std::path::PathBuf;

use crawler::internal::modules::Target;
use crawler::internal::modules::output::files::check_distinct;
use crawler::internal::modules::registry::{self, RegisteredModule};

use super::CrawlOptions;
use crate::commands::crawl::summary_file::is_stdout;

impl CrawlOptions {
    /// Checks that no two outputs use the same file, or standard output.
    pub(super) fn check_outputs(&self) -> Result<(), String> {
        let summary = self.summary.iter().filter(|summary| is_stdout(summary));
        let printed = summary.map(|summary| format!("--summary {}", summary.display()));
        let report = self.check.iter().filter(|check| check.is_printed);
        let printed = printed.chain(report.map(|_| "the report (without --output)".to_owned()));
        let modules = self.module.iter().filter(|module| writes_to_stdout(module));
        let printed: Vec<String> =
            printed.chain(modules.map(|module| format!("--module {module}"))).collect();
        if let [first, second, ..] = &printed[..] {
            return Err(format!(
                "{first} and {second} both write to standard output; give one of them a file"
            ));
        }
        for (option, file) in [("--summary", &self.summary), ("--report", &self.report)] {
            if let Some(file) = file
                && let Some(module) =
                    self.module.iter().find(|module| output_path(module).as_ref() == Some(file))
            {
                return Err(format!(
                    "{option} and --module {module} write the same file; give different files"
                ));
            }
        }
        if self.report.is_some() && self.report == self.summary {
            return Err("--summary and --report write the same file; give different files".into());
        }
        let outputs = self.module.iter().filter_map(|module| match registry::parse(module) {
            Ok(RegisteredModule::Output(spec)) => Some(spec),
            _ => None,
        });
        check_distinct(&outputs.collect::<Vec<_>>()).map_err(|error| error.to_string())
    }
}

/// The file or directory that a module writes to.
pub fn output_path(module: &str) -> Option<PathBuf> {
    match registry::parse(module) {
        Ok(RegisteredModule::Output(spec)) => match spec.target {
            Target::File(path) | Target::Directory(path) => Some(path),
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
