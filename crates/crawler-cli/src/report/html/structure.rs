//! Draws the hosts and directories of a crawl: an icicle picture, and a tree that can be opened.

use std::fmt::Write as _;

use crawler::internal::modules::markup::escaped;

use super::shortened;
use crate::format::{counted, number};
use crate::report::content::StructureNode;

/// The height of a level, in pixels.
const LEVEL: usize = 28;

/// How many levels are drawn.
const MAX_LEVELS: usize = 7;

/// How many levels the tree has. Deeper ones are counted in their parents.
const MAX_TREE_LEVELS: usize = 12;

/// Narrower directories are not drawn, in per cent of the width.
const MIN_WIDTH: f64 = 0.3;

/// Narrower directories have no name, in per cent of the width.
const MIN_NAMED_WIDTH: f64 = 3.5;

/// Up to this many URLs below it, a directory is open at first.
const OPEN_LEVELS: usize = 2;

/// A tree has at most this many lines at first.
const MAX_OPEN_LINES: usize = 30;

pub fn write(html: &mut String, root: &StructureNode) {
    let mut picture = Picture::default();
    picture.children(root, 0.0, 100.0, 0);
    let _ = write!(
        html,
        r#"<figure class="icicle"><svg role="img" width="100%" height="{}"><title>Structure of the site</title><desc>{}</desc>"#,
        picture.levels * LEVEL,
        escaped(&format!("{}; the list below has the numbers", described(root)))
    );
    *html += &picture.boxes;
    *html += "</svg></figure>\n<ul class=\"tree\">";
    tree(html, root, 0);
    *html += "</ul>\n";
}

fn described(node: &StructureNode) -> String {
    let failed = if node.failed > 0 { format!(", {} failed", number(node.failed)) } else { String::new() };
    format!("{}, {}{failed}", counted(node.urls, "URL"), counted(node.pages, "page"))
}

/// The boxes of an icicle picture.
#[derive(Default)]
struct Picture {
    boxes: String,
    /// How many levels have a box.
    levels: usize,
}

impl Picture {
    /// Draws the children of a node in this part of the width. Those that are too narrow are one box.
    fn children(&mut self, node: &StructureNode, from: f64, width: f64, level: usize) {
        if level >= MAX_LEVELS || node.urls == 0 {
            return;
        }
        let listed: u64 = node.children.iter().map(|child| child.urls).sum();
        // The URLs of the node itself take the rest of the width.
        let all = node.urls.max(listed.saturating_add(node.omitted.1)).max(1) as f64;
        let (mut from, mut drawn, mut others) = (from, 0, Others::new(node.omitted));
        for child in &node.children {
            let part = width * child.urls as f64 / all;
            if part < MIN_WIDTH {
                others.add(child);
                continue;
            }
            drawn += 1;
            self.draw(&shortened(&child.name), &described(child), failed_part(child), (from, part), level);
            self.children(child, from, part, level + 1);
            from += part;
        }
        let part = width * others.urls as f64 / all;
        if part >= MIN_WIDTH {
            let more = if drawn > 0 { "more " } else { "" };
            let what = if level == 0 { format!("{more}host") } else { format!("{more}directory") };
            let what = match (others.count, level) {
                (1, _) | (_, 0) => counted(others.count, &what),
                _ => format!("{} {more}directories", number(others.count)),
            };
            let and = if drawn > 0 { "and " } else { "" };
            self.draw(&format!("{and}{what}"), &counted(others.urls, "URL"), 0.0, (from, part), level);
        }
    }

    /// Draws a box with a part of its width marked as failed, in per cent.
    fn draw(&mut self, name: &str, title: &str, failed: f64, (from, width): (f64, f64), level: usize) {
        self.levels = self.levels.max(level + 1);
        let name = escaped(name);
        let _ = write!(
            self.boxes,
            r#"<svg x="{from:.3}%" y="{}" width="{width:.3}%" height="{LEVEL}"><title>{name}: {title}</title><rect class="level l{}" width="100%" height="100%"/>"#,
            level * LEVEL,
            level.min(5)
        );
        if failed > 0.0 {
            let y = LEVEL - 5;
            let _ = write!(self.boxes, r#"<rect class="failed" y="{y}" width="{failed:.2}%" height="4"/>"#);
        }
        if width >= MIN_NAMED_WIDTH {
            let _ = write!(self.boxes, r#"<text x="7" y="17">{name}</text>"#);
        }
        self.boxes += "</svg>";
    }
}

/// The children of a node that have no box of their own.
struct Others {
    count: u64,
    urls: u64,
}

impl Others {
    fn new((count, urls): (u64, u64)) -> Others {
        Others { count, urls }
    }

    fn add(&mut self, child: &StructureNode) {
        self.count += 1;
        self.urls = self.urls.saturating_add(child.urls);
    }
}

/// How many of the URLs of a node failed, in per cent.
fn failed_part(node: &StructureNode) -> f64 {
    100.0 * node.failed.min(node.urls) as f64 / node.urls.max(1) as f64
}

fn tree(html: &mut String, node: &StructureNode, level: usize) {
    let folded = node.children.len().checked_sub(MAX_OPEN_LINES).filter(|folded| *folded > 1);
    for (index, child) in node.children.iter().enumerate() {
        if index == MAX_OPEN_LINES
            && let Some(folded) = folded
        {
            let more = number(folded as u64);
            let _ = write!(html, "<li><details><summary class=\"count\">{more} more</summary><ul>");
        }
        branch(html, child, level);
    }
    let (count, urls) = node.omitted;
    if count > 0 {
        let _ = write!(
            html,
            r#"<li><p class="count">… and {} more with {}</p></li>"#,
            number(count),
            counted(urls, "URL")
        );
    }
    if folded.is_some() {
        *html += "</ul></details></li>\n";
    }
}

/// A host or directory of the tree with what is below it.
fn branch(html: &mut String, node: &StructureNode, level: usize) {
    let line = format!(
        r#"<span class="name">{}</span> <span class="count">{}</span>"#,
        escaped(&shortened(&node.name)),
        described(node)
    );
    if node.children.is_empty() || level >= MAX_TREE_LEVELS {
        let _ = write!(html, "<li><p>{line}</p></li>");
        return;
    }
    let open = if level + 1 < OPEN_LEVELS { " open" } else { "" };
    let _ = write!(html, "<li><details{open}><summary>{line}</summary><ul>");
    tree(html, node, level + 1);
    *html += "</ul></details></li>\n";
}
