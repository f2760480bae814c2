//! Tables and graphs: `parquet`, `edges` and `graphml`, read back by the programs that people use for them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use testweb::{Site, Web};

use crate::common::{binary, linking_to, names, run, serve};
use crate::pipeline::{Pipeline, objects_in, urls};

/// A page with links of every kind, a redirect, a missing page, and a title with characters that formats must escape.
fn small_site() -> Site {
    let page = "<title>A &lt;b&gt; &quot;c&quot; &amp;#0; \u{1}\u{9b}\u{ffff} é</title>\
        <a href=/two rel='nofollow next'>  second\n page, \"two\" </a><a href=/two>=again</a>\
        <map><area href=/three></map><iframe src=/two></iframe><a href=/old>old</a><a href='/gone?a=1&amp;b=2'>gone</a>\
        <a href=http://other.test/>other</a>";
    Site::new()
        .page("/", page)
        .page("/two", linking_to(&["/"]))
        .page("/three", "<p>three")
        .redirect_with(301, "/old", "/two")
}

fn crawl(web: &Web) -> Pipeline {
    Pipeline::of(web.url("/")).with("--similarity 0 --scope host --workers 1")
}

fn lines(path: &Path, web: &Web) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap().replace(&web.url(""), "");
    text.lines().map(str::to_owned).collect()
}

#[test]
fn edges_have_the_chosen_columns_and_redirects_on_request() {
    let (web, directory) = (serve(small_site()), tempfile::tempdir().unwrap());
    let path = |name: &str| directory.path().join(name);
    let with_options = |name: &str, options: &str| path(&format!("{name},{options}"));
    crawl(&web)
        .module("edges", &path("plain"))
        .module("edges", &with_options("all", "columns=from,kind,to,rel,text"))
        .module("edges", &with_options("distinct", "distinct"))
        .module("edges", &with_options("redirects", "columns=from,to,kind,redirects,distinct"))
        .run()
        .expect(0);
    let plain = lines(&path("plain"), &web);
    let of_root = ["/two", "/two", "/three", "/two", "/old", "/gone?a=1&b=2", "http://other.test/"];
    assert_eq!(
        plain[..8],
        ["from,to".to_owned()].into_iter().chain(of_root.map(|to| format!("/,{to}"))).collect::<Vec<_>>()
    );
    assert_eq!(plain.len(), 9, "{plain:?}");
    let all = lines(&path("all"), &web);
    assert_eq!(all[0], "from,kind,to,rel,text");
    assert_eq!(all[1], "/,a,/two,nofollow next,\"second page, \"\"two\"\"\"");
    assert_eq!(all[2..5], ["/,a,/two,,'=again", "/,area,/three,,", "/,frame,/two,,"]);
    let distinct: BTreeSet<String> = plain.iter().cloned().collect();
    assert_eq!(lines(&path("distinct"), &web).len(), distinct.len());
    assert_eq!(lines(&path("distinct"), &web).into_iter().collect::<BTreeSet<_>>(), distinct);
    let redirects = lines(&path("redirects"), &web);
    assert_eq!(redirects.len(), distinct.len() + 1, "{redirects:?}");
    assert!(redirects.contains(&"/old,/two,redirect".to_owned()), "{redirects:?}");
}

