//! A page: what a visit brings home.

use bytes::Bytes;

use crate::media::Media;

/// The content of one URL, as served but for its content encoding.
#[derive(Debug, Clone)]
pub struct Page {
    /// HTML or text.
    pub media: Media,
    /// The Content-Type header, if there was one.
    pub content_type: Option<String>,
    /// The HTTP status, 200 for nearly every page.
    pub status: u16,
    /// The bytes, content-decoded and otherwise unchanged.
    pub body: Bytes,
}
