//! CSS selectors, by the crate `selectors`, on the [tree](super::tree) of a page.

use std::borrow::{Borrow, Cow};
use std::cell::Cell;
use std::fmt;

use cssparser::{ParseErrorKind, Parser as CssParser, ParserInput, ToCss};
use precomputed_hash::PrecomputedHash;
use selectors::attr::{AttrSelectorOperation, CaseSensitivity, NamespaceConstraint};
use selectors::bloom::BloomFilter;
use selectors::context::{
    MatchingContext, MatchingForInvalidation, MatchingMode, NeedsSelectorFlags, QuirksMode, SelectorCaches,
};
use selectors::matching::{ElementSelectorFlags, matches_selector_list};
use selectors::parser::{self, NonTSPseudoClass, ParseRelative, SelectorList, SelectorParseErrorKind};
use selectors::{OpaqueElement, SelectorImpl};

use super::attribute_text;
use super::tree::{Content, NodeId, Tree};

/// How many steps through the tree of a page all selectors may take: about 0.1 s. Common selectors take fewer than ten per element,
/// but `a ~ b` and `:has()` can take as many as there are elements.
const MAX_STEPS: usize = 20_000_000;

/// A CSS selector, or several that are separated by commas.
#[derive(Debug, Clone)]
pub struct Selector(SelectorList<Names>);

impl Selector {
    /// Parses a selector. The error says what is wrong, and at which character.
    pub fn parse(text: &str) -> Result<Selector, String> {
        let mut input = ParserInput::new(text);
        let mut parser = CssParser::new(&mut input);
        let parsed = SelectorList::parse(&SelectorParser, &mut parser, ParseRelative::No);
        parsed.map(Selector).map_err(|error| {
            let cause = match error.kind {
                ParseErrorKind::Basic(_) => {
                    "it is not complete, or has a character that is not allowed".into()
                }
                ParseErrorKind::Custom(cause) => cause.0,
            };
            format!("{cause}, at character {}", error.location.column)
        })
    }
}

/// Finds the elements of a page that selectors match, in bounded time.
pub struct Finder<'t, 'p> {
    tree: &'t Tree<'p>,
    /// How many steps are left. Without any, elements seem to have no relatives, so that nothing more is found.
    steps: Cell<usize>,
}

impl<'t, 'p> Finder<'t, 'p> {
    /// Finds elements of this tree.
    pub fn new(tree: &'t Tree<'p>) -> Finder<'t, 'p> {
        Finder { tree, steps: Cell::new(MAX_STEPS) }
    }

    /// The elements that a selector matches.
    pub fn find(&self, selector: &Selector) -> impl Iterator<Item = NodeId> {
        let mut caches = SelectorCaches::default();
        self.tree.nodes().filter(move |node| {
            if !matches!(self.tree.content(*node), Content::Element { .. }) || self.steps.get() == 0 {
                return false;
            }
            let mut context = MatchingContext::new(
                MatchingMode::Normal,
                None,
                &mut caches,
                QuirksMode::NoQuirks,
                NeedsSelectorFlags::No,
                MatchingForInvalidation::No,
            );
            matches_selector_list(&selector.0, &TreeElement { finder: self, node: *node }, &mut context)
        })
    }

    /// Takes steps for reading this many bytes. False if there are none left.
    fn take_steps(&self, bytes: usize) -> bool {
        self.steps.set(self.steps.get().saturating_sub(1 + bytes / 64));
        self.steps.get() > 0
    }
}

/// An element that is being matched.
#[derive(Clone, Copy)]
struct TreeElement<'f, 't, 'p> {
    finder: &'f Finder<'t, 'p>,
    node: NodeId,
}

impl fmt::Debug for TreeElement<'_, '_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TreeElement").field(&self.node).finish()
    }
}

impl<'p> TreeElement<'_, '_, 'p> {
    /// The first element among a node and those that follow it in a direction.
    fn first_element(
        &self,
        mut node: Option<NodeId>,
        next: impl Fn(NodeId) -> Option<NodeId>,
    ) -> Option<Self> {
        while let Some(found) = node.filter(|_| self.finder.take_steps(0)) {
            if let Content::Element { .. } = self.finder.tree.content(found) {
                return Some(TreeElement { node: found, ..*self });
            }
            node = next(found);
        }
        None
    }

    /// The decoded value of an attribute.
    fn attribute(&self, name: &str) -> Option<Cow<'p, str>> {
        let value = self.finder.tree.attribute(self.node, name)?;
        self.finder.take_steps(value.len()).then(|| attribute_text(value, &|| encoding_rs::UTF_8))
    }
}

