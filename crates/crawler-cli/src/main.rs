//! The command `crawler`.

fn main() {}
