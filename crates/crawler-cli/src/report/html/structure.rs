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

pub fn write(html: &mut String, root: &StructureNode) {
    let levels = depth(root).min(MAX_LEVELS);
    let height = levels * LEVEL;
    let _ = write!(
        html,
        r#"<figure class="icicle"><svg role="img" width="100%" height="{height}"><title>Structure of the site</title><desc>{}</desc>"#,
        escaped(&format!("{}; the list below has the numbers", described(root)))
    );
    children(html, root, 0.0, 100.0, 0);
    *html += "</svg></figure>\n<ul class=\"tree\">";
    tree(html, root, 0);
    *html += "</ul>\n";
}

/// The number of levels below a node.
fn depth(node: &StructureNode) -> usize {
    1 + node.children.iter().map(depth).max().unwrap_or(0) - usize::from(node.name.is_empty())
}

fn described(node: &StructureNode) -> String {
    let failed = if node.failed > 0 { format!(", {} failed", number(node.failed)) } else { String::new() };
    format!("{}, {}{failed}", counted(node.urls, "URL"), counted(node.pages, "page"))
}

/// Draws the children of a node in this part of the width.
fn children(html: &mut String, node: &StructureNode, from: f64, width: f64, level: usize) {
    if level >= MAX_LEVELS || node.urls == 0 {
        return;
    }
    let listed: u64 = node.children.iter().map(|child| child.urls).sum();
    // The URLs of the node itself take the rest of the width.
    let all = node.urls.max(listed.saturating_add(node.omitted.1)).max(1) as f64;
    let mut from = from;
    for child in &node.children {
        let part = width * child.urls as f64 / all;
        if part >= MIN_WIDTH {
            draw(html, child, from, part, level);
            children(html, child, from, part, level + 1);
        }
        from += part;
    }
}

fn draw(html: &mut String, node: &StructureNode, from: f64, width: f64, level: usize) {
    let name = escaped(&shortened(&node.name));
    let _ = write!(
        html,
        r#"<svg x="{from:.3}%" y="{}" width="{width:.3}%" height="{LEVEL}"><title>{name}: {}</title><rect class="level l{}" width="100%" height="100%"/>"#,
        level * LEVEL,
        described(node),
        level.min(5)
    );
    if node.failed > 0 {
        let failed = 100.0 * node.failed.min(node.urls) as f64 / node.urls.max(1) as f64;
        let _ = write!(html, r#"<rect class="failed" y="{}" width="{failed:.2}%" height="4"/>"#, LEVEL - 5);
    }
    if width >= MIN_NAMED_WIDTH {
        let _ = write!(html, r#"<text x="7" y="17">{name}</text>"#);
    }
    *html += "</svg>";
}

fn tree(html: &mut String, node: &StructureNode, level: usize) {
    for child in &node.children {
        let line = format!(
            r#"<span class="name">{}</span> <span class="count">{}</span>"#,
            escaped(&shortened(&child.name)),
            described(child)
        );
        if child.children.is_empty() || level >= MAX_TREE_LEVELS {
            let _ = write!(html, "<li><p>{line}</p></li>");
            continue;
        }
        let open = if level + 1 < OPEN_LEVELS { " open" } else { "" };
        let _ = write!(html, "<li><details{open}><summary>{line}</summary><ul>");
        tree(html, child, level + 1);
        *html += "</ul></details></li>\n";
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
}
