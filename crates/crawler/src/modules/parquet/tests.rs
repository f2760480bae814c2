use std::fs::{self, File};

use ::parquet::file::reader::{FileReader, SerializedFileReader};
use ::parquet::record::{Field, Row};
use serde_json::{Value as Json, json};

use super::*;
use crate::modules::output::files::{OutputFiles, Start};
use crate::modules::{OutputSpec, Target, example};

fn object(row: &Row) -> Json {
    row.get_column_iter()
        .map(|(name, value)| (name.clone(), value_of(value)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn value_of(value: &Field) -> Json {
    match value {
        Field::Null => Json::Null,
        Field::Bool(is_set) => json!(is_set),
        Field::Long(number) => json!(number),
        Field::Str(text) => json!(text),
        Field::TimestampMillis(milliseconds) => json!({ "milliseconds": milliseconds }),
        Field::Group(row) => object(row),
        Field::ListInternal(list) => list.elements().iter().map(value_of).collect(),
        other => panic!("{other:?}"),
    }
}

/// Makes a table of pages, and reads its rows back as JSON.
fn table(fields: &str, pages: &[Page]) -> (Vec<Json>, usize) {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("pages.parquet");
    let spec = OutputSpec {
        output: Box::new(ParquetTable::new(Fields::parse(fields).unwrap())),
        target: Target::File(target.clone()),
    };
    let specs = [spec];
    let mut files = OutputFiles::open(&specs, Start::Fresh).unwrap();
    for (id, page) in (1..).zip(pages) {
        files.apply(id, Some(id), &[(0, specs[0].output.render(page))]).unwrap();
    }
    files.flush().unwrap();
    specs[0].finish().unwrap();
    let reader = SerializedFileReader::new(File::open(&target).unwrap()).unwrap();
    let rows = reader.get_row_iter(None).unwrap().map(|row| object(&row.unwrap())).collect();
    (rows, reader.num_row_groups())
}

#[test]
fn rows_have_typed_values() {
    let mut page = example::page("http://a.test/", "Zoë\0".as_bytes(), &["http://b.test/", "http://c.test/"]);
    page.title = "a \"title\"\n\0".into();
    page.lastmod = Some(UNIX_EPOCH - std::time::Duration::from_millis(1));
    let mut empty = example::page("http://a.test/2", b"", &[]);
    empty.headers.clear();
    let fields = "url,depth,truncated,title,fetched,lastmod,content_type,robots,links,headers";
    let (rows, groups) = table(fields, &[page, empty]);
    assert_eq!(groups, 1);
    let first = json!({
        "url": "http://a.test/", "depth": 2, "truncated": false, "title": "a \"title\"\n\0",
        "fetched": {"milliseconds": 1_793_858_828_009_i64}, "lastmod": {"milliseconds": -1},
        "content_type": "text/html; charset=utf-8", "robots": [], "links": ["http://b.test/", "http://c.test/"],
        "headers": [{"name": "content-type", "value": "text/html; charset=utf-8"}, {"name": "x-note", "value": "one"}],
    });
    let second = json!({
        "url": "http://a.test/2", "depth": 2, "truncated": false, "title": "", "fetched": {"milliseconds": 1_793_858_828_009_i64},
        "lastmod": null, "content_type": null, "robots": [], "links": [], "headers": [],
    });
    assert_eq!(rows, [first, second]);
}

#[test]
fn every_field_can_be_a_column() {
    let fields = Fields::default().with(&["referrer", "redirects", "timing", "headers", "text"]).names();
    let (rows, _) = table(&fields, &[example::page("http://a.test/", b"<p>text", &["http://b.test/"])]);
    let row = rows[0].as_object().unwrap();
    assert!(fields.split(',').all(|field| row.contains_key(field)), "{row:?}");
    assert_eq!((&row["text"], &row["status"], &row["bytes"]), (&json!("text"), &json!(200), &json!(7)));
    assert_eq!(row["timing"], json!({"first_byte_ms": 100, "total_ms": 109}));
    assert_eq!(
        (&row["referrer"], &row["redirects"]),
        (&json!("http://a.test/"), &json!(["http://a.test/old"]))
    );
}

#[test]
fn table_without_pages_has_its_columns_and_a_large_one_several_row_groups() {
    assert_eq!(table("url,links", &[]), (Vec::new(), 0));
    let text = "x".repeat(1_000_000);
    let page = |number: u32| {
        let body = format!("{number} {text}");
        example::page(&format!("http://a.test/{number}"), body.as_bytes(), &[])
    };
    let (rows, groups) = table("url,text", &(0..70).map(page).collect::<Vec<_>>());
    assert_eq!((rows.len(), groups), (70, 3));
    assert!(rows.iter().zip(0..).all(|(row, number)| {
        row["url"] == format!("http://a.test/{number}")
            && row["text"].as_str().unwrap().starts_with(&format!("{number} xxx"))
    }));
}

#[test]
fn damaged_records_are_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let (path, target) = (directory.path().join("x.records"), directory.path().join("x"));
    let rows: [&[StoredValue]; 3] = [&[StoredValue::Integer(1)], &[], &[StoredValue::Durations(Vec::new())]];
    for bytes in rows.map(|row| postcard::to_stdvec(row).unwrap()).iter().chain([&vec![0xFF; 40]]) {
        let mut file = b"crawler-records-1 parquet,fields=url\n".to_vec();
        push_record(&mut file, bytes);
        fs::write(&path, &file).unwrap();
        let records = Records::open(&path).unwrap().unwrap();
        let table = ParquetTable::new(Fields::parse("url").unwrap());
        let error = table.finish(&records, &target).unwrap_err().to_string();
        assert!(error.contains("x.records': it is damaged"), "{error}");
        assert!(!target.exists());
    }
}
