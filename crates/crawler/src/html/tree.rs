//! The tree of an HTML page, in memory and time linear in its size, for any page.
//!
//! The tree of a valid page is that of a browser, also if optional tags are left out. An end tag that closes elements which a
//! browser would open again (`<b><p></b>`) closes them for good.

use url::Url;

use super::attributes::{Attributes, Name, TagAttributes, VOID};
use super::scanner::{self, Element, Markup, Sink};
use super::text::{self, TextLines};
use super::{MAX_TARGET_BYTES, attribute_text, url_resolver};

/// The maximum number of open elements. Elements below are added to the last one.
const MAX_DEPTH: usize = 256;

/// The maximum number of nodes: about 15 MB. The rest of a larger page is left out. Pages of documentation sites have up to 100,000.
const MAX_NODES: usize = 250_000;

/// The maximum number of attributes of an element. More are ignored.
const MAX_ATTRIBUTES: usize = 64;

/// How much text takes the time of a step to another node.
const BYTES_PER_STEP: usize = 16;

/// How many elements around one may be the `pre` that it is a part of.
const MAX_PRE_DEPTH: usize = 4;

/// The maximum length of what is made from the tree of a page of this size: nested elements do not repeat its text many times.
pub const fn max_result_bytes(page_bytes: usize) -> usize {
    64 * 1024 + 4 * page_bytes
}

/// The position of a node in the tree. Those of the children and descendants of a node are larger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u32);

impl NodeId {
    /// The position as an index into a list with an entry for each node.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The tree of a page in UTF-8: the elements `html`, `head` and `body`, and what is in them.
#[derive(Debug)]
pub struct Tree<'p> {
    nodes: Vec<Node<'p>>,
    /// The attributes of all elements: names as spelled in the page, values undecoded.
    attributes: Vec<(&'p [u8], &'p [u8])>,
}

#[derive(Debug)]
struct Node<'p> {
    content: Content<'p>,
    parent: Option<NodeId>,
    previous: Option<NodeId>,
    next: Option<NodeId>,
    first_child: Option<NodeId>,
    last_child: Option<NodeId>,
}

/// What a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content<'p> {
    /// An element, with its name as spelled in the page.
    Element {
        /// The name, in any case.
        name: &'p [u8],
        /// Where its attributes are.
        attributes: (u32, u32),
    },
    /// Text with character references.
    Text(&'p [u8]),
    /// The content of a `script` or another element whose content is no markup.
    Raw(&'p [u8]),
}

/// A step of a walk through a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The start of an element, or a text.
    Enter(NodeId),
    /// The end of an element.
    Leave(NodeId),
}

const HTML: NodeId = NodeId(0);
const HEAD: NodeId = NodeId(1);
const BODY: NodeId = NodeId(2);

impl<'p> Tree<'p> {
    /// The tree of a page in UTF-8.
    pub fn parse(page: &'p [u8]) -> Tree<'p> {
        let mut builder = TreeBuilder::new();
        scanner::scan(page, &mut builder);
        builder.tree
    }

    /// All nodes, parents before children.
    pub fn nodes(&self) -> impl DoubleEndedIterator<Item = NodeId> + ExactSizeIterator + use<> {
        (0..self.nodes.len() as u32).map(NodeId)
    }

    /// The `html` element.
    pub fn root(&self) -> NodeId {
        HTML
    }

    /// The `body` element.
    pub fn body(&self) -> NodeId {
        BODY
    }

    /// Something whose address identifies a node.
    pub fn address(&self, node: NodeId) -> &impl Sized {
        self.node(node)
    }

    /// What a node is.
    pub fn content(&self, node: NodeId) -> Content<'p> {
        self.node(node).content
    }

