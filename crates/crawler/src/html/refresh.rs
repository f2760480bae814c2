//! Parses the `content` of a `meta` refresh by the HTML standard.

/// The target in content like `5; url=next.html`; `None` if there is no target (the page reloads itself) or the content
/// is invalid.
pub fn target(content: &str) -> Option<&str> {
    let delay = skip_space(content);
    if !delay.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
        return None;
    }
    let after_delay = delay.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    if !after_delay.starts_with(|separator| separator == ';' || separator == ',' || is_space(separator)) {
        return None;
    }
    let separator = skip_space(after_delay);
    let text = skip_space(separator.strip_prefix([';', ',']).unwrap_or(separator));
    if text.is_empty() {
        return None;
    }
    match after_url_equals(text) {
        Some(value) => Some(unquote(value)),
        // A text that starts with `u` but not with `url=` is an unquoted target; any other may be quoted.
        None if text.starts_with(['u', 'U']) => Some(text),
        None => Some(unquote(text)),
    }
}

/// What follows `url =`.
fn after_url_equals(text: &str) -> Option<&str> {
    let name = text.get(..3)?;
    let after_name = skip_space(&text[3..]);
    let value = after_name.strip_prefix('=')?;
    name.eq_ignore_ascii_case("url").then(|| skip_space(value))
}

/// The text inside the quotes if it starts with one.
fn unquote(text: &str) -> &str {
    match text.chars().next() {
        Some(quote @ ('"' | '\'')) => text[1..].split(quote).next().unwrap_or_default(),
        _ => text,
    }
}

fn skip_space(text: &str) -> &str {
    text.trim_start_matches(is_space)
}

fn is_space(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\x0C' | '\r' | ' ')
}

#[cfg(test)]
mod tests {
    use super::target;

    #[test]
    fn target_is_found_in_every_common_syntax() {
        for content in
            ["5;url=next", "0; URL = next", " 1.5 , uRl='next' later", "3 next", "0;\"next\"", ".;next"]
        {
            assert_eq!(target(content), Some("next"), "{content}");
        }
    }

    #[test]
    fn text_that_starts_like_url_is_the_target() {
        assert_eq!(target("0; up.html"), Some("up.html"));
        assert_eq!(target("0; url.html"), Some("url.html"));
        assert_eq!(target("0; ur'l'"), Some("ur'l'"));
        assert_eq!(target("0; url 'x'"), Some("url 'x'"));
    }

    #[test]
    fn refresh_without_target_is_no_link() {
        for content in ["", "5", "5;", "5 ; ", "url=next", "x5;url=next", "5x;url=next", "-1;url=next"] {
            assert_eq!(target(content), None, "{content}");
        }
    }

    #[test]
    fn unclosed_quote_extends_to_the_end() {
        assert_eq!(target("0;url='next page"), Some("next page"));
        assert_eq!(target("0;url=''"), Some(""));
    }
}
