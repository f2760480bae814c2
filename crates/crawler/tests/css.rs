//! Compares the URLs that are found in CSS with those of cssparser's tokenizer.

use crawler::internal::html::css;
use cssparser::{ParseError, Parser, ParserInput, Token};
use proptest::prelude::*;

fn found(text: &str) -> Vec<String> {
    let mut urls = Vec::new();
    css::each_url(text, |url| urls.push(url.target.into_owned()));
    urls
}

fn by_cssparser(text: &str) -> Vec<String> {
    let mut input = ParserInput::new(text);
    let mut urls = Vec::new();
    collect(&mut Parser::new(&mut input), &mut urls);
    urls
}

/// Collects the URLs of a block and of the blocks in it.
fn collect<'i>(parser: &mut Parser<'i, '_>, urls: &mut Vec<String>) {
    let mut is_import = false;
    while let Ok(token) = parser.next().cloned() {
        let was_import = std::mem::take(&mut is_import);
        let is_url = matches!(&token, Token::Function(name) if name.eq_ignore_ascii_case("url"));
        match token {
            Token::UnquotedUrl(url) => urls.push(url.to_string()),
            Token::QuotedString(url) if was_import => urls.push(url.to_string()),
            Token::AtKeyword(name) => is_import = name.eq_ignore_ascii_case("import"),
            Token::Function(_)
            | Token::ParenthesisBlock
            | Token::SquareBracketBlock
            | Token::CurlyBracketBlock => {
                let _ = parser.parse_nested_block(|parser| -> Result<(), ParseError<'i, ()>> {
                    if is_url && let Ok(Token::QuotedString(url)) = parser.next() {
                        urls.push(url.to_string());
                    }
                    collect(parser, urls);
                    Ok(())
                });
            }
            _ => {}
        }
    }
}

/// Pieces that start, end or break every token.
#[rustfmt::skip]
const PIECES: &[&str] = &[
    "url(", "URL( ", "u\\72l(", "\"", "'", "a.png", ")", "(", " ", "\n", "\r\n", "\\", "\\\n", "/*", "*/", "@import ", ";", "{", "}", "x",
    "#", "1", "-", "é", "\\0", "\\41 ", "<!--", "-->", "[", "]", ",", "/", "@font-face", "@", "\x0C", "\\)", "@IMPORT",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, max_global_rejects: 100_000, ..ProptestConfig::default() })]

    #[test]
    fn urls_are_those_of_cssparser(pieces in prop::collection::vec(prop::sample::select(PIECES), 1..12)) {
        let text = pieces.concat();
        // cssparser does not take this for an escape in an invalid URL.
        prop_assume!(!text.as_bytes().windows(2).any(|pair| pair[0].is_ascii_whitespace() && pair[1] == b'\\'));
        prop_assert_eq!(found(&text), by_cssparser(&text), "{:?}", text);
    }
}