#[test]
fn tables_are_made_when_the_crawl_ends_and_refuse_existing_files() {
    let (web, directory) = (serve(Site::seeded(5, 30)), tempfile::tempdir().unwrap());
    let path = |name: &str| directory.path().join(name);
    let tables = |crawl: Pipeline| {
        crawl.module("parquet", &path("pages.parquet")).module("graphml", &path("graph.graphml"))
    };
    tables(crawl(&web)).run().expect(0);
    let mut found = names(directory.path());
    found.sort();
    assert_eq!(found, ["graph.graphml", "pages.parquet"], "the records of a crawl in memory are removed");
    let table = fs::read(path("pages.parquet")).unwrap();
    assert!(table.starts_with(b"PAR1") && table.ends_with(b"PAR1"));
    let graph = fs::read_to_string(path("graph.graphml")).unwrap();
    assert!(graph.starts_with("<?xml ") && graph.ends_with("</graphml>\n"), "{graph}");
    let requests = web.hits();
    let refused = tables(crawl(&web)).run().expect(2).stderr;
    assert!(
        refused.contains("pages.parquet': it already has") && refused.contains("(--overwrite)"),
        "{refused}"
    );
    assert_eq!(web.hits(), requests);
    tables(crawl(&web).with("--overwrite --max-pages 3")).run().expect(0);
    assert!(fs::read(path("pages.parquet")).unwrap().len() < table.len());

    let resumed = |pages: u32| {
        let state = crawl(&web)
            .with(&format!("--max-pages {pages} --state"))
            .with_one(path("state").display().to_string());
        state.module("parquet", &path("durable")).module("graphml", &path("durable.graphml")).run().expect(0);
        let graph = fs::read_to_string(path("durable.graphml")).unwrap();
        (
            fs::metadata(path("durable")).unwrap().len(),
            graph.matches("<data key=\"outcome\">page</data>").count(),
        )
    };
    let (few, many) = (resumed(3), resumed(9));
    assert!(few.0 < many.0);
    assert_eq!((few.1, many.1), (3, 9));
    assert!(path("durable.records").is_file());
    let state = || crawl(&web).with("--state").with_one(path("state").display().to_string());
    let other = state();
    let refused = other.module("parquet", &path("durable,fields=url")).run().expect(2).stderr;
    assert!(refused.contains("would be written by parquet,fields=url now"), "{refused}");
    state().module("graphml", &path("durable.graphml")).run().expect(0);
    assert!(path("durable").is_file() && !path("durable.records").exists(), "the table was removed");
    assert!(path("durable.graphml.records").is_file());
}

#[test]
fn table_that_does_not_fit_on_the_disk_is_made_later_from_its_records() {
    let links: String = (0..400).map(|n| format!("<a href=http://other.test/{n}>x</a>")).collect();
    let pages = (0..10).fold(Site::new().page("/", linking_to(&["/0"])), |site, n| {
        site.page(&format!("/{n}"), format!("<a href=/{}>next</a>{links}", n + 1))
    });
    let (web, directory) = (serve(pages), tempfile::tempdir().unwrap());
    let path = |name: &str| directory.path().join(name);
    // The records have 100 kB, the graph 700 kB.
    let full =
        crawl(&web).module("graphml", &path("graph")).in_shell("ulimit -f 400; exec \"$@\"").run().expect(3);
    let error = "graph': File too large (os error 27); its pages are kept in '";
    assert!(full.stderr.contains(error) && full.stderr.contains("('crawler collect')"), "{}", full.stderr);
    assert_eq!(names(directory.path()), ["graph.records"]);
    let requests = web.hits();
    let of = path("graph").display().to_string();
    let made = run(&["collect", "--of", &of]).expect(0);
    assert_eq!(made.stdout, format!("made {of} from its records\n"));
    let graph = fs::read_to_string(path("graph")).unwrap();
    assert_eq!(graph.matches("<edge ").count(), 10 * 401 + 1);
    assert!(run(&["collect", "--of", &of]).expect(2).stderr.contains("already has"), "it is not overwritten");
    assert_eq!(web.hits(), requests);

    // The records themselves do not fit.
    let full =
        crawl(&web).module("parquet", &path("t")).in_shell("ulimit -f 16; exec \"$@\"").run().expect(3);
    let remedy = "it has the pages so far; to use them, make the output from it ('crawler collect --of')";
    assert!(full.stderr.contains("t.records': File too large"), "{}", full.stderr);
    assert!(full.stderr.contains(remedy), "{}", full.stderr);
    assert!(!path("t").exists());
    let refused = crawl(&web).module("parquet", &path("t")).run();
    let refused = refused.expect(2).stderr;
    assert!(refused.contains("t.records': it already has"), "{refused}");
    assert!(refused.contains("make the output from it, name another file"), "{refused}");
    assert!(refused.contains("overwrite it ('crawler collect --of', --overwrite)"), "{refused}");
    crawl(&web).with("--overwrite").module("parquet", &path("t")).run().expect(0);
    assert!(path("t").is_file() && !path("t.records").exists());
}

