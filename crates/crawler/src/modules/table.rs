//! Pages as CSV: a line with the names of the fields, then a line per page.

use std::borrow::Cow;

use super::fields::{Fields, Value};
use super::{BuiltinOutput, OutputWrite, csv, jsonl, timestamp};
use crate::page::Page;

/// One CSV line per page, with these fields.
#[derive(Debug, Clone)]
pub struct CsvTable {
    fields: Fields,
    header: Vec<u8>,
}

impl CsvTable {
    pub(super) fn new(fields: Fields) -> CsvTable {
        let mut header = Vec::new();
        csv::push_line(&mut header, fields.iter().map(|field| field.name));
        CsvTable { fields, header }
    }
}

impl BuiltinOutput for CsvTable {
    fn name(&self) -> &str {
        "csv"
    }

    fn format(&self) -> String {
        self.fields.format(self.name())
    }

    fn wants_found_on(&self) -> bool {
        self.fields.want_found_on()
    }

    fn header(&self) -> &[u8] {
        &self.header
    }

    fn render(&self, page: &Page) -> OutputWrite {
        let mut line = Vec::with_capacity(1024);
        for (index, field) in self.fields.iter().enumerate() {
            if index > 0 {
                line.push(b',');
            }
            let value = field.value(page);
            csv::push_field(&mut line, &cell(&value));
        }
        line.push(b'\n');
        OutputWrite::Append(line)
    }
}

/// A value as a cell: a missing one is empty, a list or map is JSON.
fn cell<'v>(value: &'v Value) -> Cow<'v, str> {
    match value {
        Value::Missing => "".into(),
        Value::Text(text) => csv::safe_text(text),
        Value::Integer(number) => number.to_string().into(),
        Value::Boolean(is_set) => is_set.to_string().into(),
        Value::Time(time) => timestamp::rfc3339(*time).into(),
        Value::List(_) | Value::Pairs(_) | Value::Durations(_) => {
            String::from_utf8(jsonl::json(value)).unwrap_or_default().into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules::example;

    #[test]
    fn page_is_a_line_with_its_fields_in_order() {
        let table = CsvTable::new(
            Fields::parse("title,url,depth,truncated,fetched,lastmod,robots,links,headers,text").unwrap(),
        );
        let mut page =
            example::page("http://a.test/?x=1,2", b"<p>One<p>\"two\"", &["http://b.test/", "http://c.test/"]);
        page.title = "=HYPERLINK(\"http://evil.test/\",\"x\")".into();
        let OutputWrite::Append(line) = table.render(&page) else { panic!("csv appends") };
        assert_eq!(table.header(), b"title,url,depth,truncated,fetched,lastmod,robots,links,headers,text\n");
        assert_eq!(
            String::from_utf8(line).unwrap(),
            "\"'=HYPERLINK(\"\"http://evil.test/\"\",\"\"x\"\")\",\"http://a.test/?x=1,2\",2,false,2026-11-05T06:07:08.009Z,,[],\
             \"[\"\"http://b.test/\"\",\"\"http://c.test/\"\"]\",\"[[\"\"content-type\"\",\"\"text/html; charset=utf-8\"\"],\
             [\"\"x-note\"\",\"\"one\"\"]]\",\"One\n\"\"two\"\"\"\n"
        );
    }
}