    /// The name of an element, in any case; empty for a text.
    pub fn name(&self, node: NodeId) -> &'p [u8] {
        match self.content(node) {
            Content::Element { name, .. } => name,
            Content::Text(_) | Content::Raw(_) => b"",
        }
    }

    /// Whether a node is an element with this name, in lower case.
    pub fn is(&self, node: NodeId, name: &str) -> bool {
        self.name(node).eq_ignore_ascii_case(name.as_bytes())
    }

    /// The attributes of an element: names as spelled in the page, values undecoded.
    pub fn attributes(&self, node: NodeId) -> &[(&'p [u8], &'p [u8])] {
        match self.content(node) {
            Content::Element { attributes: (start, end), .. } => {
                &self.attributes[start as usize..end as usize]
            }
            Content::Text(_) | Content::Raw(_) => &[],
        }
    }

    /// The undecoded value of an attribute, by its name in lower case.
    pub fn attribute(&self, node: NodeId, name: &str) -> Option<&'p [u8]> {
        let mut attributes = self.attributes(node).iter();
        attributes.find(|(other, _)| other.eq_ignore_ascii_case(name.as_bytes())).map(|(_, value)| *value)
    }

    /// Whether an element has the attribute `hidden`.
    pub fn is_hidden(&self, node: NodeId) -> bool {
        self.attribute(node, "hidden").is_some()
    }

    /// The parent of a node.
    pub fn parent(&self, node: NodeId) -> Option<NodeId> {
        self.node(node).parent
    }

    /// The first child of a node.
    pub fn first_child(&self, node: NodeId) -> Option<NodeId> {
        self.node(node).first_child
    }

    /// The next sibling of a node.
    pub fn next(&self, node: NodeId) -> Option<NodeId> {
        self.node(node).next
    }

    /// The node after a node and all in it, in document order.
    pub fn after(&self, node: NodeId) -> Option<NodeId> {
        let mut around = std::iter::successors(Some(node), |node| self.parent(*node));
        around.find_map(|node| self.next(node))
    }

    /// The previous sibling of a node.
    pub fn previous(&self, node: NodeId) -> Option<NodeId> {
        self.node(node).previous
    }

    /// The step after this one in a walk through the tree. Entering a node and then leaving it skips its content.
    pub fn step(&self, step: Step) -> Option<Step> {
        let after = |node: NodeId| match (self.node(node).next, self.node(node).parent) {
            (Some(next), _) => Some(Step::Enter(next)),
            (None, parent) => parent.map(Step::Leave),
        };
        match step {
            Step::Enter(node) => match (self.node(node).first_child, self.content(node)) {
                (Some(child), _) => Some(Step::Enter(child)),
                (None, Content::Element { .. }) => Some(Step::Leave(node)),
                (None, _) => after(node),
            },
            Step::Leave(node) => after(node),
        }
    }

    /// The URL that relative URLs of the page are relative to.
    pub fn base_url(&self, page: &Url) -> Url {
        let base =
            self.nodes().filter(|node| self.is(*node, "base")).find_map(|node| self.attribute(node, "href"));
        let href = base.filter(|href| href.len() <= MAX_TARGET_BYTES);
        let base = href.map(|href| attribute_text(href, &|| encoding_rs::UTF_8));
        base.and_then(|href| url_resolver::parse_base(page, &href)).unwrap_or_else(|| page.clone())
    }

    /// The visible text in an element, as in [`visible_text`](text::visible_text), in at most this many bytes. If the element is
    /// one whose content is no markup, such as a `script`, its content. The element itself may be hidden.
    pub fn text(&self, element: NodeId, max_bytes: usize) -> String {
        let mut unlimited = usize::MAX;
        self.text_in_steps(element, max_bytes, &mut unlimited)
    }

    /// The same, within a number of steps, each through a node or `BYTES_PER_STEP` of its text. They are taken from `steps`; the
    /// text ends where none is left.
    pub fn text_in_steps(&self, element: NodeId, max_bytes: usize, steps: &mut usize) -> String {
        if let Some(child) = self.first_child(element)
            && let Content::Raw(content) = self.content(child)
        {
            return bounded(&text::decode_raw(self.name(element), content), max_bytes).trim().to_owned();
        }
        let mut lines = TextLines::default();
        // An element in a `pre`, such as its `code` or a part of that, keeps its lines, too.
        let around = std::iter::successors(Some(element), |node| self.parent(*node));
        let mut pres = i32::from(around.take(MAX_PRE_DEPTH).any(|node| self.is(node, "pre")));
        let mut step = self.step(Step::Enter(element)).filter(|_| self.first_child(element).is_some());
        while let Some(now) = step.filter(|step| *step != Step::Leave(element) && lines.len() < max_bytes) {
            let (Step::Enter(node) | Step::Leave(node)) = now;
            let bytes = if let Content::Text(run) = self.content(node) { run.len() } else { 0 };
            *steps = steps.saturating_sub(1 + bytes / BYTES_PER_STEP);
            if *steps == 0 {
                break;
            }
            match self.content(node) {
                Content::Element { name, .. } => {
                    if text::is_block(name) {
                        lines.end_block();
                    }
                    if now == Step::Enter(node) && self.is_hidden(node) {
                        step = self.step(Step::Leave(node));
                        continue;
                    }
                    if self.is(node, "pre") {
                        pres += if now == Step::Enter(node) { 1 } else { -1 };
                    }
                }
                Content::Text(run) if pres > 0 => lines.push_preformatted(&text::decode(run)),
                Content::Text(run) => lines.push(&text::decode(run)),
                Content::Raw(_) => {}
            }
            step = self.step(now);
        }
        bounded(&lines.into_text(), max_bytes).to_owned()
    }

    fn node(&self, id: NodeId) -> &Node<'p> {
        &self.nodes[id.index()]
    }

    fn append(&mut self, parent: Option<NodeId>, content: Content<'p>) -> NodeId {
        let id = NodeId(self.nodes.len() as u32);
        let previous = parent.and_then(|parent| self.node(parent).last_child);
        self.nodes.push(Node { content, parent, previous, next: None, first_child: None, last_child: None });
        if let Some(previous) = previous {
            self.nodes[previous.index()].next = Some(id);
        }
        if let Some(parent) = parent {
            let parent = &mut self.nodes[parent.index()];
            parent.first_child.get_or_insert(id);
            parent.last_child = Some(id);
        }
        id
    }
}