#[test]
fn table_of_a_finished_crawl_is_made_by_resuming_it() {
    let (web, directory) = (serve(Site::seeded(5, 20)), tempfile::tempdir().unwrap());
    let path = |name: &str| directory.path().join(name);
    let state = path("state").display().to_string();
    fs::create_dir(path(".t.unfinished")).unwrap();
    let failed = crawl(&web).with("--state").with_one(&state).module("parquet", &path("t")).run().expect(3);
    assert!(
        failed.stderr.contains("/t': ") && failed.stderr.contains("t.records', to make it later"),
        "{}",
        failed.stderr
    );
    fs::remove_dir(path(".t.unfinished")).unwrap();
    let requests = web.hits();
    let ended = binary().args(["resume", &state]).output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    assert!(fs::read(path("t")).unwrap().ends_with(b"PAR1"));
    assert_eq!(web.hits(), requests, "nothing was fetched again");
}

#[test]
fn bad_arguments_are_refused_before_the_first_request() {
    let web = serve(Site::new().page("/", "x"));
    for (module, words) in [
        ("parquet", "cannot use module 'parquet': it needs a file"),
        ("parquet=-", "cannot use module 'parquet': it needs a file"),
        ("parquet=-,fields=url", "cannot use module 'parquet': it needs a file"),
        ("parquet=x,fields=colour", "there is no field 'colour'; fields are url, "),
        ("graphml=-", "cannot use module 'graphml': it needs a file"),
        ("graphml=/nowhere/x", "/nowhere/x.records': No such file"),
        ("graphml=/", "'/': it is not a regular file"),
        ("edges=x,columns=from,where", "there is no column 'where'; columns are from, to, text, rel, kind"),
        ("edges=x,distinct=yes", "'distinct' takes no value"),
    ] {
        let refused = crawl(&web).with("--module").with_one(module).run().expect(2).stderr;
        assert!(refused.contains(words), "{module}: {refused}");
    }
    assert_eq!(web.hits(), 0);
}

