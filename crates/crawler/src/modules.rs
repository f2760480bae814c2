//! What is done with a kept page.

pub mod pages;
