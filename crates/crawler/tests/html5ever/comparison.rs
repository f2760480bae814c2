//! Extracts links, text and titles with html5ever's tokenizer and tree builder, and compares them with the scanner's.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crawler::internal::html::scanner::{self, Element, Markup, Sink};
use crawler::internal::html::start_tag::{ReferenceKind, StartTag};
use crawler::internal::html::{Attributes, LinkKind, Targets, attribute_text, refresh};
use encoding_rs::UTF_8;
use html5ever::interface::{ElementFlags, NodeOrText, QuirksMode, Tracer, TreeSink};
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{
    BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};
use html5ever::tree_builder::{TreeBuilder, TreeBuilderOpts};
use html5ever::{Attribute, QualName, local_name, ns};

use crate::documents::{FOREIGN, HTML};

/// Panics unless the scanner finds the same in a page as html5ever.
pub fn assert_same(page: &str) {
    compare(page, by_html5ever(page).extract.take());
}

/// Like [`assert_same`], for a page with any end tags. The scanner does not know the elements around an `svg` or `math`, and
/// guesses whether an end tag closes one of them. Returns whether it guesses right, so that the page is compared.
pub fn assert_same_if_guessed_right(page: &str) -> bool {
    let expected = by_html5ever(page);
    let is_guessed_right = !expected.is_guess_wrong.get();
    if is_guessed_right {
        compare(page, expected.extract.take());
    }
    is_guessed_right
}

fn compare(page: &str, mut expected: Extract) {
    let mut found = by_scanner(page);
    // The scanner does not decode character references in text, so only links are compared if there may be one.
    if page.contains('&') {
        for extract in [&mut found, &mut expected] {
            extract.text.clear();
            extract.titles.clear();
        }
    }
    expected.requisites.sort();
    assert_eq!(found, expected, "page: {page:?}");
}

/// What a parser extracts from a page.
#[derive(Debug, Default, PartialEq, Eq)]
struct Extract {
    base: Option<String>,
    links: Vec<(LinkKind, String)>,
    /// The visible text without white space, which the tree builder drops in some places.
    text: String,
    titles: Vec<String>,
    /// The files that the page needs, sorted.
    requisites: Vec<(String, String)>,
    ids: Vec<String>,
    /// The content of all `style` elements, without white space.
    styles: String,
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
    let mut found = ExtractSink(Extract { links: links.collect(), ..Extract::default() });
    scanner::scan(page.as_bytes(), &mut found);
    found.0.requisites.sort();
    Extract { base: targets.base.map(decode), ..found.0 }
}

/// Collects everything but the links.
struct ExtractSink(Extract);

impl<'p> Sink<'p> for ExtractSink {
    const WANTS_MARKUP: bool = true;

