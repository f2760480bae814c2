//! Fields that the user chooses by CSS selectors, as JSON lines: one object per page.

use std::borrow::Cow;

use serde::ser::{Serialize, SerializeMap, Serializer};
use url::Url;

use super::spec::Nesting;
use super::{BuiltinOutput, OutputWrite, jsonl};
use crate::html::charset::Charset;
use crate::html::selector::{Finder, Selector};
use crate::html::tree::{NodeId, Tree, max_result_bytes};
use crate::html::{MAX_TARGET_BYTES, attribute_text};
use crate::media::Media;
use crate::page::Page;

/// The maximum number of fields.
const MAX_FIELDS: usize = 100;

/// What a value of a list counts for, beyond its text.
const VALUE_OVERHEAD: usize = 16;

/// How many steps through the tree of a page the texts of all values may take: some tenths of a second. Elements in one another
/// repeat the steps, though their texts may be empty. The fields of common pages take thousands.
const MAX_TEXT_STEPS: usize = 20_000_000;

/// The attributes whose values are URLs, which are made absolute.
const URL_ATTRIBUTES: [&str; 6] = ["href", "src", "action", "poster", "cite", "formaction"];

/// One JSON object per page: its URL, then the fields.
#[derive(Debug)]
pub struct Extract {
    fields: Vec<ExtractField>,
    /// The fields as given.
    format: String,
}

#[derive(Debug)]
struct ExtractField {
    name: String,
    /// Whether all matches are wanted, and not the first one only.
    is_list: bool,
    selector: Selector,
    /// The attribute that is wanted, in lower case; otherwise the text.
    attribute: Option<String>,
}

impl Extract {
    /// Whether a text is the name of a field: `title`, or `links[]` for a list.
    pub(super) fn is_name(text: &str) -> bool {
        let name = text.strip_suffix("[]").unwrap_or(text);
        let mut bytes = name.bytes();
        bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
            && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    }

    /// Parses fields, each with its name, and its selector if it has one.
    pub(super) fn new(options: &[(&str, Option<&str>)]) -> Result<Extract, String> {
        // A name without a value is a part of the selector before it, such as `h2` in `title=h1,h2`.
        let mut given: Vec<(&str, String)> = Vec::new();
        for (name, value) in options {
            match (value, given.last_mut()) {
                (Some(selector), _) => given.push((name, (*selector).to_owned())),
                (None, Some((_, selector))) => *selector = format!("{selector},{name}"),
                (None, None) => return Err(format!("field '{name}' needs a selector: {name}=SELECTOR")),
            }
        }
        if given.is_empty() || given.len() > MAX_FIELDS {
            return Err(format!("it needs 1 to {MAX_FIELDS} fields, NAME=SELECTOR"));
        }
        let mut fields: Vec<ExtractField> = Vec::with_capacity(given.len());
        for (name, selector) in &given {
            let field = ExtractField::parse(name, selector)?;
            if field.name == "url" || fields.iter().any(|other| other.name == field.name) {
                return Err(format!("there are two fields '{}'", field.name));
            }
            fields.push(field);
        }
        let given: Vec<String> = given.iter().map(|(name, selector)| format!("{name}={selector}")).collect();
        Ok(Extract { fields, format: format!("extract,{}", given.join(",")) })
    }
}

impl ExtractField {
    fn parse(name: &str, value: &str) -> Result<ExtractField, String> {
        let (selector, attribute) = match attribute_at(value) {
            Some(at) => (&value[..at], Some(value[at + 1..].trim().to_ascii_lowercase())),
            None => (value, None),
        };
        if let Some(attribute) = &attribute
            && !attribute.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_:.-".contains(&byte))
                | attribute.is_empty()
        {
            return Err(format!("field '{name}': '{attribute}' is not the name of an attribute"));
        }
        let parsed = Selector::parse(selector)
            .map_err(|cause| format!("field '{name}': '{selector}' is not a CSS selector: {cause}"))?;
        let (name, is_list) = name.strip_suffix("[]").map_or((name, false), |name| (name, true));
        Ok(ExtractField { name: name.to_owned(), is_list, selector: parsed, attribute })
    }
}

