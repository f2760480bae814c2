//! The parts of a paragraph, heading or table cell: text, emphasis, code, links and images.

use std::fmt::Write;

use super::Writer;
use crate::html::tree::{Content, NodeId};
use crate::html::{MAX_TARGET_BYTES, attribute_text, text};

/// Where inline content is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InlineMode {
    /// Line breaks are kept.
    Paragraph,
    /// Everything is on one line.
    Line,
    /// Everything is on one line, with `<br>` for line breaks, and `|` escaped.
    Cell,
}

/// What is around inline content. Each mark is used once: nested marks of one kind mean nothing more.
#[derive(Debug, Clone, Copy, Default)]
struct Marks {
    bold: bool,
    italic: bool,
    struck: bool,
    link: bool,
}

/// Inline content while it is collected.
#[derive(Debug)]
struct Inline {
    text: String,
    mode: InlineMode,
    /// Whether white space came after the text.
    has_space: bool,
    /// Whether a line break came after the text.
    has_break: bool,
    /// The mark that the text ends with.
    last_mark: Option<&'static str>,
}

impl Inline {
    fn new(mode: InlineMode) -> Inline {
        Inline { text: String::new(), mode, has_space: false, has_break: false, last_mark: None }
    }

    /// Appends Markdown that is one word.
    fn push(&mut self, markdown: &str) {
        if markdown.is_empty() {
            return;
        }
        if !self.text.is_empty() {
            match (self.has_break, self.mode) {
                (true, InlineMode::Paragraph) => self.text.push_str("\\\n"),
                (true, InlineMode::Cell) => self.text.push_str("<br>"),
                (true, InlineMode::Line) => self.text.push(' '),
                (false, _) if self.has_space => self.text.push(' '),
                (false, _) => {}
            }
        }
        (self.has_space, self.has_break, self.last_mark) = (false, false, None);
        self.append(markdown);
    }

    /// Appends Markdown between marks. Equal marks without white space between them are one.
    fn push_marked(&mut self, mark: &'static str, markdown: &str) {
        if markdown.is_empty() {
            return;
        }
        if self.last_mark == Some(mark) && !self.has_space && !self.has_break {
            self.text.truncate(self.text.len() - mark.len());
            self.append(markdown);
            self.text.push_str(mark);
        } else {
            self.push(&format!("{mark}{markdown}{mark}"));
        }
        self.last_mark = Some(mark);
    }

    /// Appends Markdown so that it does not change what is before it.
    fn append(&mut self, markdown: &str) {
        if self.text.ends_with('!') && markdown.starts_with('[') {
            self.text.insert(self.text.len() - 1, '\\');
        }
        if self.text.ends_with('`') && markdown.starts_with('`') {
            self.text.push(' ');
        }
        self.text.push_str(markdown);
    }

    fn push_text(&mut self, text: &str) {
        let is_start_blank = text.starts_with(char::is_whitespace);
        let mut words = text.split_whitespace().enumerate().peekable();
        while let Some((index, word)) = words.next() {
            self.has_space |= index > 0 || is_start_blank;
            let is_end_known = words.peek().is_some() || text.ends_with(char::is_whitespace);
            self.push(&escape(word, is_end_known, self.mode));
        }
        self.has_space |= text.ends_with(char::is_whitespace);
    }
}

impl Writer<'_, '_> {
    /// The Markdown of inline nodes, without white space around it.
    pub(super) fn inline_of(&self, nodes: &[NodeId], mode: InlineMode) -> String {
        let mut inline = Inline::new(mode);
        for node in nodes {
            self.inline(*node, &mut inline, Marks::default());
        }
        inline.text
    }

    fn inline(&self, node: NodeId, inline: &mut Inline, marks: Marks) {
        let name = match self.tree.content(node) {
            Content::Text(run) => return inline.push_text(&text::decode(run)),
            Content::Raw(_) => return,
            Content::Element { name, .. } => name,
        };
        if self.is_skipped(node) || self.out.len() + inline.text.len() > self.max_bytes {
            return;
        }
        match name.to_ascii_lowercase().as_slice() {
            b"br" => inline.has_break = true,
            b"b" | b"strong" if !marks.bold => self.marked(node, inline, "**", Marks { bold: true, ..marks }),
            b"i" | b"em" | b"cite" | b"dfn" | b"var" if !marks.italic => {
                self.marked(node, inline, "*", Marks { italic: true, ..marks });
            }
            b"del" | b"s" | b"strike" if !marks.struck => {
                self.marked(node, inline, "~~", Marks { struck: true, ..marks })
            }
            b"code" | b"kbd" | b"samp" | b"tt" => inline.push(&self.code(node, inline.mode)),
            b"a" if !marks.link => self.link(node, inline, marks),
            b"img" => self.image(node, inline),
            _ => {
                // A block inside of a line is separated from the text around it.
                let is_block = text::is_block(name);
                inline.has_break |= is_block && inline.mode == InlineMode::Cell;
                inline.has_space |= is_block;
                self.inline_children(node, inline, marks);
                inline.has_break |= is_block && inline.mode == InlineMode::Cell;
                inline.has_space |= is_block;
            }
        }
    }

    fn inline_children(&self, node: NodeId, inline: &mut Inline, marks: Marks) {
        for child in self.children(node) {
            self.inline(child, inline, marks);
        }
    }

