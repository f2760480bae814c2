//! The hosts and directories of a crawl.

use crate::format::counted;
use crate::report::content::ReportContent;
use crate::report::document::{Block, Section};

/// The structure as a picture and as a tree.
pub fn section(content: &ReportContent) -> Option<Section<'_>> {
    let structure = &content.urls.structure;
    if structure.urls == 0 || structure.children.is_empty() {
        return None;
    }
    let mut section = Section::new("structure", "Structure");
    section.say(format!(
        "Hosts and their directories. The width is the share of the {}; red is what failed.",
        counted(structure.urls, "URL")
    ));
    section.blocks.push(Block::Structure(structure));
    Some(section)
}
