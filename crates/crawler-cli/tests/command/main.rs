//! Whole crawls with the real binary, against a web on loopback: one file for each subject. What a crawl must never
//! do, whatever the subject, is checked in `common` for every one of them.

#![allow(missing_docs)]

mod arguments;
mod collect;
mod common;
mod crawl;
mod crawl_arguments;
mod crawl_ends;
mod crawl_modules;
mod crawl_output;
mod crawls;
mod demo;
mod ends;
mod errors;
mod files;
mod hostile;
mod https;
mod look;
mod open_files;
mod output;
mod pipeline;
mod politeness;
mod redirects;
mod robots;
mod safety;
mod state;
