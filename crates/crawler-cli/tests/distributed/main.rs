//! Distributed crawls with the real binary and a real Redis: roles, crashes, and failures of Redis and the network.

#![allow(missing_docs)]

mod chaos;
mod check;
mod compose;
mod crashes;
mod crawls;
mod decisions;
mod failovers;
mod fixture;
mod live_changes;
mod log;
mod login;
mod lost_crawl;
mod messages;
mod mirror;
mod outages;
mod process;
mod programs;
mod proxies;
mod rebalancing;
mod roles;
mod sites;
mod sources;
mod starts;
mod startup_errors;
mod tables;
mod urls;
