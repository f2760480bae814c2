//! The worker: what happens to one task, stage by stage.

pub mod ask;
pub mod download;
pub mod links;
pub mod pace;
pub mod robots;
pub mod similarity;
pub mod visit;
