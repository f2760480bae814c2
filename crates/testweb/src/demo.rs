//! The site that `crawler demo` crawls.

use crate::site::Site;

/// A small site.
pub fn demo_site() -> Site {
    Site::new()
}
