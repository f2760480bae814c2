//! Distributed crawls with the real binary and a real Redis: roles, crashes, and failures of Redis and the network.

#![allow(missing_docs)]

#[allow(dead_code, reason = "these tests do not use all of it")]
#[path = "../command/archive_judges.rs"]
mod archive_judges;
#[allow(dead_code, reason = "these tests do not use all of it")]
#[path = "../command/archive_records.rs"]
mod archive_records;
mod archives;
mod chaos;
mod check;
mod compose;
mod contrib;
mod crashes;
mod crawls;
mod dashboard;
mod decisions;
mod failovers;
mod fixture;
mod health;
#[allow(dead_code, reason = "these tests do not use all of it")]
#[path = "../command/http.rs"]
mod http;
mod live_changes;
mod log;
mod login;
mod lost_crawl;
#[path = "../command/markdown_report.rs"]
mod markdown_report;
mod messages;
mod mirror;
mod outages;
mod process;
mod programs;
mod proxies;
mod rebalancing;
mod report;
mod roles;
#[path = "../command/selectors.rs"]
mod selectors;
mod sites;
mod sources;
mod starts;
mod startup_errors;
mod status;
mod tables;
#[path = "../command/terminal.rs"]
mod terminal;
mod urls;
