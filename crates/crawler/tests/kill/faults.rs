//! What goes wrong around a crawl: a full disk, files that vanish or cannot be written, a second process.
