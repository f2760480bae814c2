//! Whole crawls with the real binary against a web on loopback, one file per subject. `common` checks what must hold for
//! every crawl.

#![allow(missing_docs)]

mod arguments;
mod browser;
mod budgets;
mod check;
mod collect;
mod common;
mod config;
mod config_errors;
mod config_report;
mod content;
mod crawl;
mod crawl_arguments;
mod crawl_ends;
mod crawl_modules;
mod crawl_output;
mod crawls;
mod demo;
mod duplicates;
mod ends;
mod errors;
mod files;
mod help;
mod hostile;
mod https;
mod inspect;
mod install;
mod live_state;
mod login;
mod mirror;
mod nofollow;
mod open_files;
mod output;
mod page_outputs;
mod page_size;
mod pipeline;
mod politeness;
mod programs;
mod proxies;
mod redirects;
mod requests;
mod resume;
mod retry_failed;
mod robots;
mod safety;
mod same_page;
mod seeds;
mod sitemaps;
mod sites;
mod state;
mod tables;
mod trust;
mod urls;
mod usage;
