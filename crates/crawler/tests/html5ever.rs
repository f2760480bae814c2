//! Compares the links, text and titles that the scanner finds with those of html5ever's tokenizer.

use std::cell::{Cell, RefCell};

use crawler::internal::html::scanner::{self, Element, Sink};
use crawler::internal::html::{Attributes, LinkKind, Targets, attribute_text, refresh};
use encoding_rs::UTF_8;
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{
    BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};
use proptest::prelude::*;

/// What a parser extracts from a page.
#[derive(Debug, Default, PartialEq, Eq)]
struct Extract {
    base: Option<String>,
    links: Vec<(LinkKind, String)>,
    text: String,
    titles: Vec<String>,
}

fn by_scanner(page: &str) -> Extract {
    let decode = |raw| attribute_text(raw, &|| UTF_8).into_owned();
    let targets = Targets::scan(page.as_bytes());
    let links = targets.links.iter().filter_map(|&(kind, raw)| {
        let text = decode(raw);
        match kind {
            LinkKind::Refresh => refresh::target(&text).map(|target| (kind, target.to_owned())),
            _ => Some((kind, text)),
        }
    });
    let mut text = TextSink::default();
    scanner::scan(page.as_bytes(), &mut text);
    Extract { base: targets.base.map(decode), links: links.collect(), text: text.text, titles: text.titles }
}

/// Collects the text and the titles.
#[derive(Default)]
struct TextSink {
    text: String,
    titles: Vec<String>,
}

impl<'p> Sink<'p> for TextSink {
    fn element(&mut self, _: Element, _: &Attributes<'p>) {
        self.text.push('|');
    }

    fn text(&mut self, run: &'p [u8]) {
        self.text.push_str(&normalize_text(run));
    }

    fn title(&mut self, content: &'p [u8]) {
        self.titles.push(normalize_text(content));
    }
}

/// Normalises line ends and removes NULs, which the tokenizer leaves to the tree builder.
fn normalize_text(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.replace("\r\n", "\n").replace('\r', "\n").replace(['\0', '\u{FFFD}'], "")
}

fn by_html5ever(page: &str) -> Extract {
    let tokenizer =
        Tokenizer::new(Oracle::default(), TokenizerOpts { discard_bom: false, ..Default::default() });
    let queue = BufferQueue::default();
    queue.push_back(StrTendril::from_slice(page));
    let _ = tokenizer.feed(&queue);
    tokenizer.end();
    tokenizer.sink.extract.into_inner()
}

/// Applies the scanner's rules to html5ever's tokens.
#[derive(Default)]
struct Oracle {
    extract: RefCell<Extract>,
    foreign: Cell<u32>,
    templates: Cell<u32>,
    /// Set while a raw text element is open: whether it is a title.
    raw: Cell<Option<bool>>,
}

impl TokenSink for Oracle {
    type Handle = ();

    fn process_token(&self, token: Token, _: u64) -> TokenSinkResult<()> {
        match token {
            Token::TagToken(tag) if tag.kind == TagKind::StartTag => return self.start_tag(&tag),
            Token::TagToken(tag) => self.end_tag(&tag),
            Token::CharacterTokens(text) => self.characters(&text),
            _ => {}
        }
        TokenSinkResult::Continue
    }

    fn adjusted_current_node_present_but_not_in_html_namespace(&self) -> bool {
        self.foreign.get() > 0
    }
}

impl Oracle {
    fn characters(&self, text: &str) {
        let mut extract = self.extract.borrow_mut();
        let text = text.replace('\u{FFFD}', "");
        match self.raw.get() {
            Some(true) => extract.titles.last_mut().expect("an open title").push_str(&text),
            Some(false) => {}
            None if self.templates.get() == 0 => extract.text.push_str(&text),
            None => {}
        }
    }

    fn end_tag(&self, tag: &Tag) {
        let decrement = |count: &Cell<u32>| count.set(count.get().saturating_sub(1));
        let raw = self.raw.take();
        match &*tag.name {
            _ if raw.is_some() => {}
            "svg" | "math" => decrement(&self.foreign),
            "template" => decrement(&self.templates),
            _ => {}
        }
    }

