//! The link graph as CSV: a line for each link of each page and, on request, for each redirect.

use std::collections::HashSet;

use super::spec::Spec;
use super::{BuiltinOutput, OutputWrite, csv};
use crate::html::parts::{LinkDetail, PageParts};
use crate::page::Page;
use crate::url_record::UrlRecord;

/// Every link of every page, as CSV with one header line.
#[derive(Debug, Clone)]
pub struct Edges {
    columns: Vec<EdgeColumn>,
    /// Whether only the first of several links of a page to the same URL is written.
    distinct: bool,
    /// Whether redirects are written, too.
    redirects: bool,
    header: Vec<u8>,
}

/// A column of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EdgeColumn {
    From,
    To,
    /// The text of the link.
    Text,
    /// Its `rel` attribute.
    Rel,
    /// The element that it comes from, or `redirect`.
    Kind,
}

impl EdgeColumn {
    const ALL: [(EdgeColumn, &'static str); 5] = [
        (EdgeColumn::From, "from"),
        (EdgeColumn::To, "to"),
        (EdgeColumn::Text, "text"),
        (EdgeColumn::Rel, "rel"),
        (EdgeColumn::Kind, "kind"),
    ];

    fn name(self) -> &'static str {
        EdgeColumn::ALL.iter().find(|(column, _)| *column == self).map_or("", |(_, name)| name)
    }

    /// Parses names that are separated by commas.
    fn parse_list(names: &str) -> Result<Vec<EdgeColumn>, String> {
        let mut columns = Vec::new();
        for name in names.split(',').map(str::trim) {
            let Some((column, _)) = EdgeColumn::ALL.iter().find(|(_, known)| *known == name) else {
                let all = EdgeColumn::ALL.map(|(_, name)| name).join(", ");
                return Err(format!("there is no column '{name}'; columns are {all}"));
            };
            if columns.contains(column) {
                return Err(format!("column '{name}' is given twice"));
            }
            columns.push(*column);
        }
        Ok(columns)
    }
}

/// What the line of an edge is written from.
struct Edge<'e> {
    from: &'e str,
    to: &'e str,
    text: &'e str,
    rel: &'e str,
    kind: &'e str,
}

impl Default for Edges {
    fn default() -> Edges {
        Edges::new(vec![EdgeColumn::From, EdgeColumn::To], false, false)
    }
}

impl Edges {
    fn new(columns: Vec<EdgeColumn>, distinct: bool, redirects: bool) -> Edges {
        let mut header = Vec::new();
        csv::push_line(&mut header, columns.iter().map(|column| column.name()));
        Edges { columns, distinct, redirects, header }
    }

    /// Parses `PATH[,columns=NAME,…][,distinct][,redirects]`, and returns the path, too.
    pub(super) fn parse(arguments: &str) -> Result<(Edges, &str), String> {
        let Spec { path, options } =
            Spec::split(arguments, |key| ["columns", "distinct", "redirects"].contains(&key));
        let Edges { mut columns, mut distinct, mut redirects, .. } = Edges::default();
        for (index, (option, value)) in options.iter().enumerate() {
            if options[..index].iter().any(|(earlier, _)| earlier == option) {
                return Err(format!("'{option}' is given twice"));
            }
            match (*option, value) {
                ("columns", names) => columns = EdgeColumn::parse_list(names.unwrap_or_default())?,
                (_, Some(_)) => return Err(format!("'{option}' takes no value")),
                ("distinct", None) => distinct = true,
                _ => redirects = true,
            }
        }
        Ok((Edges::new(columns, distinct, redirects), path))
    }

    fn push_line(&self, lines: &mut Vec<u8>, edge: &Edge) {
        for (index, column) in self.columns.iter().enumerate() {
            if index > 0 {
                lines.push(b',');
            }
            match column {
                EdgeColumn::From => csv::push_field(lines, edge.from),
                EdgeColumn::To => csv::push_field(lines, edge.to),
                EdgeColumn::Text => csv::push_field(lines, &csv::safe_text(edge.text)),
                EdgeColumn::Rel => csv::push_field(lines, &csv::safe_text(edge.rel)),
                EdgeColumn::Kind => csv::push_field(lines, edge.kind),
            }
        }
        lines.push(b'\n');
    }
}

impl BuiltinOutput for Edges {
    fn name(&self) -> &str {
        "edges"
    }

    fn format(&self) -> String {
        let mut format = String::from("edges");
        let names: Vec<&str> = self.columns.iter().map(|column| column.name()).collect();
        if names != ["from", "to"] {
            format += &format!(",columns={}", names.join(","));
        }
        for (is_set, option) in [(self.distinct, ",distinct"), (self.redirects, ",redirects")] {
            format += if is_set { option } else { "" };
        }
        format
    }