    fn element(&mut self, _: Element, _: &Attributes<'p>) {}

    fn markup(&mut self, markup: Markup<'p>) {
        let Some(tag) = StartTag::parse(&markup) else { return };
        let decode = |raw| attribute_text(raw, &|| UTF_8).into_owned();
        self.0.ids.extend(tag.ids().map(decode));
        tag.each_reference(|kind, value| {
            let kind = match kind {
                ReferenceKind::Requisite(kind) => kind.name(),
                ReferenceKind::Srcset => "srcset",
                ReferenceKind::Style => "style",
                _ => return,
            };
            self.0.requisites.push((kind.to_owned(), decode(value)));
        });
        let style = StartTag::style(&markup).unwrap_or_default();
        self.0.styles.push_str(&normalize_text(&String::from_utf8_lossy(style)));
    }

    fn text(&mut self, run: &'p [u8]) {
        self.0.text.push_str(&normalize_text(&String::from_utf8_lossy(run)));
    }

    fn title(&mut self, content: &'p [u8]) {
        self.0.titles.push(normalize_text(&String::from_utf8_lossy(content)));
    }
}

/// Removes white space, and NULs with their replacements.
fn normalize_text(text: &str) -> String {
    text.replace(|c: char| c.is_ascii_whitespace() || c == '\0' || c == '\u{FFFD}', "")
}

fn by_html5ever(page: &str) -> Tree {
    let options = TreeBuilderOpts { scripting_enabled: false, ..Default::default() };
    let sink = LinkSink { builder: TreeBuilder::new(Tree::default(), options) };
    let tokenizer = Tokenizer::new(sink, TokenizerOpts { discard_bom: false, ..Default::default() });
    let queue = BufferQueue::default();
    queue.push_back(StrTendril::from_slice(page));
    // It stops after each script.
    while !queue.is_empty() {
        let _ = tokenizer.feed(&queue);
    }
    tokenizer.end();
    tokenizer.sink.builder.sink
}

/// Passes tokens to the tree builder, and extracts links from start tags by the elements they create.
struct LinkSink {
    builder: TreeBuilder<Node, Tree>,
}

impl LinkSink {
    /// Whether the HTML standard ignores this end tag, but html5ever does not: a special element is between it and the
    /// element of its name. html5ever does not count the elements of [`NodeData::is_foreign_special`] as special.
    fn is_ignored(&self, tag: &Tag) -> bool {
        let is_named = |name: &str| name.eq_ignore_ascii_case(&tag.name);
        let is_special = match &*tag.name {
            "div" | "ul" | "center" => |node: &Node| node.is_html(&["template"]),
            name if name == "span"
                || FOREIGN.iter().chain(&["annotation-xml"]).any(|name| is_named(name)) =>
            {
                |node: &Node| node.is_html(SPECIAL)
            }
            _ => return false,
        };
        let open = self.open_elements();
        let mut innermost_foreign = open.iter().rev().take_while(|node| node.is_foreign());
        if innermost_foreign.any(|node| node.name.as_ref().is_some_and(|name| is_named(&name.local))) {
            return false;
        }
        let is_closed = |node: &Node| node.is_html(&[&tag.name]);
        let is_last = |node: &Node| is_closed(node) || node.is_foreign_special() || is_special(node);
        let last = open.iter().rposition(is_last);
        let root = open.iter().position(|node| node.is_foreign());
        if root.is_some() && last < root {
            let closes_root = last.is_some_and(|last| is_closed(&open[last]));
            // The scanner guesses by the name.
            if closes_root != HTML.contains(&&*tag.name) {
                self.builder.sink.is_guess_wrong.set(true);
            }
        }
        last.is_some_and(|last| open[last].is_foreign())
    }

    /// The open elements, innermost last. If that is an HTML element, others follow.
    fn open_elements(&self) -> Vec<Node> {
        let handles = Handles::default();
        self.builder.trace_handles(&handles);
        let mut open = handles.0.take();
        if self.adjusted_current_node_present_but_not_in_html_namespace() {
            open.truncate(open.iter().rposition(|node| node.is_foreign()).map_or(0, |index| index + 1));
        }
        open
    }
}

/// The special elements of HTML that a document contains.
const SPECIAL: &[&str] = &["div", "ul", "center", "p", "template"];

/// The elements that the tree builder refers to: the open ones, then others, which are HTML elements.
#[derive(Default)]
struct Handles(RefCell<Vec<Node>>);

impl Tracer for Handles {
    type Handle = Node;

    fn trace_handle(&self, node: &Node) {
        self.0.borrow_mut().push(Rc::clone(node));
    }
}

impl TokenSink for LinkSink {
    type Handle = Node;

    fn process_token(&self, token: Token, line: u64) -> TokenSinkResult<Node> {
        let tree = &self.builder.sink;
        let tag = match &token {
            Token::TagToken(tag) if tag.kind == TagKind::StartTag => Some(tag.clone()),
            Token::TagToken(tag) if self.is_ignored(tag) => return TokenSinkResult::Continue,
            _ => None,
        };
        tree.created.take();
        let result = self.builder.process_token(token, line);
        if let Some(tag) = tag {
            let is_in_template = || self.open_elements().iter().any(|node| node.is_html(&["template"]));
            tree.start_tag(&tag, is_in_template);
        }
        result
    }

    fn end(&self) {
        self.builder.end();
    }

    fn adjusted_current_node_present_but_not_in_html_namespace(&self) -> bool {
        self.builder.adjusted_current_node_present_but_not_in_html_namespace()
    }
}

/// A node of the tree, which knows only its ancestors.
type Node = Rc<NodeData>;

struct NodeData {
    name: Option<QualName>,
    parent: RefCell<Option<Node>>,
    /// For the content of a template.
    is_template_content: bool,
    /// For `annotation-xml`: whether its content is HTML.
    is_integration_point: bool,
    template_content: RefCell<Option<Node>>,
}

impl NodeData {
    fn new(name: Option<QualName>, is_integration_point: bool, is_template_content: bool) -> Node {
        let (parent, template_content) = Default::default();
        Rc::new(NodeData { name, parent, is_template_content, is_integration_point, template_content })
    }

