//! Sends one polite request for every mode: robots.txt check, per-host throttle, HTTP.

pub mod fetcher;
pub mod http;
pub mod network;
pub mod polite_client;
pub mod proxy_health;
pub mod redirect;
pub mod request_gate;
mod request_slots;
pub mod robots;
pub mod throttle;
