//! One polite request, for every mode: robots.txt, throttle, HTTP.

pub mod fetcher;
pub mod http;
pub mod polite_client;
pub mod robots;
pub mod throttle;
