//! The WARC format: records and their headers, compressed or not, the HTTP messages in them, and digests.
//!
//! Nothing here knows of pages or crawls. [`reader::WarcReader`] reads records in bounded memory, whatever a file contains.

pub mod digest;
pub mod header;
pub mod http_message;
pub mod input;
pub mod reader;
mod stream;