    fn start_tag(&self, tag: &Tag) -> TokenSinkResult<()> {
        if self.templates.get() == 0 {
            self.element(tag);
        }
        let increment = |count: &Cell<u32>| count.set(count.get() + 1);
        if tag.self_closing && (self.foreign.get() > 0 || matches!(&*tag.name, "svg" | "math")) {
            return TokenSinkResult::Continue;
        }
        let kind = match &*tag.name {
            "svg" | "math" => {
                increment(&self.foreign);
                return TokenSinkResult::Continue;
            }
            "template" => {
                increment(&self.templates);
                return TokenSinkResult::Continue;
            }
            "title" | "textarea" => RawKind::Rcdata,
            "style" | "xmp" | "iframe" | "noembed" | "noframes" => RawKind::Rawtext,
            "script" => RawKind::ScriptData,
            "plaintext" => {
                self.raw.set(Some(false));
                return TokenSinkResult::Plaintext;
            }
            _ => return TokenSinkResult::Continue,
        };
        let title = &*tag.name == "title" && self.templates.get() == 0 && self.foreign.get() == 0;
        if title {
            self.extract.borrow_mut().titles.push(String::new());
        }
        self.raw.set(Some(title));
        TokenSinkResult::RawData(kind)
    }

    fn element(&self, tag: &Tag) {
        let mut extract = self.extract.borrow_mut();
        if matches!(&*tag.name, "a" | "area" | "base" | "frame" | "iframe" | "meta") {
            extract.text.push('|');
        }
        let value =
            |name: &str| tag.attrs.iter().find(|a| &*a.name.local == name).map(|a| a.value.to_string());
        let link = match &*tag.name {
            "a" => value("href").map(|href| (LinkKind::Anchor, href)),
            "area" => value("href").map(|href| (LinkKind::Area, href)),
            "frame" | "iframe" => value("src").map(|src| (LinkKind::Frame, src)),
            "meta" if value("http-equiv").is_some_and(|header| header.eq_ignore_ascii_case("refresh")) => {
                let content = value("content").unwrap_or_default();
                refresh::target(&content).map(|target| (LinkKind::Refresh, target.to_owned()))
            }
            "base" => {
                extract.base = extract.base.take().or(value("href"));
                None
            }
            _ => None,
        };
        extract.links.extend(link);
    }
}

fn assert_same(page: &str) {
    let (mut found, mut expected) = (by_scanner(page), by_html5ever(page));
    // The scanner does not decode character references in text, so only links are compared if there may be one.
    if page.contains('&') {
        for extract in [&mut found, &mut expected] {
            extract.text.clear();
            extract.titles.clear();
        }
    }
    assert_eq!(found, expected, "page: {page:?}");
}

/// Pieces that start, end or break every state of the tokenizer.
#[rustfmt::skip]
const PIECES: &[&str] = &[
    "<", ">", "/", "=", "\"", "'", "!", "-", "?", "&", ";", " ", "\t", "\n", "\r", "\r\n", "\x0C", "\0", "x",
    "é", "`", "#", "</", "<!", "<!-", "<!--", "-->", "--!>", "--!", "<!-->", "<!--->", "<!---->", "<!--!>",
    "->", "--", "<!doctype html>", "<!DOCTYPE a \">", "<?", "<?xml a='>'?>", "<![CDATA[", "]]>", "]]", "</>",
    "</ >", "</3>", "<3>", "<a", "<a ", "<A ", "</a>", "<a href=1>", "<a HREF = 'two'>",
    "<a href=\"three\" href=four>", "<a href>", "<a href=>", "<a href=/>", "<a/href=five>",
    "<a x=1/href=six>", "<a\nhref\n=\nseven\n>", "<a ='href'href=8>", "<a \"href=9>", "<a <a href=10>",
    "<a href='x'href=y>", "<a hre\0f=z>", "<ab href=no>", "<a\0 href=no>", "<a href=a\0b\rc>",
    "<a href=\"&amp;&lt\">", "href", "href=", " href=q", " href='q", " href=\"q", "<area href=x>",
    "<base href=b>", "<base>", "<base target=x href=c>", "<frame src=f>", "<iframe src=i>", "</iframe>",
    "<iframe/>", "<meta http-equiv=refresh content='0;url=m'>", "<meta content='1;n' HTTP-EQUIV=ReFresh>",
    "<meta http-equiv=&#114;efresh content=2;&#117;rl=o>", "<meta charset=x>", "<script>", "<script ",
    "</script>", "</script ", "</script/", "</SCRIPT x='>'>", "</scriptx>", "<scriptx>", "<script",
    "</script", "<style>", "</style>", "<title>", "</title>", "</title", "</titl", "<title/>", "<style/>",
    "<script/>", "<textarea>", "</textarea>", "</textarea\n>", "<xmp>", "</xmp>", "<noembed>", "</noembed>",
    "<noframes>", "</noframes>", "<template>", "</template>", "<template/>", "<TEMPLATE x>", "<svg>",
    "</svg>", "<svg/>", "<math>", "</math>", "<noscript>", "</noscript>", "<plaintext>", "<plaintext/>",
    "<xplaintext>", "<p>", "</p>", "<br/>", "<blockquote x='>'>", "<h1 class=\"a>b\">", "<p a'b>",
    "<p a=b'c>", "<p a=\"b\"c>", "<p//>", "<p / >", "<p/x>", "<p =>", "<p ==>", "<p a==\">", "&amp", "&amp;",
    "&#x26;", "&#38", "&#0;", "&#x80;", "&#xD800;", "&#x110000;", "&#99999999999;", "&#;", "&#x;", "&not",
    "&notit;", "&notin;", "&copy=", "&copyx", "&copy", "&unknown;", "&lt", "&AMP", "&ngE;", "&#13;",
    "&#x0D;\n", "<a href='&", "<a href=&", "<a href=\"?a=1&copy=2&lt=3&amp;b&quot;\">",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6_000))]

    #[test]
    fn pages_of_random_pieces_are_scanned_as_by_html5ever(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..24)) {
        assert_same(&pieces.concat());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn damaged_documents_are_scanned_as_by_html5ever(
        damages in prop::collection::vec((0.0..1.0f64, 0..12usize, prop::sample::select(PIECES)), 1..6),
    ) {
        let mut page = DOCUMENT.to_owned();
        for (position, removed, inserted) in damages {
            let boundary = |at: usize| (at..=page.len()).find(|&at| page.is_char_boundary(at)).unwrap_or(page.len());
            let start = boundary((position * page.len() as f64) as usize);
            let end = boundary((start + removed).min(page.len()));
            page.replace_range(start..end, inserted);
        }
        assert_same(&page);
    }
}

