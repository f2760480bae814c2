//! The fields of pages in `jsonl` and `csv`, pages as Markdown, and fields by CSS selectors.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use testweb::{Response, Site, Web};

use crate::common::{linking_to, names, serve};
use crate::pipeline::{Pipeline, objects, objects_in, urls};
use crate::resume::{directories, killed_after};
use crate::state::StateDir;

/// A site whose second page is reached over a redirect, and has everything that fields contain.
fn site() -> Web {
    let page = Response::page(
        "<html lang=de><title>=Zwei, \"2\"</title><link rel=canonical href=/zwei><nav>Menu</nav><main><h1>Zwei</h1>\
         <p>Ein <b>Satz</b>,\n  mit  Blanks.<ul><li class=a>eins<li class=b>zwei</ul><table><tr><th>k<th>v<tr><td>1<td>2</table>\
         <pre class=language-sh>ls\n  -l</pre></main><a href=/three>three</a><script>no()</script>",
    );
    serve(
        Site::new()
            .page("/", linking_to(&["/moved"]))
            .redirect("/moved", "/two")
            .response("/two", page.header("x-note", "a, \"b\""))
            .response(
                "/three",
                Response::page("<p>three")
                    .header("content-language", "fr")
                    .header("link", "</3>; rel=canonical"),
            )
            .text("/plain", "no links"),
    )
}

fn page<'v>(web: &Web, pages: &'v [Value], path: &str) -> &'v Value {
    pages.iter().find(|page| page["url"] == web.url(path)).unwrap()
}

#[test]
fn jsonl_has_the_fields_that_are_chosen() {
    let web = site();
    let fields = "url,text,language,canonical,referrer,redirects,headers,timing,robots,truncated,lastmod";
    let ended = Pipeline::of(web.url("/")).with(&format!("--module jsonl=-,fields={fields}")).run().expect(0);
    let pages = objects(&ended.stdout);
    let two = page(&web, &pages, "/two");
    let keys: Vec<&str> = two.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys.len(), fields.split(',').count());
    assert!(
        ended.stdout.lines().all(|line| line.starts_with("{\"url\":") && line.contains("\"lastmod\":null"))
    );
    assert_eq!(two["text"], "Menu\nZwei\nEin Satz, mit Blanks.\neins\nzwei\nk\nv\n1\n2\nls\n  -l\nthree");
    assert_eq!((&two["language"], &two["canonical"]), (&json!("de"), &json!(web.url("/zwei"))));
    assert_eq!((&two["referrer"], &two["redirects"]), (&json!(web.url("/")), &json!([web.url("/moved")])));
    assert!(two["headers"].as_array().unwrap().contains(&json!(["x-note", "a, \"b\""])), "{two}");
    assert!(two["timing"]["first_byte_ms"].as_u64() <= two["timing"]["total_ms"].as_u64(), "{two}");
    let three = page(&web, &pages, "/three");
    assert_eq!((&three["language"], &three["canonical"]), (&json!("fr"), &json!(web.url("/3"))));
    let seed = page(&web, &pages, "/");
    assert_eq!([&seed["language"], &seed["canonical"], &seed["referrer"]], [&Value::Null; 3]);
}

#[test]
fn default_fields_leave_out_what_is_large() {
    let web = site();
    let ended = Pipeline::of(web.url("/")).with("--module jsonl=-").run().expect(0);
    for (key, is_there) in
        [("title", true), ("language", true), ("canonical", true), ("text", false), ("headers", false)]
    {
        assert_eq!(objects(&ended.stdout)[0].get(key).is_some(), is_there, "{key}");
    }
}

#[test]
fn csv_has_the_same_fields_and_no_formulas() {
    let web = site();
    let ended = Pipeline::of(web.url("/"))
        .with("--module csv=-,fields=title,depth,text,robots,links,lastmod")
        .run()
        .expect(0);
    assert!(ended.stdout.starts_with("title,depth,text,robots,links,lastmod\n"), "{}", ended.stdout);
    let row = format!(
        "\n\"'=Zwei, \"\"2\"\"\",1,\"Menu\nZwei\nEin Satz, mit Blanks.\neins\nzwei\nk\nv\n1\n2\nls\n  -l\nthree\",[],\"[\"\"{}\"\"]\",\n",
        web.url("/three")
    );
    assert!(ended.stdout.contains(&row), "{}", ended.stdout);
}

#[test]
fn markdown_files_have_front_matter_and_the_main_content() {
    let (web, place) = (site(), StateDir::new());
    Pipeline::of(web.url("/")).module("markdown", &place.path("md")).run().expect(0);
    let files: BTreeSet<String> = names(&place.path("md")).into_iter().collect();
    assert!(files.iter().eq(["1.md", "2.md", "3.md"]), "{files:?}");
    let file = (1..=3)
        .map(|number| fs::read_to_string(place.path("md").join(format!("{number}.md"))).unwrap())
        .find(|file| file.contains("/two\""))
        .unwrap();
    let (front, content) = file.strip_prefix("---\n").unwrap().split_once("---\n").unwrap();
    assert!(
        front.starts_with(&format!(
            "title: \"=Zwei, \\\"2\\\"\"\nurl: \"{}\"\nlang: \"de\"\ndate: 20",
            web.url("/two")
        )),
        "{front}"
    );
    assert!(front.ends_with("\ndepth: 1\n"), "{front}");
    let values: BTreeMap<String, String> = serde_saphyr::from_str(front).unwrap();
    assert_eq!((&*values["title"], &*values["lang"]), ("=Zwei, \"2\"", "de"));
    assert_eq!(
        content,
        "\n# Zwei\n\nEin **Satz**, mit Blanks.\n\n- eins\n- zwei\n\n| k | v |\n| --- | --- |\n| 1 | 2 |\n\n```sh\nls\n  -l\n```\n"
    );
    let again = Pipeline::of(web.url("/")).module("markdown", &place.path("md")).run().expect(2);
    assert!(again.stderr.contains("contains pages of an earlier crawl (file 1.md)"), "{}", again.stderr);
}

