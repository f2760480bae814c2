//! Pages as Markdown: page N is the file `N.md` of a directory, with front matter and the page's main content.

use std::fmt::Write;

use super::{BuiltinOutput, OutputWrite, jsonl, timestamp};
use crate::html::charset::Charset;
use crate::html::markdown;
use crate::media::Media;
use crate::page::Page;

/// One Markdown file per page.
#[derive(Debug, Clone, Copy, Default)]
pub struct Markdown;

impl BuiltinOutput for Markdown {
    fn name(&self) -> &str {
        "markdown"
    }

    fn extension(&self) -> &str {
        ".md"
    }

    fn render(&self, page: &Page) -> OutputWrite {
        let content = match page.media {
            Media::Html => {
                let content_type = page.content_type();
                markdown::main_content(&Charset::new(content_type.as_deref(), &page.body).utf8(), &page.url)
            }
            _ => text_content(page),
        };
        OutputWrite::File(format!("{}\n{content}", front_matter(page)).into_bytes())
    }

    fn wants_found_on(&self) -> bool {
        false
    }
}

/// The text of a page that is not HTML: Markdown as it is, other text as a code block.
fn text_content(page: &Page) -> String {
    let text = page.text();
    let is_markdown =
        page.content_type().is_some_and(|content_type| content_type.starts_with("text/markdown"));
    if is_markdown || text.trim().is_empty() {
        return text.into_owned();
    }
    markdown::code_block(&text)
}

/// What describes the page, as YAML between two lines of dashes.
fn front_matter(page: &Page) -> String {
    let mut lines = String::from("---\n");
    let mut text = |key: &str, value: &str| lines.push_str(&format!("{key}: {}\n", yaml_string(value)));
    text("title", &page.title);
    text("url", page.url.as_str());
    if let Some(language) = page.language() {
        text("lang", &language);
    }
    let _ = write!(lines, "date: {}\ndepth: {}\n---\n", timestamp::rfc3339(page.fetched), page.depth);
    lines
}

/// A text as a double-quoted YAML string. JSON strings are that, but for a few characters that YAML takes for line ends, or does
/// not allow.
fn yaml_string(text: &str) -> String {
    let json = String::from_utf8(jsonl::json(&text)).unwrap_or_default();
    let mut yaml = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '\u{2028}' | '\u{2029}' | '\u{FEFF}' | '\u{FFFE}' | '\u{FFFF}' => {
                let _ = write!(yaml, "\\u{:04x}", u32::from(c));
            }
            _ => yaml.push(c),
        }
    }
    yaml
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules::example;

    fn written(page: &Page) -> String {
        let OutputWrite::File(file) = Markdown.render(page) else { panic!("markdown writes files") };
        String::from_utf8(file).unwrap()
    }

    #[test]
    fn file_has_front_matter_and_the_main_content() {
        let mut page =
            example::page("http://a.test/x", b"<html lang=en><nav>no</nav><h1>A &amp; B</h1><p>text", &[]);
        page.title = "A \"B\": #1\u{2028}\u{1b}\\".into();
        assert_eq!(
            written(&page),
            "---\ntitle: \"A \\\"B\\\": #1\\u2028\\u001b\\\\\"\nurl: \"http://a.test/x\"\nlang: \"en\"\n\
             date: 2026-11-05T06:07:08.009Z\ndepth: 2\n---\n\n# A & B\n\ntext\n"
        );
    }

    #[test]
    fn text_is_a_code_block() {
        let mut page = example::page("http://a.test/x", b"# no heading\n```\n", &[]);
        page.media = Media::Text;
        assert!(written(&page).ends_with("---\n\n````\n# no heading\n```\n````\n"), "{}", written(&page));
        page.headers.clear();
        page.headers.insert("content-type", "text/markdown".parse().unwrap());
        assert!(written(&page).ends_with("---\n\n# no heading\n```\n"), "{}", written(&page));
    }
}