    fn header(&self) -> &[u8] {
        &self.header
    }

    fn wants(&self) -> PageParts {
        let is_detail =
            |column: &EdgeColumn| matches!(column, EdgeColumn::Text | EdgeColumn::Rel | EdgeColumn::Kind);
        PageParts { link_details: self.columns.iter().any(is_detail), ..PageParts::default() }
    }

    fn wants_urls(&self) -> bool {
        self.redirects
    }

    fn wants_found_on(&self) -> bool {
        false
    }

    fn render(&self, page: &Page) -> OutputWrite {
        let from = page.url.as_str();
        let size = page.links.iter().map(|to| from.len() + to.len() + 2).sum();
        let (mut lines, mut seen) = (Vec::with_capacity(size), HashSet::new());
        for (index, to) in page.links.iter().enumerate() {
            // Each page is in the output once, so no other page has an edge from this URL.
            if self.distinct && !seen.insert(to) {
                continue;
            }
            let edge = match page.link_details.get(index) {
                Some(LinkDetail { kind, rel, text, .. }) => Edge { from, to, text, rel, kind: kind.name() },
                None => Edge { from, to, text: "", rel: "", kind: "" },
            };
            self.push_line(&mut lines, &edge);
        }
        OutputWrite::Append(lines)
    }

    fn render_url(&self, record: &UrlRecord) -> Vec<u8> {
        let mut line = Vec::new();
        if let Some(to) = record.redirect_target().filter(|_| record.kind() == "page") {
            self.push_line(&mut line, &Edge { from: record.url(), to, text: "", rel: "", kind: "redirect" });
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::LinkKind;
    use crate::modules::example;

    fn lines(edges: &Edges, page: &Page) -> String {
        let OutputWrite::Append(lines) = edges.render(page) else { panic!("edges appends") };
        String::from_utf8(lines).unwrap()
    }

    fn written(url: &str, links: &[&str]) -> String {
        lines(&Edges::default(), &example::page(url, b"", links))
    }

    fn parsed(arguments: &str) -> Edges {
        Edges::parse(arguments).unwrap().0
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

    #[test]
    fn distinct_edges_are_the_first_links_to_each_url() {
        let mut page =
            example::page("http://a.test/", b"", &["http://b.test/", "http://a.test/", "http://b.test/"]);
        let detail =
            |kind, text: &str| LinkDetail { kind, rel: "next".into(), text: text.into(), fragment: None };
        page.link_details = vec![
            detail(LinkKind::Anchor, "one, \"two\""),
            detail(LinkKind::NofollowArea, ""),
            detail(LinkKind::Frame, "=1+1"),
        ];
        let all = parsed("x,columns=kind,text,to,rel");
        assert_eq!(all.header(), b"kind,text,to,rel\n");
        assert_eq!(
            lines(&all, &page),
            "a,\"one, \"\"two\"\"\",http://b.test/,next\narea,,http://a.test/,next\nframe,'=1+1,http://b.test/,next\n"
        );
        assert_eq!(
            lines(&parsed("x,distinct,columns=to,kind"), &page),
            "http://b.test/,a\nhttp://a.test/,area\n"
        );
        assert!(all.wants().link_details && !parsed("x,distinct").wants().link_details);
        assert!(parsed("x,redirects").wants_urls() && !all.wants_urls());
    }

    #[test]
    fn arguments_are_parsed_and_the_format_gives_the_same_output() {
        for (arguments, path, format) in [
            ("edges.csv", "edges.csv", "edges"),
            ("a,b.csv,columns=from,to", "a,b.csv", "edges"),
            (
                "x,redirects,columns=to,from,text,distinct",
                "x",
                "edges,columns=to,from,text,distinct,redirects",
            ),
        ] {
            let (edges, found) = Edges::parse(arguments).unwrap();
            assert_eq!((found, edges.format().as_str()), (path, format));
            let again = parsed(&edges.format().replacen("edges", "y", 1));
            assert_eq!((again.format(), again.header()), (edges.format(), edges.header()));
        }
        for (arguments, error) in [
            ("x,columns=from,where", "there is no column 'where'; columns are from, to, text, rel, kind"),
            ("x,columns=", "there is no column ''; columns are from, to, text, rel, kind"),
            ("x,columns=to,to", "column 'to' is given twice"),
            ("x,distinct,distinct", "'distinct' is given twice"),
            ("x,distinct=yes", "'distinct' takes no value"),
        ] {
            assert_eq!(Edges::parse(arguments).unwrap_err(), error);
        }
    }
}