    fn is_html(&self, names: &[&str]) -> bool {
        self.name.as_ref().is_some_and(|name| name.ns == ns!(html) && names.contains(&&*name.local))
    }

    fn is_foreign(&self) -> bool {
        self.name.as_ref().is_some_and(|name| name.ns != ns!(html))
    }

    /// Whether it is an element of SVG or MathML that the HTML standard calls special.
    fn is_foreign_special(&self) -> bool {
        self.name.as_ref().is_some_and(|name| match &*name.local {
            "mi" | "mo" | "mn" | "ms" | "mtext" | "annotation-xml" => name.ns == ns!(mathml),
            "foreignObject" | "desc" | "title" => name.ns == ns!(svg),
            _ => false,
        })
    }

    /// Whether this node or one around it matches.
    fn is_inside(&self, matches: &dyn Fn(&NodeData) -> bool) -> bool {
        matches(self) || self.parent.borrow().as_ref().is_some_and(|parent| parent.is_inside(matches))
    }
}

/// The contents of templates. Each refers to its template, which refers to it: a cycle that is broken at the end.
#[derive(Default)]
struct TemplateContents(RefCell<Vec<Node>>);

impl Drop for TemplateContents {
    fn drop(&mut self) {
        for content in self.0.take() {
            content.parent.take();
        }
    }
}

/// Extracts the text while the tree builder inserts it.
#[derive(Default)]
struct Tree {
    extract: RefCell<Extract>,
    document: RefCell<Option<Node>>,
    /// The elements that the current token created.
    created: RefCell<Vec<Node>>,
    template_contents: TemplateContents,
    /// Whether the scanner guesses wrong what an end tag closes.
    is_guess_wrong: Cell<bool>,
}

const RAW_TEXT: &[&str] =
    &["title", "textarea", "style", "xmp", "iframe", "noembed", "noframes", "script", "plaintext"];

/// The attributes of an element that name files, and what the files are.
fn requisites(
    element: &str,
    is_foreign: bool,
    rel: &str,
    as_: &str,
    type_: &str,
) -> Vec<(&'static str, &'static str)> {
    let has = |wanted: &str| rel.split_ascii_whitespace().any(|word| word.eq_ignore_ascii_case(wanted));
    let link = match as_ {
        _ if has("stylesheet") => "stylesheet",
        _ if has("icon") => "icon",
        "font" if has("preload") => "font",
        _ if has("manifest") => "manifest",
        _ => "",
    };
    let mut found = match (element, is_foreign) {
        ("image" | "feimage" | "use", true) => vec![("image", "href"), ("image", "xlink:href")],
        ("script", true) => vec![("script", "href"), ("script", "xlink:href")],
        (_, true) => Vec::new(),
        ("img" | "image", _) => vec![("image", "src"), ("srcset", "srcset")],
        ("source", _) => vec![("media", "src"), ("srcset", "srcset")],
        ("video", _) => vec![("media", "src"), ("image", "poster")],
        ("audio" | "track", _) => vec![("media", "src")],
        ("script", _) => vec![("script", "src")],
        ("embed", _) => vec![("object", "src")],
        ("object", _) => vec![("object", "data")],
        ("input", _) if type_ == "image" => vec![("image", "src")],
        ("body" | "table" | "tr" | "td" | "th", _) => vec![("image", "background")],
        ("link", _) => vec![(link, "href"), ("srcset", "imagesrcset")],
        _ => Vec::new(),
    };
    found.retain(|(kind, _)| !kind.is_empty());
    found.push(("style", "style"));
    found
}

impl Tree {
    /// Extracts the link of a start tag. A tag that the tree builder ignores counts as one of HTML.
    fn start_tag(&self, tag: &Tag, is_in_template: impl Fn() -> bool) {
        let created = self.created.borrow();
        let node = created
            .iter()
            .rev()
            .find(|node| node.name.as_ref().is_some_and(|name| name.local.eq_ignore_ascii_case(&tag.name)));
        let is_foreign = node.is_some_and(|node| !node.is_html(&[&tag.name]));
        let is_hidden = match node {
            Some(node) => node.is_inside(&|node| node.is_template_content),
            None => is_in_template(),
        };
        if is_hidden {
            return;
        }
        let mut extract = self.extract.borrow_mut();
        let value =
            |name: &str| tag.attrs.iter().find(|a| &*a.name.local == name).map(|a| a.value.to_string());
        let anchor_name = value("name").filter(|_| !is_foreign && tag.name == local_name!("a"));
        extract.ids.extend(value("id").into_iter().chain(anchor_name).filter(|id| !id.is_empty()));
        let needed = requisites(
            &tag.name,
            is_foreign,
            &value("rel").unwrap_or_default(),
            &value("as").unwrap_or_default(),
            &value("type").unwrap_or_default(),
        );
        for (kind, attribute) in needed {
            let target = value(attribute).filter(|target| !target.is_empty());
            extract.requisites.extend(target.map(|target| (kind.to_owned(), target)));
        }
        if is_foreign && tag.name != local_name!("a") {
            return;
        }
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
            "title" => {
                extract.titles.push(String::new());
                None
            }
            _ => None,
        };
        extract.links.extend(link);
    }