/// The start of a text, at most this many bytes.
fn bounded(text: &str, max_bytes: usize) -> &str {
    &text[..text.floor_char_boundary(max_bytes)]
}

/// Builds a tree from the tags and texts of a page.
struct TreeBuilder<'p> {
    tree: Tree<'p>,
    /// The open elements below `head` or `body`, outermost first.
    open: Vec<(Name, NodeId)>,
    /// Number of open elements beyond [`MAX_DEPTH`].
    excess: usize,
    is_in_head: bool,
}

/// The elements of a `head`.
const IN_HEAD: [Name; 9] = Name::all([
    b"title",
    b"meta",
    b"link",
    b"base",
    b"script",
    b"style",
    b"noscript",
    b"basefont",
    b"bgsound",
]);

/// The elements that end tags inside them do not close elements around.
const BARRIERS: [Name; 6] = Name::all([b"td", b"th", b"caption", b"table", b"button", b"object"]);

/// The elements whose start closes an open `p`. Further ones have names of more than eight letters.
#[rustfmt::skip]
const CLOSE_P: [Name; 36] = Name::all([
    b"p", b"div", b"ul", b"ol", b"dl", b"table", b"h1", b"h2", b"h3", b"h4", b"h5", b"h6", b"pre", b"li", b"dt", b"dd", b"hr",
    b"form", b"section", b"article", b"aside", b"nav", b"main", b"header", b"footer", b"figure", b"details", b"summary", b"fieldset",
    b"address", b"center", b"dialog", b"dir", b"hgroup", b"menu", b"search",
]);

