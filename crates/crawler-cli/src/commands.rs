//! The sub-commands, one file each.

pub mod classic;
pub mod collect;
pub mod controller;
pub mod crawl;
pub mod demo;
pub mod inspect;
pub mod remote;
pub mod role;
mod supervisor;
