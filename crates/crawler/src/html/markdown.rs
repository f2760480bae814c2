//! Converts the main content of a page to Markdown: CommonMark with tables and strikethrough, as GitHub has them.
//!
//! The time is linear in the size of the page, and the result bounded, for any page: the [tree](super::tree) is not deep, nested
//! lists and quotes are indented up to a limit, and a result that is too long is truncated between two blocks.

mod inline;

use url::Url;

use self::inline::InlineMode;
use super::text;
use super::tree::{Content, NodeId, Tree, max_result_bytes};

/// The maximum indentation of nested lists and quotes, in bytes.
const MAX_INDENT: usize = 64;

/// The maximum length of a class attribute in which the language of a block of code is looked for. Each block of a page can be
/// inside of the same element.
const MAX_CLASS_BYTES: usize = 512;

/// Elements that are no content, wherever they are.
const NOT_CONTENT: [&str; 17] = [
    "script", "style", "template", "nav", "button", "input", "select", "textarea", "iframe", "object",
    "embed", "svg", "canvas", "audio", "video", "dialog", "frameset",
];

/// Elements that are no content unless they are inside the main content.
const AROUND_CONTENT: [&str; 3] = ["header", "footer", "aside"];

/// The main content of an HTML page in UTF-8 as Markdown. Links and images have absolute URLs.
pub fn main_content(page: &[u8], url: &Url) -> String {
    let tree = Tree::parse(page);
    let main = main_element(&tree);
    let convert = |root: NodeId, skips: Skips| {
        let mut writer = Writer::new(&tree, url, skips, max_result_bytes(page.len()));
        writer.flow(root);
        writer.out
    };
    match main {
        Some(main) => convert(main, Skips::Inside),
        None => {
            let content = convert(tree.body(), Skips::Around);
            if content.is_empty() { convert(tree.body(), Skips::Nothing) } else { content }
        }
    }
}

/// A text as a block of code.
pub fn code_block(text: &str) -> String {
    fenced(text.trim_end(), "") + "\n"
}

/// A block of code between fences, which are longer than any in it.
fn fenced(code: &str, language: &str) -> String {
    let fence = "`".repeat(inline::longest_run(code, '`').max(2) + 1);
    format!("{fence}{language}\n{code}\n{fence}")
}

/// The element that a page declares as its main content: `main`, one with that role, or its only `article`.
fn main_element(tree: &Tree) -> Option<NodeId> {
    let has_role =
        |node: &NodeId| tree.attribute(*node, "role").is_some_and(|role| role.eq_ignore_ascii_case(b"main"));
    let mut articles = tree.nodes().filter(|node| tree.is(*node, "article"));
    let article = articles.next().filter(|_| articles.next().is_none());
    let main = tree.nodes().find(|node| tree.is(*node, "main") && !tree.is_hidden(*node));
    main.or_else(|| tree.nodes().find(has_role)).or(article)
}

/// Which elements are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Skips {
    /// Those that are no content, and those around it.
    Around,
    /// Those that are no content inside the main content.
    Inside,
    /// Only what is never visible.
    Nothing,
}

/// What separates two blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Separator {
    Nothing,
    Line,
    EmptyLine,
}

struct Writer<'t, 'p> {
    tree: &'t Tree<'p>,
    base: Url,
    skips: Skips,
    /// Whether each node contains a block.
    has_block: Vec<bool>,
    out: String,
    max_bytes: usize,
    /// The start of each line: the indentation of lists, the marks of quotes.
    prefix: String,
    /// The start of the next line, if it is the first of a list item or quote.
    first_prefix: Option<String>,
    /// The length of the prefix around those items and quotes.
    outer_length: usize,
    separator: Separator,
    /// Whether no empty lines separate the blocks of the current list.
    is_tight: bool,
}