/// The elements that the start of another one closes: the element that starts, those that it closes, and those around them
/// beyond which it closes none.
const IMPLIED_ENDS: [(&[Name], &[Name], &[Name]); 7] = [
    (
        &Name::all([b"li"]),
        &Name::all([b"li"]),
        &Name::all([b"ul", b"ol", b"menu", b"dir", b"td", b"th", b"table"]),
    ),
    (&Name::all([b"dt", b"dd"]), &Name::all([b"dt", b"dd"]), &Name::all([b"dl", b"td", b"th", b"table"])),
    (&Name::all([b"td", b"th"]), &Name::all([b"td", b"th", b"caption"]), &Name::all([b"table", b"tr"])),
    (
        &Name::all([b"tr"]),
        &Name::all([b"tr", b"caption", b"colgroup"]),
        &Name::all([b"table", b"tbody", b"thead", b"tfoot"]),
    ),
    (
        &Name::all([b"tbody", b"thead", b"tfoot", b"colgroup"]),
        &Name::all([b"tbody", b"thead", b"tfoot", b"caption", b"colgroup"]),
        &Name::all([b"table"]),
    ),
    (&Name::all([b"option", b"optgroup"]), &Name::all([b"option"]), &Name::all([b"select", b"datalist"])),
    (&Name::all([b"a"]), &Name::all([b"a"]), &Name::all([b"td", b"th", b"table", b"button", b"object"])),
];

