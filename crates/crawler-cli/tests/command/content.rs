//! Content that is neither HTML nor text, and which pages are saved.

use std::fs;
use std::path::Path;

use serde_json::Value;
use testweb::{Response, Site, Web};

use crate::common::{Crawl, counts, linking_to, serve};
use crate::pipeline::{Pipeline, objects_in, paths};

/// Bytes that are not UTF-8.
const BINARY: &[u8] = b"%PDF-1.7\n\xFF\xFE\0\x01";

/// A start page with links and an image, to content of several types.
fn site() -> Web {
    let start = format!(
        "{}<img src=/image.png><link rel=stylesheet href=/style.css>",
        linking_to(&["/a.pdf", "/data", "/b"])
    );
    let content = |content_type: &str, body: &[u8]| Response::page(body.to_vec()).content_type(content_type);
    serve(
        Site::new()
            .page("/", start)
            .page("/b", linking_to(&["/c.pdf"]))
            .response("/a.pdf", content("application/pdf", BINARY))
            .response("/c.pdf", content("Application/PDF; x=y", b"%PDF-other"))
            .response("/data", content("application/json", b"{\"a\":\"<a href=/no>\"}"))
            .response("/image.png", content("image/png", &[0x89; 700_000]))
            .response("/style.css", content("text/css", b"p{}")),
    )
}

fn crawl_to(file: &Path, web: &Web, options: &str) -> Vec<Value> {
    Pipeline::of(web.url("/")).module("jsonl", file).with(options).run().expect(0);
    objects_in(file)
}

#[test]
fn content_of_accepted_types_is_a_page_without_title_text_and_links() {
    let web = site();
    let directory = tempfile::tempdir().unwrap();
    let state = format!("--state {}", directory.path().join("state").display());
    for (index, storage) in ["", &state].into_iter().enumerate() {
        let file = directory.path().join(format!("{index}.jsonl"));
        let options = format!("--accept application/pdf,application/json --similarity 1 {storage}");
        let pages = crawl_to(&file, &web, &options);
        assert_eq!(paths(&web, &pages), ["/", "/a.pdf", "/b", "/c.pdf", "/data"]);
        let find = |path: &str| pages.iter().find(|page| page["url"] == web.url(path)).unwrap();
        let pdf = find("/a.pdf");
        assert_eq!((&pdf["title"], &pdf["links"]), (&"".into(), &Value::Array(Vec::new())));
        assert_eq!((&pdf["content_type"], &pdf["bytes"]), (&"application/pdf".into(), &BINARY.len().into()));
        assert_eq!(find("/data")["links"], Value::Array(Vec::new()));
    }
    let requests: Vec<String> = web.log().iter().map(|hit| hit.path.clone()).collect();
    assert!(!requests.contains(&"/image.png".to_owned()), "no image is asked for: {requests:?}");
    let accept =
        web.log().iter().find(|hit| hit.path == "/a.pdf").unwrap().header("accept").unwrap().to_owned();
    assert!(accept.contains("application/pdf;q=0.8,application/json;q=0.8,*/*;q=0.5"), "{accept}");
}

#[test]
fn files_of_pages_are_followed_if_they_can_have_an_accepted_type() {
    let web = site();
    let directory = tempfile::tempdir().unwrap();
    let pages = directory.path().join("pages");
    let ended = Pipeline::of(web.url("/")).module("pages", &pages).with("--accept image/*").run().expect(0);
    assert_eq!(ended.outcomes(), counts(&[("page", 3), ("not a page", 3)]));
    let image = (1..=3).map(|number| fs::read(pages.join(number.to_string())).unwrap());
    let image = image.into_iter().find(|file| file.ends_with(&[0x89; 100])).expect("the image");
    assert!(image.starts_with(format!("{}\n1\n", web.url("/image.png")).as_bytes()));
    assert!(image.len() > 700_000, "it is larger than a page may be");
}

#[test]
fn file_larger_than_its_limit_is_skipped_and_not_truncated() {
    let web = site();
    let ended = Pipeline::of(web.url("/")).with("--accept */* --max-file-bytes 600KB").run().expect(0);
    assert_eq!(ended.outcomes(), counts(&[("page", 6), ("too large", 1)]));
}