#[test]
fn every_pair_of_pieces_is_scanned_as_by_html5ever() {
    for first in PIECES {
        for second in PIECES {
            assert_same(&format!("{first}{second}<a href=end></a>"));
        }
    }
}

/// All texts of `length` pieces. If one of the pieces is empty, this includes shorter texts.
fn every_text(pieces: &[&str], length: u32) -> impl Iterator<Item = String> {
    (0..pieces.len().pow(length)).map(move |number| {
        (0..length).map(|position| pieces[number / pieces.len().pow(position) % pieces.len()]).collect()
    })
}

#[test]
fn scripts_end_as_in_html5ever() {
    let pieces = ["", "<!--", "-", "->", ">", "<script>", "<script ", "</script>", "</script/x"];
    for text in every_text(&pieces, 4) {
        assert_same(&format!("<script>{text}<a href=1></script><a href=2></script><a href=3>"));
    }
}

#[test]
fn comments_end_as_in_html5ever() {
    for text in every_text(&["", "-", "--", "!", ">", "<!--"], 5) {
        assert_same(&format!("<!{text}<a href=1>--><a href=2>"));
    }
}

#[test]
fn every_prefix_of_a_document_is_scanned_as_by_html5ever() {
    for (end, _) in DOCUMENT.char_indices() {
        assert_same(&DOCUMENT[..end]);
    }
}

#[test]
fn character_references_in_attributes_are_decoded_as_by_html5ever() {
    // Names with and without a required semicolon, each followed by text that may change its meaning.
    let names = "amp AMP lt gt quot copy reg not notin para sect shy times yen Auml auml ccedil divide frac12 sup1 \
                 hellip mdash nbsp ensp zwj NotEqualTilde CounterClockwiseContourIntegral fjlig bne";
    for name in names.split_whitespace() {
        for after in ["", ";", "=", "x", "1", " ", ";;", "&", "&amp;", "-"] {
            assert_same(&format!(
                "<a href='?&{name}{after}'><a href=\"&{name}{after}{name};\"><a href=&{name}{after}>"
            ));
        }
    }
    for number in
        (0..300).chain([0xD7FF, 0xD800, 0xDFFF, 0xFDD0, 0xFFFE, 0xFFFF, 0x1F600, 0x10FFFF, 0x110000])
    {
        assert_same(&format!("<a href='&#{number};'><a href='&#x{number:x}g'><a href='&#X{number:X}'>"));
    }
}

const DOCUMENT: &str = include_str!("html5ever/document.html");
