//! What this workspace's command, tests, benchmarks and fuzz targets need beyond the public API.
//!
//! Not part of the public API: anything in here may change in any release.

#[cfg(feature = "net")]
pub mod fuzzing;

macro_rules! expose {
    ($($(#[$condition:meta])* $module:ident),+ $(,)?) => {
        $($(#[$condition])* pub mod $module {
            pub use crate::$module::*;
        })+
    };
}

expose!(
    callbacks,
    html,
    media,
    #[cfg(feature = "net")]
    backend,
    #[cfg(feature = "net")]
    captures,
    #[cfg(feature = "net")]
    classic,
    #[cfg(feature = "net")]
    config,
    #[cfg(feature = "net")]
    cookies,
    #[cfg(feature = "net")]
    crawl_view,
    #[cfg(feature = "net")]
    distributed,
    #[cfg(feature = "net")]
    domain,
    #[cfg(feature = "net")]
    format,
    #[cfg(feature = "net")]
    error,
    #[cfg(feature = "net")]
    event,
    #[cfg(feature = "net")]
    exchange,
    #[cfg(feature = "net")]
    fetch,
    #[cfg(feature = "net")]
    frontier,
    #[cfg(feature = "net")]
    live_settings,
    #[cfg(feature = "net")]
    log,
    #[cfg(feature = "net")]
    modules,
    #[cfg(feature = "net")]
    origin,
    #[cfg(feature = "net")]
    outcome,
    #[cfg(feature = "net")]
    page,
    #[cfg(feature = "net")]
    pipeline,
    #[cfg(feature = "net")]
    printable,
    #[cfg(feature = "net")]
    prioritizer,
    #[cfg(feature = "net")]
    replay,
    #[cfg(feature = "net")]
    scope,
    #[cfg(feature = "net")]
    similarity,
    #[cfg(feature = "net")]
    sitemap,
    #[cfg(feature = "net")]
    statistics,
    #[cfg(feature = "net")]
    stats,
    #[cfg(feature = "net")]
    stop,
    #[cfg(feature = "net")]
    strip_query,
    #[cfg(feature = "net")]
    task,
    #[cfg(feature = "net")]
    task_kind,
    #[cfg(feature = "net")]
    time_text,
    #[cfg(feature = "net")]
    url_record,
    #[cfg(feature = "net")]
    visit,
    #[cfg(feature = "net")]
    warc,
    #[cfg(feature = "net")]
    wacz,
    #[cfg(feature = "net")]
    worker,
);