/// Runs a program in the Python that has the packages, with these arguments.
fn python(program: &str, arguments: &[&Path]) {
    let interpreter = std::env::var("CRAWLER_TEST_PYTHON").unwrap_or_else(|_| "python3".into());
    let output = Command::new(interpreter).args(["-c", program]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The table and the JSON lines have the same values: as pyarrow reads the table, and as DuckDB does.
const COMPARE_TABLES: &str = r#"
import datetime, json, sys
import duckdb, pyarrow.parquet, pyarrow.types as types

lines = [json.loads(line) for line in open(sys.argv[2], encoding="utf-8")]
table = pyarrow.parquet.read_table(sys.argv[1])
kinds = {field.name: field.type for field in table.schema}
assert list(kinds) == list(lines[0]), (kinds, lines[0])
assert str(kinds["fetched"]) == "timestamp[ms, tz=UTC]", kinds
assert types.is_int64(kinds["status"]) and types.is_boolean(kinds["truncated"]) and types.is_string(kinds["text"])
assert types.is_list(kinds["links"]) and types.is_list(kinds["headers"]) and types.is_struct(kinds["timing"])

def comparable(value):
    if isinstance(value, datetime.datetime):
        value = value.astimezone(datetime.timezone.utc)
        return value.strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03}Z"
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [[pair["name"], pair["value"]] for pair in value]
    return value

for rows in [table.to_pylist(), duckdb.sql(f"select * from '{sys.argv[1]}'").to_arrow_table().to_pylist()]:
    rows = [{name: comparable(value) for name, value in row.items()} for row in rows]
    assert len(rows) == len(lines)
    for row, line in zip(rows, lines):
        assert row == line, (row, line)
[(pages, links)] = duckdb.sql(f"select count(*), sum(len(links)) from '{sys.argv[1]}'").fetchall()
assert (pages, links) == (len(lines), sum(len(line["links"]) for line in lines))
"#;

#[test]
#[ignore = "needs the Python packages pyarrow and duckdb: run by make test"]
fn pyarrow_and_duckdb_read_the_same_values_as_json() {
    let (web, directory) = (serve(Site::seeded(5, 60)), tempfile::tempdir().unwrap());
    for (number, site) in [serve(small_site()), web].iter().enumerate() {
        let path = |name: &str| directory.path().join(format!("{number}.{name}"));
        let fields = "url,depth,status,title,language,canonical,content_type,bytes,truncated,fetched,lastmod,robots,links,referrer,redirects,timing,headers,text";
        let with_fields = |name: &str| directory.path().join(format!("{number}.{name},fields={fields}"));
        crawl(site)
            .module("parquet", &with_fields("parquet"))
            .module("jsonl", &with_fields("lines"))
            .run()
            .expect(0);
        assert!(!urls(&objects_in(&path("lines"))).is_empty());
        python(COMPARE_TABLES, &[&path("parquet"), &path("lines")]);
    }
}

/// The graph has the edges of the CSV file, and the attributes of pages.
const COMPARE_GRAPHS: &str = r#"
import csv, json, sys
import xml.etree.ElementTree
import networkx

xml.etree.ElementTree.parse(sys.argv[1])
graph = networkx.read_graphml(sys.argv[1])
assert type(graph) is networkx.DiGraph, type(graph)
edges = list(csv.DictReader(open(sys.argv[2], encoding="utf-8")))
assert set(graph.edges) == {(edge["from"], edge["to"]) for edge in edges}
for edge in edges:
    data = graph.edges[edge["from"], edge["to"]]
    same = [other for other in edges if (other["from"], other["to"]) == (edge["from"], edge["to"])]
    assert data["weight"] == len(same), (edge, data)
    assert data["kind"] == ("redirect" if edge["kind"] == "redirect" else "link"), (edge, data)
pages = [json.loads(line) for line in open(sys.argv[3], encoding="utf-8")]
for page in pages:
    data = graph.nodes[page["url"]]
    assert (data["outcome"], data["status"], data["depth"]) == ("page", page["status"], page["depth"]), data
    title = "".join("\ufffd" if (ord(c) < 32 and c not in "\t\n\r") or c in "\ufffe\uffff" else c for c in page["title"])
    assert data.get("title", "") == title, (data, page)
assert sum(data.get("outcome") == "page" for _, data in graph.nodes(data=True)) == len(pages)
statuses = {data.get("status") for _, data in graph.nodes(data=True)}
assert 404 in statuses, statuses
assert networkx.shortest_path_length(graph, pages[0]["url"])
"#;

#[test]
#[ignore = "needs the Python package networkx: run by make test"]
fn networkx_reads_the_same_graph_as_csv() {
    let directory = tempfile::tempdir().unwrap();
    for (number, site) in [serve(small_site()), serve(Site::seeded(5, 60))].iter().enumerate() {
        let path = |name: &str| directory.path().join(format!("{name}{number}"));
        let edges = directory.path().join(format!("edges{number},columns=from,to,kind,redirects"));
        crawl(site)
            .module("graphml", &path("graph"))
            .module("edges", &edges)
            .module("jsonl", &path("lines"))
            .run()
            .expect(0);
        python(COMPARE_GRAPHS, &[&path("graph"), &path("edges"), &path("lines")]);
    }
}