/// Where the `@` of `SELECTOR@ATTRIBUTE` is: the last one outside of brackets and quotes.
fn attribute_at(value: &str) -> Option<usize> {
    let (mut nesting, mut at) = (Nesting::default(), None);
    for (position, byte) in value.bytes().enumerate() {
        if byte == b'@' && nesting.is_top_level() {
            at = Some(position);
        }
        nesting.add(byte);
    }
    at
}

impl BuiltinOutput for Extract {
    fn name(&self) -> &str {
        "extract"
    }

    fn format(&self) -> String {
        self.format.clone()
    }

    fn render(&self, page: &Page) -> OutputWrite {
        let content_type = page.content_type();
        let html = match page.media {
            Media::Html => Charset::new(content_type.as_deref(), &page.body).utf8(),
            _ => Cow::Borrowed(&b""[..]),
        };
        let tree = Tree::parse(&html);
        let mut values = Values {
            tree: &tree,
            finder: Finder::new(&tree),
            base: tree.base_url(&page.url),
            bytes_left: max_result_bytes(page.body.len()),
            steps_left: MAX_TEXT_STEPS,
        };
        let fields = self.fields.iter().map(|field| (&*field.name, values.of(field))).collect();
        OutputWrite::Append(jsonl::line(&ExtractedRecord { url: page.url.as_str(), fields }))
    }

    fn wants_found_on(&self) -> bool {
        false
    }
}

struct ExtractedRecord<'r> {
    url: &'r str,
    fields: Vec<(&'r str, ExtractedValue)>,
}

enum ExtractedValue {
    One(Option<String>),
    All(Vec<String>),
}

impl Serialize for ExtractedRecord<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut record = serializer.serialize_map(Some(1 + self.fields.len()))?;
        record.serialize_entry("url", self.url)?;
        for (name, value) in &self.fields {
            match value {
                ExtractedValue::One(value) => record.serialize_entry(name, value)?,
                ExtractedValue::All(values) => record.serialize_entry(name, values)?,
            }
        }
        record.end()
    }
}

/// Finds the values of fields in a page.
struct Values<'t, 'p> {
    tree: &'t Tree<'p>,
    finder: Finder<'t, 'p>,
    base: Url,
    /// How many bytes further values may have. Those without room are left out.
    bytes_left: usize,
    /// How many steps further texts may take. Values without any left are left out.
    steps_left: usize,
}

impl Values<'_, '_> {
    fn of(&mut self, field: &ExtractField) -> ExtractedValue {
        let max_matches = if field.is_list { self.bytes_left / VALUE_OVERHEAD } else { 1 };
        let has_value = |node: &NodeId| match &field.attribute {
            Some(name) => self.tree.attribute(*node, name).is_some(),
            None => true,
        };
        let matches: Vec<NodeId> =
            self.finder.find(&field.selector).filter(has_value).take(max_matches).collect();
        let mut values = matches.into_iter().map_while(|node| self.value(node, field.attribute.as_deref()));
        if field.is_list { ExtractedValue::All(values.collect()) } else { ExtractedValue::One(values.next()) }
    }

    /// The text or an attribute of an element, unless there is no room for it.
    fn value(&mut self, node: NodeId, attribute: Option<&str>) -> Option<String> {
        if self.bytes_left < VALUE_OVERHEAD || self.steps_left == 0 {
            return None;
        }
        let value = match attribute {
            None => self.tree.text_in_steps(node, self.bytes_left, &mut self.steps_left),
            Some(name) => self.attribute(node, name)?,
        };
        self.bytes_left = self.bytes_left.saturating_sub(VALUE_OVERHEAD + value.len());
        Some(value)
    }