#[test]
fn pages_that_are_not_saved_are_followed_and_counted() {
    let web = site();
    let directory = tempfile::tempdir().unwrap();
    let [file, urls] = ["pages.jsonl", "urls.jsonl"].map(|name| directory.path().join(name));
    let crawl = Pipeline::of(web.url("/")).module("jsonl", &file).module("urls", &urls);
    let ended = crawl
        .with("--accept application/pdf --save-include pdf$ --save-exclude /a --max-pages 2")
        .run()
        .expect(0);
    assert_eq!(paths(&web, &objects_in(&file)), ["/c.pdf"]);
    let outcomes = ended.outcomes();
    assert_eq!((outcomes["page"], outcomes["not saved"]), (1, 3), "{outcomes:?}");
    let of_b = objects_in(&urls).into_iter().find(|row| row["url"] == web.url("/b")).unwrap();
    assert_eq!(of_b["outcome"], "not saved");
}

#[test]
fn page_that_is_not_saved_makes_no_duplicate_of_one_that_is() {
    let web = serve(
        Site::new()
            .page("/", linking_to(&["/copy", "/kept"]))
            .page("/copy", "same text")
            .page("/kept", "same text"),
    );
    let ended = Pipeline::of(web.url("/")).with("--save-exclude copy").run().expect(0);
    assert_eq!(ended.outcomes(), counts(&[("page", 2), ("not saved", 1)]));
}

#[test]
fn classic_crawl_saves_accepted_content_and_what_the_filters_leave() {
    let web = site();
    let ended = Crawl::of(web.url("/")).with("--accept application/pdf,image/*").run().expect(0);
    assert_eq!(ended.sorted_paths(), ["/", "/a.pdf", "/b", "/c.pdf", "/image.png"]);
    assert_eq!((ended.body_of("/a.pdf"), ended.body_of("/image.png").len()), (BINARY.to_vec(), 700_000));
    let ended = Crawl::of(web.url("/")).with("--accept application/pdf --save-include pdf$").run().expect(0);
    assert_eq!(ended.sorted_paths(), ["/a.pdf", "/c.pdf"]);
    assert_eq!(ended.outcomes()["not saved"], 2);
}

#[test]
fn program_gets_accepted_content_as_base64() {
    let web = site();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("lines");
    let crawl = Pipeline::of(web.url("/")).with("--accept application/pdf --module");
    crawl.with_one(format!("exec=cat > '{}'", file.display())).run().expect(0);
    let pdf = objects_in(&file).into_iter().find(|page| page["url"] == web.url("/a.pdf")).unwrap();
    assert_eq!((&pdf["title"], &pdf["body_base64"]), (&"".into(), &"JVBERi0xLjcK//4AAQ==".into()));
}

#[test]
fn many_large_files_take_bounded_memory() {
    let images: String = (0..24).map(|number| format!("<img src=/{number}.png>")).collect();
    let body: Vec<u8> = (0..12_000_000u32).map(|number| (number.wrapping_mul(31) >> 3) as u8).collect();
    let chunked = Response::page(body).content_type("image/png").chunked();
    // About a kilobyte, which arrives at once.
    let compressed = Response::page(vec![0; 12_000_000]).content_type("image/png").zstd();
    for image in [chunked, compressed] {
        let site = Site::new().page("/", images.clone()).fallback(move |_| image.clone());
        take_bounded_memory(&serve(site));
    }
}

/// Crawls a page with 24 images of 12 MB.
fn take_bounded_memory(web: &Web) {
    let options = "--accept image/* --max-file-bytes 15MB --max-bytes 1GB --concurrency 24 --per-host 24 --similarity 0 \
                   --timeout 50s";
    let ended = Pipeline::of(web.url("/")).with(options).run().expect(0);
    assert_eq!(ended.outcomes(), counts(&[("page", 25)]));
    // Four of them, the buffers of connections, and the program.
    assert!(ended.peak_rss < 150 << 20, "{} MiB", ended.peak_rss >> 20);
    let too_large = options.replace("15MB", "9MB");
    let ended = Pipeline::of(web.url("/")).with(&too_large).run().expect(0);
    assert_eq!(ended.outcomes(), counts(&[("page", 1), ("too large", 24)]));
    assert!(ended.peak_rss < 150 << 20, "{} MiB", ended.peak_rss >> 20);
}
