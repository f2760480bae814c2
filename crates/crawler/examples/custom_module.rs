//! A module of one's own: counts the words of each page, and prints the total at the end.
//!
//!     cargo run --example custom_module -- https://example.org/

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crawler::{Crawler, Error, internal::page::Page};

fn main() -> Result<(), Error> {
    let seed = std::env::args().nth(1).unwrap_or_else(|| "http://localhost:8000/".into());
    let total = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&total);
    let report = Crawler::new(&seed)?
        .max_depth(2)
        .module(move |page: &Page| {
            let words = page.text().split_whitespace().count();
            counted.fetch_add(words, Ordering::Relaxed);
            println!("{words:6} {}", page.url);
        })
        .run()?;
    println!("{} words on {} pages", total.load(Ordering::Relaxed), report.snapshot.pages);
    Ok(())
}
