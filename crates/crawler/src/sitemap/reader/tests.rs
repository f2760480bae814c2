//! Tests of the sitemap reader: formats, encodings and hostile files, in pieces of any size.

use std::io::Write;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::super::document::MAX_URLS;
use super::super::resolver::SitemapResolver;
use super::*;
use crate::cpu_time::cpu_time;
use crate::html::{self, BadLink};

/// Reads a file in pieces of several sizes, which must not matter.
fn read(file: &[u8]) -> Contents {
    let url = Url::parse("https://a.test/maps/sitemap.xml").unwrap();
    let read_in = |size: usize| {
        let mut reader = SitemapReader::new(&url);
        let mut pieces = file.chunks(size);
        while let Some(piece) = pieces.next()
            && reader.push(piece)
        {}
        reader.finish(true)
    };
    let whole = read_in(file.len().max(1));
    if file.len() < 10_000 {
        for size in [1, 7, 1000] {
            let pieces = read_in(size);
            assert_eq!(format!("{pieces:?}"), format!("{whole:?}"), "in pieces of {size}");
        }
    }
    whole
}

fn urls(contents: &Contents) -> Vec<&str> {
    contents.urls.iter().collect()
}

fn gzip(file: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(file).unwrap();
    encoder.finish().unwrap()
}