impl<'t, 'p> Writer<'t, 'p> {
    fn new(tree: &'t Tree<'p>, url: &Url, skips: Skips, max_bytes: usize) -> Writer<'t, 'p> {
        let mut has_block = vec![false; tree.nodes().len()];
        // Children come after their parents.
        for node in tree.nodes().rev() {
            if let Some(parent) = tree.parent(node) {
                has_block[parent.index()] |= has_block[node.index()] || text::is_block(tree.name(node));
            }
        }
        Writer {
            tree,
            base: tree.base_url(url),
            skips,
            has_block,
            out: String::new(),
            max_bytes,
            prefix: String::new(),
            first_prefix: None,
            outer_length: 0,
            separator: Separator::Nothing,
            is_tight: false,
        }
    }

    fn is_skipped(&self, node: NodeId) -> bool {
        let is_one_of = |names: &[&str]| names.iter().any(|name| self.tree.is(node, name));
        let has_role = |roles: &[&[u8]]| {
            let role = self.tree.attribute(node, "role").unwrap_or_default();
            roles.iter().any(|other| role.eq_ignore_ascii_case(other))
        };
        match self.skips {
            Skips::Nothing => is_one_of(&["script", "style", "template"]),
            _ if self.tree.is_hidden(node) => true,
            Skips::Inside => is_one_of(&NOT_CONTENT) || has_role(&[b"navigation", b"search"]),
            Skips::Around => {
                is_one_of(&NOT_CONTENT)
                    || is_one_of(&AROUND_CONTENT)
                    || has_role(&[b"navigation", b"search", b"banner", b"contentinfo", b"complementary"])
            }
        }
    }

    fn children(&self, node: NodeId) -> Vec<NodeId> {
        std::iter::successors(self.tree.first_child(node), |child| self.tree.next(*child)).collect()
    }

    fn is_full(&self) -> bool {
        self.out.len() >= self.max_bytes
    }

    /// Whether a node is a block, or contains one that is to be one.
    fn is_block(&self, node: NodeId) -> bool {
        let name = self.tree.name(node);
        match name.to_ascii_lowercase().as_slice() {
            b"br" => false,
            b"a" => false,
            _ => text::is_block(name) || self.has_block[node.index()],
        }
    }

    /// Writes the content of an element: blocks as such, and what is between them as paragraphs.
    fn flow(&mut self, node: NodeId) {
        let mut run = Vec::new();
        for child in self.children(node) {
            if self.is_full() {
                return;
            }
            if self.is_skipped(child) {
                continue;
            }
            if self.is_block(child) {
                self.paragraph(&std::mem::take(&mut run));
                self.block(child);
            } else {
                run.push(child);
            }
        }
        self.paragraph(&run);
    }

    fn block(&mut self, node: NodeId) {
        match self.tree.name(node).to_ascii_lowercase().as_slice() {
            heading @ [b'h', level @ b'1'..=b'6'] if heading.len() == 2 => {
                let text = self.inline_of(&self.children(node), InlineMode::Line);
                if !text.is_empty() {
                    self.write_block(&format!("{} {text}", "#".repeat(usize::from(level - b'0'))));
                }
            }
            b"ul" | b"ol" | b"menu" | b"dir" | b"dl" => self.list(node),
            b"li" | b"dd" => self.item(node, "- "),
            b"blockquote" => self.indented("> ", "> ", |writer| writer.flow(node)),
            b"pre" | b"listing" => self.code_block(node),
            b"table" => self.table(node),
            b"hr" => self.write_block("---"),
            b"dt" | b"summary" | b"caption" | b"legend" => self.paragraph(&self.children(node)),
            _ => self.flow(node),
        }
    }

    fn paragraph(&mut self, nodes: &[NodeId]) {
        let text = self.inline_of(nodes, InlineMode::Paragraph);
        if !text.is_empty() {
            self.write_block(&inline::escape_line_starts(&text));
        }
    }

