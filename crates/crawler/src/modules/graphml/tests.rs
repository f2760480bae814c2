use std::collections::BTreeMap;
use std::fs;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use super::*;
use crate::modules::output::files::{OutputFiles, Start};
use crate::modules::{OutputSpec, Target, example};

/// The nodes and edges of a file: names with attributes.
type Graph =
    (BTreeMap<String, BTreeMap<String, String>>, BTreeMap<(String, String), BTreeMap<String, String>>);

fn attribute(element: &BytesStart, name: &str) -> String {
    let attribute = element.try_get_attribute(name).unwrap().unwrap();
    attribute.normalized_value(quick_xml::XmlVersion::Implicit1_0).unwrap().into_owned()
}

/// Reads a file, and checks that no node and no edge is there twice.
fn read(xml: &str) -> Graph {
    let (mut nodes, mut edges) = (BTreeMap::new(), BTreeMap::new());
    let mut reader = Reader::from_str(xml);
    reader.config_mut().expand_empty_elements = true;
    let (mut node, mut edge, mut key) = (None, None, String::new());
    loop {
        match reader.read_event().unwrap() {
            Event::Start(start) => match start.name().as_ref() {
                "node" => {
                    let id = attribute(&start, "id");
                    assert!(nodes.insert(id.clone(), BTreeMap::new()).is_none(), "{id} is there twice");
                    (node, edge) = (Some(id), None);
                }
                "edge" => {
                    let ends = (attribute(&start, "source"), attribute(&start, "target"));
                    assert!(edges.insert(ends.clone(), BTreeMap::new()).is_none(), "{ends:?} is there twice");
                    (node, edge) = (None, Some(ends));
                }
                "data" => key = attribute(&start, "key"),
                _ => {}
            },
            Event::Text(text) if !key.is_empty() => {
                let data = match (&node, &edge) {
                    (Some(node), _) => nodes.get_mut(node).unwrap(),
                    (_, Some(edge)) => edges.get_mut(edge).unwrap(),
                    _ => continue,
                };
                data.entry(key.clone()).or_insert_with(String::new).push_str(&text.xml10_content());
            }
            Event::End(end) if end.name().as_ref() == "data" => key.clear(),
            Event::Eof => return (nodes, edges),
            _ => {}
        }
    }
}

/// The graph of these writes, made with room for this many nodes.
fn graph(max_nodes: usize, writes: &[Vec<u8>]) -> Graph {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("graph");
    let specs =
        [OutputSpec { output: Box::new(GraphMl { max_nodes }), target: Target::File(target.clone()) }];
    let mut files = OutputFiles::open(&specs, Start::Fresh).unwrap();
    for (id, bytes) in (1..).zip(writes) {
        files.apply(id, Some(id), &[(0, OutputWrite::Append(bytes.clone()))]).unwrap();
    }
    files.flush().unwrap();
    specs[0].finish().unwrap();
    read(&fs::read_to_string(&target).unwrap())
}

fn page(url: &str, title: &str, links: &[&str]) -> Vec<u8> {
    let mut page = example::page(url, b"", links);
    page.title = title.into();
    let OutputWrite::Append(bytes) = GraphMl::default().render(&page) else { panic!("graphml appends") };
    bytes
}

fn url(task_url: &str, outcome: Outcome, status: u16) -> Vec<u8> {
    GraphMl::default().render_url(&example::url_record(task_url, outcome, status))
}

fn data(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn graph_has_each_url_once_and_each_pair_of_linked_urls_once() {
    let (a, b, old, gone) =
        ("http://a.test/", "http://b.test/?x=1&y=2", "http://a.test/old", "http://a.test/gone");
    let writes = [
        page(a, "First", &[b, a, b, gone, b]),
        url(old, Outcome::Redirect { to: b.into() }, 301),
        page("http://a.test/2", "", &[a, "http://elsewhere.test/"]),
        url(gone, Outcome::HttpStatus { code: 404, retry_after: None }, 404),
        url("http://a.test/sitemap.xml#sitemap", Outcome::Sitemap { urls: 1 }, 200),
    ];
    for max_nodes in [1, 2, 100] {
        let (nodes, edges) = graph(max_nodes, &writes);
        assert_eq!(nodes.len(), 6, "{nodes:?}");
        assert_eq!(
            nodes[a],
            data(&[("outcome", "page"), ("status", "200"), ("depth", "2"), ("title", "First")])
        );
        assert_eq!(nodes[old], data(&[("outcome", "redirect"), ("status", "301"), ("depth", "1")]));
        assert_eq!(nodes[gone], data(&[("outcome", "HTTP 404"), ("status", "404"), ("depth", "1")]));
        assert_eq!(nodes[b], data(&[]), "it was not crawled");
        assert_eq!(edges.len(), 6, "{edges:?}");
        let edge = |from: &str, to: &str| &edges[&(from.to_owned(), to.to_owned())];
        assert_eq!(edge(a, b), &data(&[("kind", "link"), ("weight", "3")]));
        assert_eq!(edge(old, b), &data(&[("kind", "redirect"), ("weight", "1")]));
        assert!(edges.keys().all(|(from, to)| nodes.contains_key(from) && nodes.contains_key(to)));
    }
}

#[test]
fn node_has_what_the_last_request_of_its_url_showed() {
    let (a, b) = ("http://a.test/", "http://b.test/");
    let failed = || url(b, Outcome::HttpStatus { code: 503, retry_after: None }, 503);
    for max_nodes in [1, 100] {
        let (nodes, edges) =
            graph(max_nodes, &[page(a, "", &[b]), failed(), failed(), page(b, "Back", &[a])]);
        assert_eq!((nodes.len(), edges.len()), (2, 2), "{nodes:?}");
        assert_eq!(nodes[b]["outcome"], "page");
        assert_eq!(nodes[b]["title"], "Back");
    }
}

#[test]
fn any_text_gives_valid_xml() {
    let title: String =
        (0..0x3000).filter_map(char::from_u32).chain(['\u{fffe}', '\u{ffff}', '😀']).collect();
    let strange = "http://a.test/\"<&>'\u{1}\u{ffff}";
    let (nodes, edges) = graph(100, &[page("http://a.test/", &title, &[strange, "]]>"])]);
    assert_eq!((nodes.len(), edges.len()), (3, 2));
    assert!(nodes.contains_key("http://a.test/\"<&>'\u{fffd}\u{fffd}"), "{:?}", nodes.keys());
    let (nodes, edges) = graph(100, &[]);
    assert_eq!((nodes.len(), edges.len()), (0, 0));
}