const PAGES: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!-- a comment --><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:image="http://i">
  <url><loc>https://a.test/1</loc><lastmod>2026-11-05</lastmod><priority>0.8</priority></url>
  <url>
    <loc>
      https://a.test/2?a=1&amp;b=&#50;
    </loc>
    <image:image><image:loc>https://a.test/image.png</image:loc></image:image>
  </url>
  <url><loc><![CDATA[https://a.test/3?x=1&y=2]]></loc><lastmod>soon</lastmod></url>
  <url><loc>/4#part</loc></url>
  <url><loc></loc></url>
  <url><loc>mailto:me@a.test</loc></url>
</urlset>"#;

#[test]
fn pages_are_read_with_entities_cdata_relative_urls_and_dates() {
    let contents = read(PAGES.as_bytes());
    let expected =
        ["https://a.test/1", "https://a.test/2?a=1&b=2", "https://a.test/3?x=1&y=2", "https://a.test/4"];
    assert_eq!(urls(&contents), expected);
    assert_eq!(contents.lastmods, [(0, 1_793_836_800)]);
    assert_eq!((contents.bad_links.as_slice(), &contents.problem), (&[BadLink::Scheme][..], &None));
    assert!(contents.sitemaps.is_empty());
}

#[test]
fn index_lists_sitemaps_and_prefixes_do_not_matter() {
    let index = "<sm:sitemapindex xmlns:sm='x'><sm:sitemap><sm:loc>http://b.test/1.xml</sm:loc><sm:lastmod>2026</sm:lastmod>\
                 </sm:sitemap><sm:sitemap><sm:loc>two.xml.gz</sm:loc></sm:sitemap></sm:sitemapindex>";
    let contents = read(index.as_bytes());
    assert_eq!(
        contents.sitemaps.iter().collect::<Vec<_>>(),
        ["http://b.test/1.xml", "https://a.test/maps/two.xml.gz"]
    );
    assert!(contents.urls.is_empty() && contents.problem.is_none());
}

#[test]
fn feeds_and_lists_are_read() {
    let rss = "<rss><channel><title>News</title><link>https://a.test/</link><item><title>x</title><link>https://a.test/n1</link>\
               <pubDate>Thu, 05 Nov 2026 06:07:08 GMT</pubDate></item><item><atom:link href='https://a.test/self'/>\
               <link> https://a.test/n2 </link></item></channel></rss>";
    let contents = read(rss.as_bytes());
    assert_eq!(urls(&contents), ["https://a.test/n1", "https://a.test/n2"]);
    assert_eq!(contents.lastmods, [(0, 1_793_858_828)]);
    let atom = "<feed xmlns='http://www.w3.org/2005/Atom'><link href='https://a.test/'/><entry><link rel='self' href='/self'/>\
                <link rel='alternate' href='/e1?a=1&amp;b=2'/><updated>2026-11-05T06:07:08Z</updated></entry>\
                <entry><link href='/e2'></link></entry></feed>";
    let contents = read(atom.as_bytes());
    assert_eq!(urls(&contents), ["https://a.test/e1?a=1&b=2", "https://a.test/e2"]);
    assert_eq!(contents.lastmods, [(0, 1_793_858_828)]);
    let list = "\u{feff}https://a.test/1\r\n\r\n  HTTP://a.test/2 \nnothing\nhttps://b.test/3";
    let contents = read(list.as_bytes());
    assert_eq!(urls(&contents)[..2], ["https://a.test/1", "http://a.test/2"]);
    assert_eq!((contents.urls.len(), contents.problem), (4, None));
}

#[test]
fn compressed_files_and_other_encodings_are_read() {
    let expected = read(PAGES.as_bytes());
    let two_members = [gzip(&PAGES.as_bytes()[..300]), gzip(&PAGES.as_bytes()[300..])].concat();
    for file in [gzip(PAGES.as_bytes()), two_members] {
        assert_eq!(urls(&read(&file)), urls(&expected));
    }
    let utf16: Vec<u16> = PAGES.encode_utf16().collect();
    let little: Vec<u8> = utf16.iter().flat_map(|unit| unit.to_le_bytes()).collect();
    let big: Vec<u8> = utf16.iter().flat_map(|unit| unit.to_be_bytes()).collect();
    for file in [[&[0xFF, 0xFE][..], &little].concat(), little, [&[0xFE, 0xFF][..], &big].concat(), big] {
        assert_eq!(urls(&read(&file)), urls(&expected));
    }
    let latin = b"<?xml version='1.0' encoding='ISO-8859-1'?><urlset><url><loc>/Zo\xEB</loc></url></urlset>";
    assert_eq!(urls(&read(latin)), ["https://a.test/Zo%C3%AB"]);
    let mislabelled = b"<?xml version='1.0' encoding='UTF-16'?><urlset><url><loc>/a</loc></url></urlset>";
    assert_eq!(urls(&read(mislabelled)), ["https://a.test/a"]);
}

#[test]
fn what_is_no_sitemap_is_named() {
    for (file, problem) in [
        (&b""[..], "it is empty"),
        (b" \n ", "it is empty"),
        (b"<!DOCTYPE html><HTML><body>", "it is an HTML page"),
        (b"<?xml version='1.0'?>", "it has no root element"),
        (b"<other/>", "its root element is none of a sitemap or feed"),
        (b"hello world", "it is neither XML nor a list of URLs"),
        (b"{\"urls\": []}", "it is neither XML nor a list of URLs"),
        (b"\x89PNG\r\n\x1a\n\0\0\0", "it is neither XML nor a list of URLs"),
        (b"\x1F\x8B\x08garbage", "its compressed data is damaged, truncated or in too many parts"),
        (b"<urlset><url><loc>https://a.test/1</loc></url><url><loc>https://a.t", "it is truncated"),
        (b"<urlset><url><loc>https://a.test/1</loc></url><ur", "it is truncated"),
    ] {
        let contents = read(file);
        assert_eq!(contents.problem.as_deref(), Some(problem), "{}", String::from_utf8_lossy(file));
    }
    let truncated = read(&PAGES.as_bytes()[..PAGES.len() - 30]);
    assert!(truncated.problem.is_some() && truncated.urls.len() == 4, "what was read is used");
    let gzip = gzip(PAGES.as_bytes());
    let truncated = read(&gzip[..gzip.len() - 9]);
    assert!(truncated.problem.is_some(), "{truncated:?}");
}

#[test]
fn entities_of_the_file_are_not_expanded() {
    let bomb = "<!DOCTYPE urlset [<!ENTITY a 'ha'><!ENTITY b '&a;&a;&a;&a;&a;&a;&a;&a;'><!ENTITY c '&b;&b;&b;&b;&b;&b;'>]>\
                <urlset><url><loc>https://a.test/&c;&c;</loc></url><url><loc>https://a.test/1</loc></url></urlset>";
    let contents = read(bomb.as_bytes());
    assert_eq!(
        (urls(&contents), contents.bad_links.as_slice()),
        (vec!["https://a.test/1"], &[BadLink::Malformed][..])
    );
}

#[test]
fn numbers_and_sizes_are_limited() {
    let entry = |number: usize| format!("<url><loc>https://a.test/{number}</loc></url>");
    let many: String = (0..50_001).map(entry).collect();
    let contents = read(format!("<urlset>{many}</urlset>").as_bytes());
    assert_eq!(
        (contents.urls.len(), contents.problem.as_deref()),
        (50_000, Some("it has more than 50,000 URLs"))
    );
    let long =
        format!("<urlset><url><loc>https://a.test/{}</loc></url>{}</urlset>", "x".repeat(100_000), entry(1));
    let contents = read(long.as_bytes());
    assert_eq!(
        (urls(&contents), contents.bad_links.as_slice()),
        (vec!["https://a.test/1"], &[BadLink::TooLong][..])
    );
    let tag = format!("<urlset><!-- {} -->{}</urlset>", "x".repeat(200_000), entry(1));
    assert_eq!(read(tag.as_bytes()).problem.as_deref(), Some("it has a tag of more than 64 KB"));
    let entry =
        |number: usize| format!("<url><loc>https://a.test/{number}/{}</loc></url>", "x".repeat(2_000));
    let large: String = (0..10_000).map(entry).collect();
    let contents = read(format!("<urlset>{large}</urlset>").as_bytes());
    assert_eq!(contents.problem.as_deref(), Some("its URLs take more than 16 MB"));
    assert!(contents.urls.len() > 8_000);
}

#[test]
fn endless_files_end_at_the_size_limit_and_deep_nesting_takes_no_memory() {
    let url = Url::parse("https://a.test/").unwrap();
    let mut reader = SitemapReader::new(&url);
    let (piece, mut bytes) = (vec![b' '; 1 << 20], 8);
    assert!(reader.push(b"<urlset>"));
    while reader.push(&piece) {
        bytes += piece.len();
        assert!(bytes <= MAX_BYTES);
    }
    assert_eq!(reader.finish(false).problem.as_deref(), Some("it has more than 50 MB"));
    for piece in ["<a>", "<url></url>", "text &amp; "] {
        let contents = read(format!("<urlset>{}", piece.repeat(30_000)).as_bytes());
        assert_eq!((contents.listed(), contents.problem.as_deref()), (0, Some("it is truncated")));
    }
    let bomb = gzip(&[b"<urlset>".as_slice(), &vec![b' '; MAX_BYTES + 1]].concat());
    assert!(bomb.len() < 100_000);
    assert_eq!(read(&bomb).problem.as_deref(), Some("it has more than 50 MB"));
}

#[test]
fn empty_gzip_members_are_limited() {
    let members = [gzip(PAGES.as_bytes()), gzip(b"").repeat(1_000)].concat();
    assert_eq!(read(&members).problem, None);
    let members = gzip(b"").repeat(20_000);
    assert_eq!(
        read(&members).problem.as_deref(),
        Some("its compressed data is damaged, truncated or in too many parts")
    );
}

#[test]
fn file_that_arrives_byte_by_byte_takes_little_time() {
    let comment = format!("<!-- {} -->", "x".repeat(60_000));
    let line = format!("https://a.test/{}\n", "x".repeat(1_500));
    for file in [format!("<urlset>{}</urlset>", comment.repeat(8)), line.repeat(300)] {
        let time = cpu_time(|| {
            let mut reader = SitemapReader::new(&Url::parse("https://a.test/").unwrap());
            assert!(file.as_bytes().chunks(1).all(|byte| reader.push(byte)));
            assert_eq!((reader.bytes(), reader.finish(true).problem), (file.len(), None));
        });
        assert!(time < Duration::from_secs(2), "{time:?}");
    }
}

#[test]
fn names_of_hosts_that_take_long_to_convert_end_a_sitemap() {
    let host = |count: u32, number: u32| -> String {
        (0..count).map(|n| char::from_u32(0x4E00 + (n * 37 + number) % 20_000).unwrap()).collect()
    };
    let list = |count: u32, lines: u32| -> String {
        (0..lines).map(|number| format!("http://{}.test/\n", host(count, number % 100))).collect()
    };
    for (count, lines, problem) in [
        (12, 5_000, None),
        (100, 20_000, Some("its international names of hosts take too long; ")),
        (126, 20_000, Some("its international names of hosts take too long; ")),
        (340, 20_000, None),
    ] {
        let file = list(count, lines);
        let mut contents = None;
        let time = cpu_time(|| contents = Some(read(file.as_bytes())));
        let found = contents.unwrap().problem;
        assert_eq!(found.as_deref(), problem.map(|problem| problem.trim_end_matches("; ")), "{count}");
        assert!(time < Duration::from_secs(4), "{count} characters took {time:?}");
    }
}

#[test]
fn full_sitemap_of_a_host_with_an_international_name_is_read() {
    let written = "https://крупный-магазин-бытовой-техники.рф";
    let encoded = Url::parse(written).unwrap();
    let host = encoded.host_str().unwrap();
    assert!(host.starts_with("xn--") && host.len() > 40, "{host}");
    for start in [written, encoded.as_str().trim_end_matches('/')] {
        let file: String = (0..MAX_URLS).map(|page| format!("{start}/p{page}/ä?a=1\n")).collect();
        let contents = read(file.as_bytes());
        assert_eq!((contents.urls.len(), contents.problem), (MAX_URLS, None));
        let last = contents.urls.iter().last().unwrap();
        assert_eq!(last, format!("{encoded}p{}/%C3%A4?a=1", MAX_URLS - 1));
    }
}

#[test]
fn urls_after_one_with_an_international_name_are_resolved_as_without_it() {
    let base = Url::parse("https://a.test/").unwrap();
    for target in [
        "http://ä.test/x",
        "http://ä.test//b.test/x",
        "http://ä.test/\\b.test/x",
        "http://ä.test/\t/b.test/x",
        "http://ä.test.b.test/x",
        "http://ä.test:81/x",
        "http://ä.test?x",
        "http://ä.test",
        "http://ä.test@b.test/x",
        "http://ä.test/../x#y",
        "/x",
    ] {
        let mut resolver = SitemapResolver::new(base.clone());
        assert!(resolver.resolve("http://ä.test/first/page?q").unwrap().is_ok());
        assert_eq!(resolver.resolve(target), Some(html::resolve(&base, target)), "{target:?}");
    }
}
