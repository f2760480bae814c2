//! Crawls that processes share over a real Redis, with the real binary: roles, deaths, and a network in trouble.

#![allow(missing_docs)]

mod balance;
mod chaos;
mod containers;
mod crawls;
mod deaths;
mod failovers;
mod losses;
mod openings;
mod roles;
mod stage;
mod troubles;
