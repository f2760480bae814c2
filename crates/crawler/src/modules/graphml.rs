//! The link graph as GraphML, which Gephi, networkx, igraph and yEd read.
//!
//! Each URL is a node, whose id is the URL: those of the crawl, with what is known of them, and those that are only linked to. Each
//! pair of a page and a URL that it links to is an edge, whose weight is the number of links; each redirect is an edge, too.

mod nodes;

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use self::nodes::NodeSet;
use super::output::finish::{Finisher, Records, push_record};
use super::output::new_file::NewFile;
use super::xml::Escaped;
use super::{BuiltinOutput, OutputWrite};
use crate::error::StorageError;
use crate::outcome::Outcome;
use crate::page::Page;
use crate::url_record::UrlRecord;

/// The most nodes that are kept in memory while the file is made, as 17 bytes each in a table that is at most 7/8 full: 71 MB. The
/// records of a larger graph are read twice more for each further part of its nodes.
const MAX_NODES: usize = (1 << 22) / 8 * 7;

/// The start of the file, with the attributes of nodes and edges. Gephi expects the weight as `double`.
const START: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="outcome" for="node" attr.name="outcome" attr.type="string"/>
<key id="status" for="node" attr.name="status" attr.type="int"/>
<key id="depth" for="node" attr.name="depth" attr.type="int"/>
<key id="title" for="node" attr.name="title" attr.type="string"/>
<key id="kind" for="edge" attr.name="kind" attr.type="string"/>
<key id="weight" for="edge" attr.name="weight" attr.type="double"/>
<graph edgedefault="directed">
"#;

const END: &str = "</graph>\n</graphml>\n";

/// The link graph of the crawl.
#[derive(Debug, Clone, Copy)]
pub struct GraphMl {
    max_nodes: usize,
}

impl Default for GraphMl {
    fn default() -> GraphMl {
        GraphMl { max_nodes: MAX_NODES }
    }
}

/// A URL of the crawl, and its edges.
#[derive(Debug, Serialize, Deserialize)]
struct UrlNode<'r> {
    url: &'r str,
    outcome: &'r str,
    status: Option<u16>,
    depth: u32,
    /// Empty if it has none.
    title: &'r str,
    /// The targets of its links, or of its redirect, with the number of links.
    #[serde(borrow)]
    edges: Vec<(&'r str, u32)>,
    is_redirect: bool,
}

impl UrlNode<'_> {
    fn record(&self) -> Vec<u8> {
        let record = postcard::to_stdvec(self).expect("texts and numbers are always encoded");
        let mut bytes = Vec::with_capacity(record.len() + 8);
        push_record(&mut bytes, &record);
        bytes
    }

    /// Calls a function with each node of the records.
    fn for_each(
        records: &Records,
        mut each: impl FnMut(&UrlNode) -> Result<(), StorageError>,
    ) -> Result<(), StorageError> {
        let (mut reader, mut record) = (records.read()?, Vec::new());
        while reader.next(&mut record)? {
            each(&postcard::from_bytes(&record).map_err(|_| records.damaged())?)?;
        }
        Ok(())
    }

    fn write_node(&self, file: &mut impl Write) -> io::Result<()> {
        write!(file, "<node id=\"{}\">", Escaped(self.url))?;
        write!(file, "<data key=\"outcome\">{}</data>", Escaped(self.outcome))?;
        if let Some(status) = self.status {
            write!(file, "<data key=\"status\">{status}</data>")?;
        }
        write!(file, "<data key=\"depth\">{}</data>", self.depth)?;
        if !self.title.is_empty() {
            write!(file, "<data key=\"title\">{}</data>", Escaped(self.title))?;
        }
        writeln!(file, "</node>")
    }

    fn write_edges(&self, file: &mut impl Write) -> io::Result<()> {
        let kind = if self.is_redirect { "redirect" } else { "link" };
        for (target, weight) in &self.edges {
            writeln!(
                file,
                "<edge source=\"{}\" target=\"{}\"><data key=\"kind\">{kind}</data><data key=\"weight\">{weight}</data></edge>",
                Escaped(self.url),
                Escaped(target)
            )?;
        }
        Ok(())
    }
}

impl BuiltinOutput for GraphMl {
    fn name(&self) -> &str {
        "graphml"
    }

    fn finisher(&self) -> Option<&dyn Finisher> {
        Some(self)
    }

    fn wants_urls(&self) -> bool {
        true
    }

    fn wants_found_on(&self) -> bool {
        false
    }

    fn render(&self, page: &Page) -> OutputWrite {
        let node = UrlNode {
            url: page.url.as_str(),
            outcome: &Outcome::Page.label(),
            status: Some(page.status),
            depth: page.depth,
            title: &page.title,
            edges: counted(page.links.iter()),
            is_redirect: false,
        };
        OutputWrite::Append(node.record())
    }

    fn render_url(&self, record: &UrlRecord) -> Vec<u8> {
        // The page has its node, and a sitemap is no part of the graph.
        if record.outcome == Outcome::Page || record.kind() != "page" {
            return Vec::new();
        }
        let target = record.redirect_target();
        let node = UrlNode {
            url: record.url(),
            outcome: &record.outcome.label(),
            status: record.request.status,
            depth: record.depth,
            title: "",
            edges: target.into_iter().map(|target| (target, 1)).collect(),
            is_redirect: target.is_some(),
        };
        node.record()
    }
}

/// Distinct URLs in the order of their first occurrence, with the number of occurrences.
fn counted<'u>(urls: impl Iterator<Item = &'u str>) -> Vec<(&'u str, u32)> {
    let mut counts: Vec<(&str, u32)> = Vec::new();
    let mut positions = HashMap::new();
    for url in urls {
        let position = *positions.entry(url).or_insert(counts.len());
        match counts.get_mut(position) {
            Some((_, count)) => *count += 1,
            None => counts.push((url, 1)),
        }
    }
    counts
}

impl Finisher for GraphMl {
    fn finish(&self, records: &Records, target: &Path) -> Result<(), StorageError> {
        let mut file = NewFile::create(target)?;
        let write_text = |file: &mut NewFile, text: &str| {
            file.write_all(text.as_bytes()).map_err(|error| file.error(error))
        };
        write_text(&mut file, START)?;
        let mut nodes = NodeSet::new(self.max_nodes);
        while nodes.start_next_part() {
            UrlNode::for_each(records, |node| {
                nodes.add_crawled(node.url);
                node.edges.iter().for_each(|(target, _)| nodes.add_target(target));
                Ok(())
            })?;
            UrlNode::for_each(records, |node| {
                if nodes.take_crawled(node.url) {
                    node.write_node(&mut file).map_err(|error| file.error(error))?;
                }
                for (target, _) in node.edges.iter().filter(|(target, _)| nodes.take_target(target)) {
                    writeln!(file, "<node id=\"{}\"/>", Escaped(target))
                        .map_err(|error| file.error(error))?;
                }
                Ok(())
            })?;
        }
        UrlNode::for_each(records, |node| node.write_edges(&mut file).map_err(|error| file.error(error)))?;
        write_text(&mut file, END)?;
        file.finish()
    }
}

#[cfg(test)]
mod tests;
