//! The default module, which does nothing.

use super::BuiltinModule;
use crate::page::Page;

/// Ignores every page.
#[derive(Debug, Clone, Copy, Default)]
pub struct Noop;

impl BuiltinModule for Noop {
    fn name(&self) -> &str {
        "noop"
    }

    fn wants_found_on(&self) -> bool {
        false
    }

    fn process_page(&self, _: &Page) -> Result<(), String> {
        Ok(())
    }

    fn is_blocking(&self) -> bool {
        false
    }
}
