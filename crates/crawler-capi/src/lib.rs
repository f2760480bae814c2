//! libcrawl: the callback face over a C ABI.