#[test]
fn extract_writes_what_selectors_match() {
    let web = site();
    let spec = "extract=-,title=h1,h2,items[]=li:not(.b), td:first-child,link=a@href,none=.none";
    let ended = Pipeline::of(web.url("/")).with("--module").with_one(spec).run().expect(0);
    let two = format!(
        "{{\"url\":\"{}\",\"title\":\"Zwei\",\"items\":[\"eins\",\"1\"],\"link\":\"{}\",\"none\":null}}",
        web.url("/two"),
        web.url("/three")
    );
    assert!(ended.stdout.lines().any(|line| line == two), "{}", ended.stdout);
    assert_eq!(ended.stdout.lines().count(), 3);
}

#[test]
fn invalid_fields_and_selectors_are_rejected_before_the_first_request() {
    let web = site();
    for (module, error) in [
        ("jsonl=x,fields=url,colour", "there is no field 'colour'; fields are url, depth, "),
        ("csv=x,fields=", "there is no field ''; fields are url, depth, "),
        (
            "extract=x,a=h1,b=p:foo",
            "field 'b': 'p:foo' is not a CSS selector: 'foo' is not supported, at character 3",
        ),
        ("extract=x", "it needs 1 to 100 fields, NAME=SELECTOR"),
        ("markdown=-", "it needs a directory"),
    ] {
        let ended = Pipeline::of(web.url("/")).with("--module").with_one(module).run().expect(2);
        assert!(ended.stderr.contains(error), "{module}: {}", ended.stderr);
    }
    assert_eq!(web.hits(), 0);
}

#[test]
fn outputs_have_each_page_once_after_kill_and_resume() {
    let (web, place) = (serve(directories(&["a"], 40)), StateDir::new());
    let crawl = || {
        let spec = |name: &str, options: &str| format!("{name}={}{options}", place.path(name).display());
        place
            .crawl(web.url("/"))
            .with("--similarity 0 --delay 5ms --module")
            .with_one(spec("jsonl", ",fields=url,text"))
            .with("--module")
            .with_one(spec("csv", ",fields=url"))
            .with("--module")
            .with_one(spec("extract", ",title=h1"))
            .module("markdown", &place.path("markdown"))
    };
    killed_after(&web, 10, crawl().start());
    killed_after(&web, 10, crawl().start());
    crawl().run().expect(0);
    let expected: BTreeSet<String> =
        (0..40).map(|page| web.url(&format!("/a/{page}"))).chain([web.url("/")]).collect();
    for file in ["jsonl", "extract"] {
        let pages = objects_in(&place.path(file));
        assert_eq!((pages.len(), urls(&pages)), (41, expected.clone()), "{file}");
    }
    let csv = fs::read_to_string(place.path("csv")).unwrap();
    let rows: Vec<String> = csv.lines().skip(1).map(str::to_owned).collect();
    assert_eq!((rows.len(), rows.into_iter().collect::<BTreeSet<_>>()), (41, expected.clone()));
    let files: Vec<String> = names(&place.path("markdown"));
    assert_eq!(files.len(), 41);
    let of_file = |name: &String| {
        let file = fs::read_to_string(place.path("markdown").join(name)).unwrap();
        file.lines()
            .find_map(|line| line.strip_prefix("url: \"")?.strip_suffix('"').map(str::to_owned))
            .unwrap()
    };
    assert_eq!(files.iter().map(of_file).collect::<BTreeSet<_>>(), expected);
    let changed = place.crawl(web.url("/")).with("--similarity 0 --module");
    let changed =
        changed.with_one(format!("csv={},fields=title", place.path("csv").display())).run().expect(2);
    assert!(changed.stderr.contains("its format cannot change"), "{}", changed.stderr);
}

#[test]
#[ignore = "needs python3: run by make test"]
fn python_reads_the_same_values_from_csv_and_json() {
    let (web, place) = (site(), StateDir::new());
    let fields = "url,title,depth,truncated,links,headers,text";
    Pipeline::of(web.url("/"))
        .with("--module")
        .with_one(format!("jsonl={},fields={fields}", place.path("jsonl").display()))
        .with("--module")
        .with_one(format!("csv={},fields={fields}", place.path("csv").display()))
        .run()
        .expect(0);
    let script = "import csv, json\n\
        pages = [json.loads(line) for line in open('jsonl')]\n\
        rows = list(csv.DictReader(open('csv', newline='')))\n\
        assert len(pages) == len(rows) == 3\n\
        for page, row in zip(pages, rows):\n\
        \x20   assert row['url'] == page['url'] and row['text'].lstrip(\"'\") == page['text'], (row, page)\n\
        \x20   assert row['title'].lstrip(\"'\") == page['title'] and int(row['depth']) == page['depth']\n\
        \x20   assert json.loads(row['links']) == page['links'] and json.loads(row['headers']) == page['headers']\n";
    let ended = Command::new("python3").args(["-c", script]).current_dir(place.path("")).output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}
