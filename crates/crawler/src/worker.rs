//! The worker: what happens to one task, stage by stage.

pub mod links;
pub mod robots;
