//! Reading a sitemap from arbitrary bytes never panics, stays within the limits, and does not depend on how the bytes arrive.
//! Only of a damaged file, what was read before the damage may depend on it.
#![no_main]

use crawler::internal::sitemap::reader::{Contents, SitemapReader};
use libfuzzer_sys::fuzz_target;
use url::Url;

fn read(url: &Url, file: &[u8], piece: usize) -> Contents {
    let mut reader = SitemapReader::new(url);
    let mut pieces = file.chunks(piece);
    while let Some(piece) = pieces.next()
        && reader.push(piece)
    {}
    reader.finish(true)
}

fuzz_target!(|input: &[u8]| {
    let Some((first, file)) = input.split_first() else { return };
    let url = Url::parse("https://a.test/maps/sitemap.xml").expect("a URL");
    let whole = read(&url, file, file.len().max(1));
    let pieces = read(&url, file, usize::from(*first).max(1));
    match (&whole.problem, &pieces.problem) {
        (Some(_), Some(_)) => {}
        _ => assert_eq!(format!("{whole:?}"), format!("{pieces:?}")),
    }
    assert!(whole.listed() <= 50_000);
    assert!(whole.urls.iter().chain(whole.sitemaps.iter()).all(|url| url.starts_with("http") && !url.contains('#')));
});