    /// The content of an element on its own, with the white space and line breaks around it left to `inline`.
    fn content(&self, node: NodeId, inline: &mut Inline, marks: Marks) -> Inline {
        let mut content = Inline::new(inline.mode);
        // White space at the start is that of the first text.
        if let Some(Content::Text(run)) = self.tree.first_child(node).map(|child| self.tree.content(child)) {
            inline.has_space |= run.first().is_some_and(u8::is_ascii_whitespace);
        }
        self.inline_children(node, &mut content, marks);
        content
    }

    fn marked(&self, node: NodeId, inline: &mut Inline, mark: &'static str, marks: Marks) {
        let content = self.content(node, inline, marks);
        inline.push_marked(mark, &content.text);
        inline.has_space |= content.has_space;
        inline.has_break |= content.has_break;
    }

    fn code(&self, node: NodeId, mode: InlineMode) -> String {
        let code = self.tree.text(node, self.max_bytes);
        let code = code.split_whitespace().collect::<Vec<_>>().join(" ");
        let code = if mode == InlineMode::Cell { code.replace('|', "\\|") } else { code };
        if code.is_empty() {
            return code;
        }
        let fence = "`".repeat(longest_run(&code, '`') + 1);
        let space = if code.starts_with('`') || code.ends_with('`') { " " } else { "" };
        format!("{fence}{space}{code}{space}{fence}")
    }

    fn link(&self, node: NodeId, inline: &mut Inline, marks: Marks) {
        let content = self.content(node, inline, Marks { link: true, ..marks });
        // Documentation tools put such a link to each heading.
        let is_permalink = ["¶", "\\#", "§", "#", "🔗"].contains(&content.text.as_str());
        if !is_permalink && !content.text.is_empty() {
            match self.tree.attribute(node, "href").and_then(|href| self.destination(href)) {
                Some(url) => inline.push(&format!("[{}]({url})", content.text)),
                None => inline.push(&content.text),
            }
        }
        inline.has_space |= content.has_space;
        inline.has_break |= content.has_break;
    }

    fn image(&self, node: NodeId, inline: &mut Inline) {
        let alt = self.tree.attribute(node, "alt").map(text::one_line).unwrap_or_default();
        let alt = escape(&alt, false, inline.mode);
        match self.tree.attribute(node, "src").and_then(|src| self.destination(src)) {
            Some(url) => inline.push(&format!("![{alt}]({url})")),
            None => inline.push(&alt),
        }
    }

    /// A URL as the destination of a link: absolute, and of a kind that can be followed.
    fn destination(&self, raw: &[u8]) -> Option<String> {
        if raw.len() > MAX_TARGET_BYTES {
            return None;
        }
        let url = self.base.join(attribute_text(raw, &|| encoding_rs::UTF_8).trim()).ok()?;
        if !["http", "https", "mailto", "ftp"].contains(&url.scheme()) {
            return None;
        }
        let mut destination = String::with_capacity(url.as_str().len());
        for c in url.as_str().chars() {
            match c {
                // URLs may contain these, in the query or after `mailto:`.
                '<' | '>' | ' ' | '`' | '|' | '\\' => {
                    let _ = write!(destination, "%{:02X}", u32::from(c));
                }
                _ => destination.push(c),
            }
        }
        // Parentheses would have to be balanced.
        Some(if destination.contains(['(', ')']) { format!("<{destination}>") } else { destination })
    }
}

/// The length of the longest run of a character.
pub(super) fn longest_run(text: &str, character: char) -> usize {
    let (mut longest, mut run) = (0, 0);
    for c in text.chars() {
        run = if c == character { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}

/// Escapes the characters of a text that mean something in Markdown. If it is not known that white space comes after the text, more
/// text may follow, and the last character is escaped if it means something together with that.
fn escape(text: &str, is_end_known: bool, mode: InlineMode) -> String {
    let mut escaped = String::with_capacity(text.len() + 8);
    let mut before = ' ';
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let next = rest.peek().copied().unwrap_or(' ');
        let is_markup = match c {
            '<' | '&' if !is_end_known && rest.peek().is_none() => true,
            '\\' | '`' | '*' | '[' | ']' => true,
            '_' | '~' => !(before.is_alphanumeric() && next.is_alphanumeric()),
            '<' => next.is_ascii_alphabetic() || "/!?".contains(next),
            '&' => next.is_ascii_alphanumeric() || next == '#',
            '|' => mode == InlineMode::Cell,
            _ => false,
        };
        if is_markup {
            escaped.push('\\');
        }
        escaped.push(c);
        before = c;
    }
    escaped
}

/// Escapes what would make a line of a paragraph a heading, a quote, a list item, a rule or a code block.
pub(super) fn escape_line_starts(paragraph: &str) -> String {
    let escape_line = |line: &str| {
        let digits = line.bytes().take_while(u8::is_ascii_digit).count();
        let first = line.as_bytes().first().copied().unwrap_or(b' ');
        let second = line.as_bytes().get(1).copied().unwrap_or(b' ');
        let is_marker = match first {
            b'#' | b'>' | b'=' | b'~' => true,
            b'+' | b'-' => second == b' ' || second == first,
            _ => false,
        };
        match line.as_bytes().get(digits) {
            _ if is_marker => format!("\\{line}"),
            Some(b'.' | b')')
                if digits > 0 && matches!(line.as_bytes().get(digits + 1), None | Some(b' ')) =>
            {
                format!("{}\\{}", &line[..digits], &line[digits..])
            }
            _ => line.to_owned(),
        }
    };
    paragraph.split('\n').map(escape_line).collect::<Vec<_>>().join("\n")
}