impl<'p> TreeBuilder<'p> {
    fn new() -> TreeBuilder<'p> {
        let mut tree = Tree { nodes: Vec::with_capacity(1024), attributes: Vec::with_capacity(512) };
        let element = |name| Content::Element { name, attributes: (0, 0) };
        let html = tree.append(None, element(b"html"));
        tree.append(Some(html), element(b"head"));
        tree.append(Some(html), element(b"body"));
        TreeBuilder { tree, open: Vec::new(), excess: 0, is_in_head: true }
    }

    fn parent(&self) -> NodeId {
        let outermost = if self.is_in_head { HEAD } else { BODY };
        self.open.last().map_or(outermost, |(_, node)| *node)
    }

    fn start_tag(&mut self, spelling: &'p [u8], attributes: &TagAttributes<'p>, is_empty: bool) {
        let name = Name::new(spelling);
        match name {
            Name::HTML => return self.set_attributes(HTML, attributes),
            Name::HEAD => return self.set_attributes(HEAD, attributes),
            Name::BODY => {
                self.start_body();
                return self.set_attributes(BODY, attributes);
            }
            _ if self.is_in_head && !IN_HEAD.contains(&name) => self.start_body(),
            _ => {}
        }
        self.close_implied(name, spelling);
        let node = self.append_element(spelling, attributes);
        if is_empty || VOID.contains(&name) {
            return;
        }
        self.push(name, node);
    }

    fn start_body(&mut self) {
        if self.is_in_head {
            self.is_in_head = false;
            (self.open, self.excess) = (Vec::new(), 0);
        }
    }

    fn append_element(&mut self, name: &'p [u8], attributes: &TagAttributes<'p>) -> NodeId {
        let node = self.tree.append(Some(self.parent()), Content::Element { name, attributes: (0, 0) });
        self.set_attributes(node, attributes);
        node
    }

    /// Sets the attributes of an element that has none.
    fn set_attributes(&mut self, node: NodeId, given: &TagAttributes<'p>) {
        let Content::Element { attributes, .. } = &mut self.tree.nodes[node.index()].content else { return };
        if attributes.0 == attributes.1 {
            let start = self.tree.attributes.len();
            let all = &mut self.tree.attributes;
            given.for_each(|name, value| {
                if all.len() - start < MAX_ATTRIBUTES {
                    all.push((name, value));
                }
            });
            *attributes = (start as u32, self.tree.attributes.len() as u32);
        }
    }

    fn push(&mut self, name: Name, node: NodeId) {
        match self.open.len() < MAX_DEPTH {
            true => self.open.push((name, node)),
            false => self.excess += 1,
        }
    }

    /// Closes the elements that the start of an element closes, and opens those of a table that it implies.
    fn close_implied(&mut self, name: Name, spelling: &[u8]) {
        let is_long_block = name == Name::LONG && text::is_block(spelling);
        if CLOSE_P.contains(&name) || is_long_block {
            self.close(&[Name::P], &BARRIERS);
        }
        for (_, closed, around) in IMPLIED_ENDS.iter().filter(|(starts, ..)| starts.contains(&name)) {
            self.close(closed, around);
        }
        let is_row = name == Name::TR;
        if (is_row || name == Name::TD || name == Name::TH) && self.is_last(Name::TABLE) {
            self.open_implied(Name::TBODY, b"tbody");
        }
        if (name == Name::TD || name == Name::TH)
            && [Name::TBODY, Name::THEAD, Name::TFOOT].iter().any(|group| self.is_last(*group))
        {
            self.open_implied(Name::TR, b"tr");
        }
    }

    fn is_last(&self, name: Name) -> bool {
        self.excess == 0 && self.open.last().is_some_and(|(last, _)| *last == name)
    }

    fn open_implied(&mut self, name: Name, spelling: &'static [u8]) {
        let content = Content::Element { name: spelling, attributes: (0, 0) };
        let node = self.tree.append(Some(self.parent()), content);
        self.push(name, node);
    }

    /// Closes the innermost of these elements and all in it, unless one of the others is around it and in the way.
    fn close(&mut self, closed: &[Name], barriers: &[Name]) {
        let is_either = |(name, _): &(Name, NodeId)| closed.contains(name) || barriers.contains(name);
        if let Some(position) = self.open.iter().rposition(is_either)
            && closed.contains(&self.open[position].0)
        {
            self.open.truncate(position);
            self.excess = 0;
        }
    }

    fn end_tag(&mut self, spelling: &'p [u8]) {
        let name = Name::new(spelling);
        if name == Name::HEAD {
            return self.start_body();
        }
        if self.excess > 0 {
            self.excess -= 1;
            return;
        }
        let is_closed = |(other, node): &(Name, NodeId)| {
            *other == name && (name != Name::LONG || self.tree.name(*node).eq_ignore_ascii_case(spelling))
        };
        // The end of a part of a table also closes the cells in it.
        let is_part = [Name::TR, Name::TBODY, Name::THEAD, Name::TFOOT].contains(&name);
        let is_barrier = |(other, _): &(Name, NodeId)| match name {
            Name::TABLE => false,
            _ if is_part => *other == Name::TABLE,
            _ => BARRIERS.contains(other),
        };
        let position = self.open.iter().rposition(|element| is_closed(element) || is_barrier(element));
        if let Some(position) = position.filter(|position| is_closed(&self.open[*position])) {
            self.open.truncate(position);
        }
    }
}

impl<'p> Sink<'p> for TreeBuilder<'p> {
    const WANTS_MARKUP: bool = true;

    fn element(&mut self, _: Element, _: &Attributes<'p>) {}

    fn text(&mut self, run: &'p [u8]) {
        let is_blank = run.trim_ascii().is_empty();
        if self.is_in_head && self.open.is_empty() && !is_blank {
            self.start_body();
        }
        if !(run.is_empty() || is_blank && self.is_in_head) {
            self.tree.append(Some(self.parent()), Content::Text(run));
        }
    }

    fn markup(&mut self, markup: Markup<'p>) {
        match markup {
            Markup::Start { name, attributes, is_empty, .. } => self.start_tag(name, &attributes, is_empty),
            Markup::End(name) => self.end_tag(name),
            Markup::Raw { name, attributes, content } => {
                if self.is_in_head && !IN_HEAD.contains(&Name::new(name)) {
                    self.start_body();
                }
                let node = self.append_element(name, &attributes);
                if !content.is_empty() {
                    self.tree.append(Some(node), Content::Raw(content));
                }
            }
        }
    }

    fn is_done(&self) -> bool {
        self.tree.nodes.len() >= MAX_NODES
    }
}

#[cfg(test)]
mod tests;
