//! Tests of libcrawl as C programs use it: the header, the installed files, the exported symbols, and every guarantee
//! of `crawl.h`, with and without valgrind.
//!
//! The tests link the library that the test run built. Within a workspace build that library contains the network code
//! that other crates ask for, which makes it eight times as large. `make test` therefore builds the library alone and
//! passes its directory in `CRAWLER_CAPI_LIBRARY`.

#![allow(missing_docs)]

mod header;
mod install;
#[path = "../../../crawler/tests/examples/linked_pages.rs"]
mod linked_pages;
mod programs;
mod symbols;
mod toolchain;
mod valgrind;
