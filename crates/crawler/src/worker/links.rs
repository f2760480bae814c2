//! Finds the links of a page.
