//! Asks robots.txt.

pub mod rules;