    fn attribute(&self, node: NodeId, name: &str) -> Option<String> {
        let raw = self.tree.attribute(node, name).filter(|raw| raw.len() <= self.bytes_left)?;
        let value = attribute_text(raw, &|| encoding_rs::UTF_8);
        let is_url = URL_ATTRIBUTES.contains(&name) && raw.len() <= MAX_TARGET_BYTES;
        let absolute = is_url.then(|| self.base.join(value.trim()).ok()).flatten();
        Some(absolute.map_or_else(|| value.into_owned(), String::from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu_time::cpu_time;
    use crate::modules::example;
    use crate::modules::spec::Spec;
    use std::time::Duration;

    fn parse(arguments: &str) -> Result<Extract, String> {
        Extract::new(&Spec::split(arguments, Extract::is_name).options)
    }

    fn extracted(arguments: &str, page: &str) -> String {
        let page = example::page("http://a.test/x/", page.as_bytes(), &[]);
        let OutputWrite::Append(line) = parse(arguments).unwrap().render(&page) else {
            panic!("extract appends")
        };
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn fields_are_texts_and_attributes_of_the_first_match_or_of_all() {
        let page = "<title>T</title><base href=/b/><h1>A <b>title</b></h1><a href=y?z#f>one</a><a>none</a><a href='http://c.test/'>two</a>\
            <div class=d><p>p1<p>p2</div><script type='application/ld+json'>{\"a\":1}</script>";
        let arguments = "f,title=h1,h2,links[]=a@href,texts[]=a,first=a@href,none=.x,nones[]=.x,d=div.d,\
            ld=script[type=\"application/ld+json\"],class[]=[class]@CLASS";
        assert_eq!(
            extracted(arguments, page),
            "{\"url\":\"http://a.test/x/\",\"title\":\"A title\",\"links\":[\"http://a.test/b/y?z#f\",\"http://c.test/\"],\
             \"texts\":[\"one\",\"none\",\"two\"],\"first\":\"http://a.test/b/y?z#f\",\"none\":null,\"nones\":[],\"d\":\"p1\\np2\",\
             \"ld\":\"{\\\"a\\\":1}\",\"class\":[\"d\"]}\n"
        );
    }

    #[test]
    fn page_that_is_not_html_has_no_values() {
        let mut page = example::page("http://a.test/", b"<h1>x", &[]);
        page.media = Media::Text;
        let OutputWrite::Append(line) = parse("f,t=h1,l[]=h1").unwrap().render(&page) else {
            panic!("extract appends")
        };
        assert_eq!(String::from_utf8(line).unwrap(), "{\"url\":\"http://a.test/\",\"t\":null,\"l\":[]}\n");
    }

    #[test]
    fn error_names_the_field_the_selector_and_the_place() {
        for (arguments, error) in [
            ("f", "it needs 1 to 100 fields, NAME=SELECTOR"),
            ("f,title", "field 'title' needs a selector: title=SELECTOR"),
            ("f,title=", "field 'title': '' is not a CSS selector: a selector is missing, at character 1"),
            (
                "f,a=h1,b=p:foo",
                "field 'b': 'p:foo' is not a CSS selector: 'foo' is not supported, at character 3",
            ),
            ("f,a=h1@", "field 'a': '' is not the name of an attribute"),
            ("f,a=h1@x y", "field 'a': 'x y' is not the name of an attribute"),
            ("f,a=h1,a=h2", "there are two fields 'a'"),
            ("f,a=h1,a[]=h2", "there are two fields 'a'"),
            ("f,url=h1", "there are two fields 'url'"),
        ] {
            assert_eq!(parse(arguments).unwrap_err(), error, "{arguments}");
        }
        assert_eq!(parse("f,a=h1, h2,b[]=c@d").unwrap().format(), "extract,a=h1, h2,b[]=c@d");
    }

    #[test]
    fn elements_in_one_another_take_bounded_time() {
        let page = "<div>".repeat(250) + &"<b></b>".repeat(60_000);
        let fields: String = (0..100).map(|number| format!(",f{number}[]=div")).collect();
        let taken = cpu_time(|| assert!(extracted(&format!("f{fields}"), &page).contains("\"f0\":[\"\",")));
        assert!(taken < Duration::from_secs(30), "{taken:?}");
    }

    #[test]
    fn values_of_a_page_are_bounded() {
        for piece in ["<div>x", "<div>", "<b>x", "<a href=x>"] {
            let page = piece.repeat(100_000 / piece.len());
            let taken = cpu_time(|| {
                let line = extracted("f,all[]=*,a[]=a@href", &page);
                assert!(line.len() <= 2 * max_result_bytes(page.len()), "{piece}: {}", line.len());
            });
            assert!(taken < Duration::from_secs(10), "{piece:?} took {taken:?}");
        }
    }
}
