//! The page of the dashboard: files that browsers load as they are.

/// The document.
pub const INDEX: &str = include_str!("page/index.html");

/// Its style sheet.
pub const STYLE: &str = concat!(include_str!("page/theme.css"), include_str!("page/style.css"));

/// Its script: one module, whose parts are in the order in which they use each other.
pub const SCRIPT: &str = concat!(
    include_str!("page/script/text.js"),
    include_str!("page/script/elements.js"),
    include_str!("page/script/charts.js"),
    include_str!("page/script/pipeline.js"),
    include_str!("page/script/panels.js"),
    include_str!("page/script/hosts.js"),
    include_str!("page/script/actions.js"),
    include_str!("page/script/main.js"),
);