    fn list(&mut self, list: NodeId) {
        let items = self.children(list);
        let is_ordered = self.tree.is(list, "ol");
        let start = self
            .tree
            .attribute(list, "start")
            .and_then(|start| std::str::from_utf8(start).ok()?.parse().ok());
        let mut number: u32 = start.unwrap_or(1).min(999_999_999);
        let is_tight = !self.tree.is(list, "dl") && self.is_tight_list(&items);
        let was_tight = std::mem::replace(&mut self.is_tight, is_tight);
        if was_tight && self.separator == Separator::EmptyLine {
            self.separator = Separator::Line;
        }
        for item in items {
            if self.is_full()
                || !matches!(self.tree.content(item), Content::Element { .. })
                || self.is_skipped(item)
            {
                continue;
            }
            let marker = if is_ordered { format!("{number}. ") } else { "- ".to_owned() };
            match self.tree.is(item, "dd") {
                // The description belongs to the term before it.
                true => self.indented("  ", "  ", |writer| writer.flow(item)),
                false => self.item(item, &marker),
            }
            number = number.saturating_add(1);
        }
        self.is_tight = was_tight;
        if self.separator == Separator::Line && !was_tight {
            self.separator = Separator::EmptyLine;
        }
    }

    /// Whether no item of a list has more than one paragraph, apart from lists.
    fn is_tight_list(&self, items: &[NodeId]) -> bool {
        items.iter().all(|item| {
            let children = self.children(*item);
            let blocks: Vec<NodeId> = children.into_iter().filter(|child| self.is_block(*child)).collect();
            let is = |node: NodeId, names: &[&str]| names.iter().any(|name| self.tree.is(node, name));
            let paragraphs = blocks.iter().filter(|block| is(**block, &["p"])).count();
            let lists = blocks.iter().filter(|block| is(**block, &["ul", "ol"])).count();
            paragraphs <= 1 && paragraphs + lists == blocks.len()
        })
    }

    fn item(&mut self, item: NodeId, marker: &str) {
        let indent = " ".repeat(marker.len());
        let is_term = self.tree.is(item, "dt");
        self.indented(marker, &indent, |writer| match is_term {
            true => writer.paragraph(&writer.children(item)),
            false => writer.flow(item),
        });
        if self.is_tight && self.separator == Separator::EmptyLine {
            self.separator = Separator::Line;
        }
    }

    /// Writes blocks whose first line starts with `first`, and whose further lines start with `rest`.
    fn indented(&mut self, first: &str, rest: &str, write: impl FnOnce(&mut Self)) {
        if self.prefix.len() + rest.len() > MAX_INDENT {
            return write(self);
        }
        let length = self.prefix.len();
        let before = self.first_prefix.take();
        if before.is_none() {
            self.outer_length = length;
        }
        self.first_prefix = Some(format!("{}{first}", before.as_deref().unwrap_or(&self.prefix)));
        self.prefix.push_str(rest);
        write(self);
        self.prefix.truncate(length);
        // Nothing was written: the line is still the first of the item around it.
        self.first_prefix = self.first_prefix.take().and(before);
    }

    fn code_block(&mut self, node: NodeId) {
        let code = self.code_text(node);
        let code = code.strip_prefix('\n').unwrap_or(&code).trim_end();
        if !code.trim().is_empty() {
            self.write_block(&fenced(code, &self.language(node)));
        }
    }

    fn code_text(&self, node: NodeId) -> String {
        let mut code = String::new();
        let mut next = self.tree.first_child(node);
        let subtree_end = self.tree.after(node);
        while let Some(now) = next.filter(|now| Some(*now) != subtree_end && code.len() < self.max_bytes) {
            match self.tree.content(now) {
                Content::Text(run) => {
                    code.push_str(&text::decode(run).replace("\r\n", "\n").replace('\r', "\n"))
                }
                Content::Element { .. } if self.tree.is(now, "br") => code.push('\n'),
                _ => {}
            }
            next = self.tree.first_child(now).or_else(|| self.tree.after(now));
        }
        code
    }

