//! The WARC format: records and their headers, compressed or not, the HTTP messages in them, and digests.
//!
//! Nothing here knows of pages. [`reader::WarcReader`] reads records in bounded memory, whatever a file contains; [`writer`] renders
//! them.

pub mod archives;
pub mod cdxj;
pub mod digest;
pub mod encoding;
pub mod header;
pub mod http_message;
pub mod index;
pub mod input;
pub mod payloads;
pub mod reader;
pub mod sorted_lines;
mod stream;
pub mod surt;
pub mod writer;