impl selectors::Element for TreeElement<'_, '_, '_> {
    type Impl = Names;

    fn opaque(&self) -> OpaqueElement {
        OpaqueElement::new(self.finder.tree.address(self.node))
    }

    fn parent_element(&self) -> Option<Self> {
        let parent = self.finder.tree.parent(self.node).filter(|_| self.finder.take_steps(0))?;
        Some(TreeElement { node: parent, ..*self })
    }

    fn prev_sibling_element(&self) -> Option<Self> {
        let tree = self.finder.tree;
        self.first_element(tree.previous(self.node), |node| tree.previous(node))
    }

    fn next_sibling_element(&self) -> Option<Self> {
        let tree = self.finder.tree;
        self.first_element(tree.next(self.node), |node| tree.next(node))
    }

    fn first_element_child(&self) -> Option<Self> {
        let tree = self.finder.tree;
        self.first_element(tree.first_child(self.node), |node| tree.next(node))
    }

    fn has_local_name(&self, name: &str) -> bool {
        self.finder.tree.is(self.node, name)
    }

    fn is_same_type(&self, other: &Self) -> bool {
        self.finder.tree.name(self.node).eq_ignore_ascii_case(self.finder.tree.name(other.node))
    }

    fn attr_matches(
        &self,
        _: &NamespaceConstraint<&Text>,
        name: &Text,
        operation: &AttrSelectorOperation<&Text>,
    ) -> bool {
        self.attribute(&name.0).is_some_and(|value| operation.eval_str(&value))
    }

    fn has_id(&self, id: &Text, case: CaseSensitivity) -> bool {
        self.attribute("id").is_some_and(|value| case.eq(id.0.as_bytes(), value.as_bytes()))
    }

    fn has_class(&self, class: &Text, case: CaseSensitivity) -> bool {
        let is_class = |name: &str| case.eq(class.0.as_bytes(), name.as_bytes());
        self.attribute("class").is_some_and(|classes| classes.split_ascii_whitespace().any(is_class))
    }

    fn is_empty(&self) -> bool {
        self.finder.tree.first_child(self.node).is_none()
    }

    fn is_root(&self) -> bool {
        self.node == self.finder.tree.root()
    }

    fn is_link(&self) -> bool {
        let is_link = ["a", "area"].iter().any(|name| self.has_local_name(name));
        is_link && self.finder.tree.attribute(self.node, "href").is_some()
    }

    fn is_html_element_in_html_document(&self) -> bool {
        true
    }

    // Pages have no namespaces, shadow trees, pseudo-elements and states.
    fn has_namespace(&self, _: &str) -> bool {
        true
    }

    fn parent_node_is_shadow_root(&self) -> bool {
        false
    }

    fn containing_shadow_host(&self) -> Option<Self> {
        None
    }

    fn is_pseudo_element(&self) -> bool {
        false
    }

    fn match_non_ts_pseudo_class(&self, class: &Never, _: &mut MatchingContext<Names>) -> bool {
        match *class {}
    }

    fn match_pseudo_element(&self, element: &Never, _: &mut MatchingContext<Names>) -> bool {
        match *element {}
    }

    fn apply_selector_flags(&self, _: ElementSelectorFlags) {}

    fn is_html_slot_element(&self) -> bool {
        false
    }

    fn has_custom_state(&self, _: &Text) -> bool {
        false
    }

    fn imported_part(&self, _: &Text) -> Option<Text> {
        None
    }

    fn is_part(&self, _: &Text) -> bool {
        false
    }

    fn add_element_unique_hashes(&self, _: &mut BloomFilter) -> bool {
        false
    }
}

/// The types of names in selectors.
#[derive(Debug, Clone)]
struct Names;

impl SelectorImpl for Names {
    type ExtraMatchingData<'a> = ();
    type AttrValue = Text;
    type Identifier = Text;
    type LocalName = Text;
    type NamespaceUrl = Text;
    type NamespacePrefix = Text;
    type BorrowedNamespaceUrl = str;
    type BorrowedLocalName = str;
    type NonTSPseudoClass = Never;
    type PseudoElement = Never;
}

/// A name or value in a selector.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Text(Box<str>);

impl From<&str> for Text {
    fn from(text: &str) -> Text {
        Text(text.into())
    }
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl ToCss for Text {
    fn to_css<W: fmt::Write>(&self, dest: &mut W) -> fmt::Result {
        cssparser::serialize_identifier(&self.0, dest)
    }
}

impl PrecomputedHash for Text {
    fn precomputed_hash(&self) -> u32 {
        // Only for the Bloom filter of ancestors, which is not used.
        0
    }
}

/// A pseudo-class or pseudo-element that depends on more than the tree. There are none.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Never {}

impl ToCss for Never {
    fn to_css<W: fmt::Write>(&self, _: &mut W) -> fmt::Result {
        match *self {}
    }
}

impl NonTSPseudoClass for Never {
    type Impl = Names;

    fn is_active_or_hover(&self) -> bool {
        match *self {}
    }

    fn is_user_action_state(&self) -> bool {
        match *self {}
    }
}

impl parser::PseudoElement for Never {
    type Impl = Names;
}

struct SelectorParser;

impl<'i> parser::Parser<'i> for SelectorParser {
    type Impl = Names;
    type Error = Cause;

    fn parse_nth_child_of(&self) -> bool {
        true
    }

    fn parse_is_and_where(&self) -> bool {
        true
    }

    fn parse_has(&self) -> bool {
        true
    }

    fn allow_forgiving_selectors(&self) -> bool {
        false
    }
}

/// Why a selector cannot be parsed.
struct Cause(String);

impl From<SelectorParseErrorKind<'_>> for Cause {
    fn from(kind: SelectorParseErrorKind<'_>) -> Cause {
        use SelectorParseErrorKind as Kind;
        Cause(match kind {
            Kind::EmptySelector => "a selector is missing".into(),
            Kind::DanglingCombinator => "it starts or ends with a combinator".into(),
            Kind::UnsupportedPseudoClassOrElement(name) => format!("'{name}' is not supported"),
            Kind::UnexpectedIdent(name) | Kind::ExpectedNamespace(name) => {
                format!("'{name}' is not expected")
            }
            Kind::ClassNeedsIdent(_) => "a class name is missing after '.'".into(),
            Kind::NoIdentForPseudo(_)
            | Kind::PseudoElementExpectedColon(_)
            | Kind::PseudoElementExpectedIdent(_) => "a name is missing after ':'".into(),
            Kind::NoQualifiedNameInAttributeSelector(_)
            | Kind::UnexpectedTokenInAttributeSelector(_)
            | Kind::ExpectedBarInAttr(_)
            | Kind::BadValueInAttr(_)
            | Kind::InvalidQualNameInAttr(_) => "the part in brackets is not an attribute selector".into(),
            _ => "it is not a selector".into(),
        })
    }
}

#[cfg(test)]
mod tests;
