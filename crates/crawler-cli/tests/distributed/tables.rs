//! Tables and graphs of distributed crawls: the workers write records, and `crawler collect` makes the files.

use std::collections::BTreeSet;
use std::fs::{self, File};

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;

use super::fixture::Fixture;

#[test]
#[ignore = "needs redis-server: run by make test"]
fn collected_tables_have_every_page_once_after_a_worker_was_killed() {
    let fixture = Fixture::slow(12, 15);
    let modules = ["--module", "parquet=table.parquet", "--module", "graphml=graph.graphml"];
    let options =
        ["--module", "edges=edges.csv,columns=from,to,kind,distinct,redirects", "--dead-after", "3s"];
    let controller = fixture.start_crawl(3, &[&modules[..], &options].concat());
    fixture.kill("worker 1");
    controller.wait_for_success();
    fixture.check();

    let path = |name: &str| fixture.directory.path().join(name);
    assert!(!path("table.parquet").exists());
    assert!(path("table.0.parquet.records").exists() && path("graph.0.graphml.records").exists());
    let pages = fixture.pages();
    for output in ["table.parquet", "graph.graphml", "edges.csv"] {
        let printed = fixture.run(&["collect", "--of", output]);
        assert!(printed.starts_with("merged ") && printed.contains(" from 3 part files"), "{printed}");
    }
    let table = SerializedFileReader::new(File::open(path("table.parquet")).unwrap()).unwrap();
    let rows = table.get_row_iter(None).unwrap().map(Result::unwrap);
    let urls: Vec<String> = rows.map(|row| row.get_string(0).unwrap().clone()).collect();
    assert_eq!(urls.len(), pages.len(), "each page is there once");
    assert_eq!(urls.into_iter().collect::<BTreeSet<_>>(), pages);

    let graph = fs::read_to_string(path("graph.graphml")).unwrap();
    assert_eq!(graph.matches("<data key=\"outcome\">page</data>").count(), pages.len());
    let edges = fs::read_to_string(path("edges.csv")).unwrap();
    let edges: BTreeSet<&str> = edges.lines().skip(1).collect();
    assert!(edges.iter().any(|edge| edge.ends_with(",redirect")), "{edges:?}");
    assert_eq!(graph.matches("<edge ").count(), edges.len());
    let left_over: Vec<_> = fs::read_dir(fixture.directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("unfinished") || name == "table.parquet.records")
        .collect();
    assert!(left_over.is_empty(), "{left_over:?}");
}
