//! The callback face.