    fn insert(&self, parent: &Node, child: NodeOrText<Node>) {
        let is_hidden = parent.is_inside(&|node| node.is_template_content);
        let text = match child {
            NodeOrText::AppendNode(node) => {
                *node.parent.borrow_mut() = Some(Rc::clone(parent));
                return;
            }
            NodeOrText::AppendText(text) => normalize_text(&text),
        };
        let is_invisible = |node: &NodeData| {
            let name = node.name.as_ref();
            name.is_some_and(|name| {
                name.ns != ns!(html) && ["title", "script", "style"].contains(&&*name.local)
            })
        };
        let mut extract = self.extract.borrow_mut();
        if parent.is_html(&["style"]) && !is_hidden {
            extract.styles.push_str(&text);
        }
        if parent.is_html(&["title"]) && !is_hidden {
            extract.titles.last_mut().expect("an open title").push_str(&text);
        } else if !is_hidden
            && !parent.is_inside(&|node| node.is_html(RAW_TEXT))
            && !parent.is_inside(&is_invisible)
        {
            extract.text.push_str(&text);
        }
    }
}

impl TreeSink for Tree {
    type Handle = Node;
    type Output = ();
    type ElemName<'a> = &'a QualName;

    fn finish(self) {}

    fn parse_error(&self, _: Cow<'static, str>) {}

    fn get_document(&self) -> Node {
        Rc::clone(self.document.borrow_mut().get_or_insert_with(|| NodeData::new(None, false, false)))
    }

    fn elem_name<'a>(&'a self, node: &'a Node) -> &'a QualName {
        node.name.as_ref().expect("an element")
    }

    fn create_element(&self, name: QualName, attributes: Vec<Attribute>, flags: ElementFlags) -> Node {
        let node = NodeData::new(Some(name), flags.mathml_annotation_xml_integration_point, false);
        if flags.template {
            let content = NodeData::new(None, false, true);
            *content.parent.borrow_mut() = Some(Rc::clone(&node));
            self.template_contents.0.borrow_mut().push(Rc::clone(&content));
            *node.template_content.borrow_mut() = Some(content);
        }
        drop(attributes);
        self.created.borrow_mut().push(Rc::clone(&node));
        node
    }

    fn create_comment(&self, _: StrTendril) -> Node {
        NodeData::new(None, false, false)
    }

    fn create_pi(&self, _: StrTendril, _: StrTendril) -> Node {
        NodeData::new(None, false, false)
    }

    fn append(&self, parent: &Node, child: NodeOrText<Node>) {
        self.insert(parent, child);
    }

    fn append_based_on_parent_node(&self, element: &Node, previous: &Node, child: NodeOrText<Node>) {
        let parent = element.parent.borrow().clone();
        self.insert(&parent.unwrap_or_else(|| Rc::clone(previous)), child);
    }

    fn append_doctype_to_document(&self, _: StrTendril, _: StrTendril, _: StrTendril) {}

    fn get_template_contents(&self, template: &Node) -> Node {
        template.template_content.borrow().clone().expect("a template")
    }

    fn same_node(&self, one: &Node, other: &Node) -> bool {
        Rc::ptr_eq(one, other)
    }

    fn set_quirks_mode(&self, _: QuirksMode) {}

    fn append_before_sibling(&self, sibling: &Node, new: NodeOrText<Node>) {
        let parent = sibling.parent.borrow().clone();
        self.insert(&parent.unwrap_or_else(|| self.get_document()), new);
    }

    fn add_attrs_if_missing(&self, _: &Node, _: Vec<Attribute>) {}

    fn remove_from_parent(&self, node: &Node) {
        *node.parent.borrow_mut() = None;
    }

    fn reparent_children(&self, _: &Node, _: &Node) {}

    fn is_mathml_annotation_xml_integration_point(&self, node: &Node) -> bool {
        node.is_integration_point
    }
}
