//! The link graph as CSV: a line `from,to` for each link of each page, duplicates included.

use super::csv::push_field;
use super::{Output, OutputWrite};
use crate::page::Page;

/// Every link of every page, as CSV with one header line.
#[derive(Debug, Clone, Copy, Default)]
pub struct Edges;

impl Output for Edges {
    fn name(&self) -> &str {
        "edges"
    }

    fn wants_found_on(&self) -> bool {
        false
    }

    fn header(&self) -> &[u8] {
        b"from,to\n"
    }

    fn render(&self, page: &Page) -> OutputWrite {
        let mut from = Vec::new();
        push_field(&mut from, page.url.as_str());
        let size = page.links.iter().map(|to| from.len() + to.len() + 2).sum();
        let mut lines = Vec::with_capacity(size);
        for to in page.links.iter() {
            lines.extend_from_slice(&from);
            lines.push(b',');
            push_field(&mut lines, to);
            lines.push(b'\n');
        }
        OutputWrite::Append(lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules::example;

    fn written(url: &str, links: &[&str]) -> String {
        let OutputWrite::Append(lines) = Edges.render(&example::page(url, b"", links)) else {
            panic!("edges appends")
        };
        String::from_utf8(lines).unwrap()
    }

    #[test]
    fn every_link_is_a_line_including_duplicates() {
        assert_eq!(
            written("http://a.test/", &["http://b.test/", "http://b.test/", "http://a.test/"]),
            "http://a.test/,http://b.test/\nhttp://a.test/,http://b.test/\nhttp://a.test/,http://a.test/\n"
        );
        assert_eq!(written("http://a.test/", &[]), "");
    }

    #[test]
    fn fields_are_quoted_only_where_needed() {
        assert_eq!(
            written("http://a.test/?x=1,2", &["http://b.test/'é", "a\"b", "a\r\nb", ""]),
            "\"http://a.test/?x=1,2\",http://b.test/'é\n\
             \"http://a.test/?x=1,2\",\"a\"\"b\"\n\
             \"http://a.test/?x=1,2\",\"a\r\nb\"\n\
             \"http://a.test/?x=1,2\",\n"
        );
    }
}