    /// The language of a `pre`, by the class that highlighters use.
    fn language(&self, pre: NodeId) -> String {
        let code = self.children(pre).into_iter().find(|child| self.tree.is(*child, "code"));
        let around = std::iter::successors(self.tree.parent(pre), |node| self.tree.parent(*node)).take(2);
        let of = |node: NodeId| {
            let classes =
                self.tree.attribute(node, "class").filter(|classes| classes.len() <= MAX_CLASS_BYTES)?;
            let classes = String::from_utf8_lossy(classes);
            let named = |class: &str| {
                let language = ["language-", "lang-", "highlight-source-", "highlight-"]
                    .iter()
                    .find_map(|prefix| class.strip_prefix(prefix))?;
                let is_name = language.len() <= 20
                    && language.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-#".contains(&byte));
                (is_name && !["default", "none", "text"].contains(&language)).then(|| language.to_owned())
            };
            classes.split_ascii_whitespace().find_map(named)
        };
        code.into_iter().chain([pre]).chain(around).find_map(of).unwrap_or_default()
    }

    fn table(&mut self, table: NodeId) {
        let rows = self.rows(table);
        let columns = rows.iter().map(|row| row.len()).max().unwrap_or(0);
        let is_layout = columns < 2
            || rows.iter().flatten().any(|cell| {
                let mut next = self.tree.first_child(*cell);
                let end = self.tree.after(*cell);
                std::iter::from_fn(|| {
                    let now = next.filter(|now| Some(*now) != end)?;
                    next = self.tree.first_child(now).or_else(|| self.tree.after(now));
                    Some(now)
                })
                .any(|node| self.tree.is(node, "table") || self.tree.is(node, "pre"))
            });
        if is_layout {
            return self.flow(table);
        }
        for caption in self.children(table).into_iter().filter(|child| self.tree.is(*child, "caption")) {
            self.paragraph(&self.children(caption));
        }
        let cells = |writer: &Self, row: &[NodeId]| {
            let mut line = String::from("|");
            for cell in row {
                line.push_str(&format!(" {} |", writer.inline_of(&writer.children(*cell), InlineMode::Cell)));
            }
            line
        };
        let (header, body) = match rows.split_first() {
            Some((first, rest)) if first.iter().all(|cell| self.tree.is(*cell, "th")) => (Some(first), rest),
            _ => (None, &rows[..]),
        };
        let missing = columns - header.map_or(0, |header| header.len());
        let header = header.map_or("|".to_owned(), |header| cells(self, header)) + &"  |".repeat(missing);
        let mut lines = format!("{header}\n|{}", " --- |".repeat(columns));
        for row in body {
            if self.out.len() + lines.len() > self.max_bytes {
                break;
            }
            lines.push('\n');
            lines.push_str(&cells(self, row));
        }
        self.write_block(&lines);
    }

    /// The cells of a table by rows, without those of tables in it.
    fn rows(&self, table: NodeId) -> Vec<Vec<NodeId>> {
        let is = |node: NodeId, names: &[&str]| names.iter().any(|name| self.tree.is(node, name));
        let groups =
            self.children(table).into_iter().filter(|group| is(*group, &["tbody", "thead", "tfoot"]));
        let rows = groups.flat_map(|group| self.children(group)).filter(|row| is(*row, &["tr"]));
        rows.map(|row| self.children(row).into_iter().filter(|cell| is(*cell, &["td", "th"])).collect())
            .filter(|row: &Vec<NodeId>| !row.is_empty())
            .collect()
    }

    /// Writes the lines of a block, after what separates it from the block before.
    fn write_block(&mut self, lines: &str) {
        if self.separator == Separator::EmptyLine {
            let length = if self.first_prefix.is_some() { self.outer_length } else { self.prefix.len() };
            self.out.push_str(self.prefix[..length].trim_end());
            self.out.push('\n');
        }
        for line in lines.split('\n') {
            let start = self.out.len();
            match self.first_prefix.take() {
                Some(prefix) => self.out.push_str(&prefix),
                None => self.out.push_str(&self.prefix),
            }
            self.out.push_str(line);
            let length = start + self.out[start..].trim_end().len();
            self.out.truncate(length);
            self.out.push('\n');
        }
        self.separator = if self.is_tight { Separator::Line } else { Separator::EmptyLine };
    }
}

#[cfg(test)]
mod tests;
