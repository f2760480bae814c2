//! The truth about seeded sites, checked by walking them with somebody else's HTML and URL parsers.

mod client;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use client::{body, exchange_bytes, get};
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer};
use testweb::{Site, Truth, Web};
use url::Url;

/// Collects what links, and tells the tokenizer which elements hold text rather than tags.
#[derive(Default)]
struct Links {
    base: RefCell<Option<String>>,
    found: RefCell<Vec<String>>,
}

impl TokenSink for Links {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        let Token::TagToken(tag) = token else { return TokenSinkResult::Continue };
        if tag.kind != TagKind::StartTag {
            return TokenSinkResult::Continue;
        }
        let value = |tag: &Tag, name: &str| {
            tag.attrs.iter().find(|attr| &*attr.name.local == name).map(|attr| attr.value.to_string())
        };
        match &*tag.name {
            "a" | "area" => self.found.borrow_mut().extend(value(&tag, "href")),
            "iframe" => self.found.borrow_mut().extend(value(&tag, "src")),
            "base" => *self.base.borrow_mut() = value(&tag, "href"),
            "meta" => {
                let content = value(&tag, "content").unwrap_or_default();
                let target =
                    content.split_once("URL=").map(|(_, target)| target.trim_matches('\'').to_owned());
                self.found.borrow_mut().extend(target);
            }
            _ => {}
        }
        match &*tag.name {
            "script" => TokenSinkResult::RawData(RawKind::ScriptData),
            "style" | "iframe" => TokenSinkResult::RawData(RawKind::Rawtext),
            "title" | "textarea" => TokenSinkResult::RawData(RawKind::Rcdata),
            _ => TokenSinkResult::Continue,
        }
    }
}

fn links(page: &Url, html: &str) -> Vec<Url> {
    let tokenizer = Tokenizer::new(Links::default(), Default::default());
    let input = BufferQueue::default();
    input.push_back(html.into());
    let _ = tokenizer.feed(&input);
    tokenizer.end();
    let links = tokenizer.sink;
    let base = links.base.take().map_or_else(|| page.clone(), |base| page.join(&base).unwrap());
    let found = links.found.take();
    let mut urls: Vec<Url> = found.iter().filter_map(|link| base.join(link).ok()).collect();
    urls.iter_mut().for_each(|url| url.set_fragment(None));
    urls
}

/// Walks the web level by level; a redirect's target has the depth of the link that led there.
fn walk(web: &Web, start: &str, max_depth: usize, inside: impl Fn(&Url) -> bool) -> Truth {
    let fetch = |url: &Url| {
        let path = &url[url::Position::BeforePath..url::Position::AfterQuery];
        let host = &url[url::Position::BeforeHost..url::Position::AfterPort];
        exchange_bytes(web, &get(host, path))
    };
    let mut cache: HashMap<Url, Vec<u8>> = HashMap::new();
    let (mut truth, mut level) = (Truth::new(), vec![Url::parse(start).unwrap()]);
    for depth in 0..=max_depth {
        for mut url in std::mem::take(&mut level) {
            for _ in 0..=10 {
                if !inside(&url) {
                    break;
                }
                let answer = cache.entry(url.clone()).or_insert_with(|| fetch(&url)).clone();
                let head = String::from_utf8_lossy(&answer).into_owned();
                if let Some(to) = head.lines().find_map(|line| line.strip_prefix("Location: ")) {
                    url = url.join(to).unwrap();
                    continue;
                }
                let page = head.contains("\r\nContent-Type: text/");
                if head.starts_with("HTTP/1.1 200") && page && !truth.contains_key(url.as_str()) {
                    truth.insert(url.to_string(), (depth, body(&answer).to_vec()));
                    if head.contains("\r\nContent-Type: text/html") {
                        level.extend(links(&url, &String::from_utf8_lossy(body(&answer))));
                    }
                }
                break;
            }
        }
    }
    truth
}

fn summary(truth: &Truth) -> Vec<(&String, usize)> {
    truth.iter().map(|(url, (depth, _))| (url, *depth)).collect()
}

#[test]
fn the_truth_is_what_others_find_too() {
    for seed in 0..12 {
        let web = Web::builder().site(Site::seeded(seed, 120)).start();
        let origin = web.url("");
        for depth in [0, 1, 3, 30] {
            let walked = walk(&web, &web.url("/"), depth, |url| url.as_str().starts_with(&origin));
            let truth = web.truth_from(&web.url("/"), depth);
            assert_eq!(summary(&walked), summary(&truth), "seed {seed}, depth {depth}");
            assert!(walked == truth, "bodies differ: seed {seed}");
        }
    }
}

#[test]
fn every_page_of_a_seeded_site_can_be_reached_and_depth_is_worth_testing() {
    for seed in 0..50 {
        let web = Web::builder().site(Site::seeded(seed, 200)).start();
        let truth = web.truth("/", 200);
        assert_eq!(truth.len(), 200, "seed {seed}");
        assert!(truth.values().any(|(depth, _)| *depth >= 4), "seed {seed}");
        assert_eq!(truth["/"].0, 0);
        assert!(truth.keys().all(|path| path.starts_with('/') && !path.contains("hidden")));
        let bodies: HashSet<&Vec<u8>> = truth.values().map(|(_, body)| body).collect();
        assert_eq!(bodies.len(), 200);
        assert!(truth.values().all(|(_, body)| body.len() < 400_000));
    }
}

#[test]
fn the_same_seed_makes_the_same_site_and_another_seed_another() {
    let paths = |seed| {
        let web = Web::builder().site(Site::seeded(seed, 50)).start();
        web.truth("/", 50).into_keys().collect::<Vec<_>>()
    };
    assert_eq!(paths(1), paths(1));
    assert_ne!(paths(1), paths(2));
}

#[test]
fn the_truth_can_start_anywhere() {
    let web = Web::builder().site(Site::seeded(3, 100)).start();
    let inner = web.truth("/", 2).into_iter().find(|(_, (depth, _))| *depth == 2).unwrap().0;
    assert_eq!(web.truth(&inner, 0).into_keys().collect::<Vec<_>>(), [inner]);
    assert!(web.truth("/nowhere", 5).is_empty());
}

#[test]
fn seeded_hosts_link_to_one_another_and_all_can_be_reached() {
    let web = Web::builder().seeded_hosts(7, 20, 15).start();
    let start = web.url_of("h0.test", "/");
    let truth = web.truth_from(&start, 100);
    assert_eq!(truth.len(), 20 * 15);
    let walked = walk(&web, &start, 100, |url| url.host_str().is_some_and(|host| host.ends_with(".test")));
    assert_eq!(summary(&walked), summary(&truth));
    assert!(walked == truth);
}
