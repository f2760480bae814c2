//! A minimal crawler with independent HTML and URL parsers (html5ever, url).

#![allow(unreachable_pub)]

use std::cell::RefCell;
use std::collections::HashMap;

use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer};
use testweb::{Truth, Web};
use url::Url;

use crate::client::{body, exchange_bytes, get};

/// Collects links, and sets in the tokenizer which elements contain raw text.
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

/// Crawls breadth-first. The target of a redirect has the depth of the link to the redirect.
pub fn walk(web: &Web, start: &str, max_depth: usize, in_scope: impl Fn(&Url) -> bool) -> Truth {
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
                if !in_scope(&url) {
                    break;
                }
                let response = cache.entry(url.clone()).or_insert_with(|| fetch(&url)).clone();
                let head = String::from_utf8_lossy(&response).into_owned();
                if let Some(to) = head.lines().find_map(|line| line.strip_prefix("Location: ")) {
                    url = url.join(to).unwrap();
                    continue;
                }
                let page = head.contains("\r\nContent-Type: text/");
                if head.starts_with("HTTP/1.1 200") && page && !truth.contains_key(url.as_str()) {
                    truth.insert(url.to_string(), (depth, body(&response).to_vec()));
                    if head.contains("\r\nContent-Type: text/html") {
                        level.extend(links(&url, &String::from_utf8_lossy(body(&response))));
                    }
                }
                break;
            }
        }
    }
    truth
}
