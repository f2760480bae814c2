//! Finds the URLs of a `srcset` attribute.

use std::ops::Range;

/// Calls `on_url` with the place of each URL in the decoded value of a `srcset`, by the HTML standard. Descriptors are not
/// checked.
pub fn each_url(srcset: &str, mut on_url: impl FnMut(Range<usize>)) {
    let bytes = srcset.as_bytes();
    let mut at = 0;
    loop {
        while bytes.get(at).is_some_and(|byte| byte.is_ascii_whitespace() || *byte == b',') {
            at += 1;
        }
        if at == bytes.len() {
            return;
        }
        let start = at;
        at += bytes[at..].iter().position(u8::is_ascii_whitespace).unwrap_or(bytes.len() - at);
        let url = srcset[start..at].trim_end_matches(',');
        on_url(start..start + url.len());
        // A comma directly after a URL ends the candidate, and the URL has no descriptors.
        if start + url.len() == at {
            at = descriptors_end(bytes, at);
        }
    }
}

/// The end of the descriptors at `at`: the next comma outside parentheses.
fn descriptors_end(bytes: &[u8], mut at: usize) -> usize {
    let mut is_in_parentheses = false;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'(' => is_in_parentheses = true,
            b')' => is_in_parentheses = false,
            b',' if !is_in_parentheses => break,
            _ => {}
        }
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn urls(srcset: &str) -> Vec<&str> {
        let mut urls = Vec::new();
        each_url(srcset, |range| urls.push(&srcset[range]));
        urls
    }

    #[test]
    fn urls_are_found_as_in_browsers() {
        for (srcset, expected) in [
            ("a.png", &["a.png"][..]),
            ("a.png 1x, b.png 2x", &["a.png", "b.png"]),
            ("a.png, b.png", &["a.png", "b.png"]),
            ("a.png,b.png 2x", &["a.png,b.png"]),
            (" ,, a.png ,\n\tb.png 100w 50h,", &["a.png", "b.png"]),
            ("/w_1,h_2/a.png 1x, data:,a 2x", &["/w_1,h_2/a.png", "data:,a"]),
            ("a.png x(1, 2) y, b.png", &["a.png", "b.png"]),
            ("a.png x(1, 2, b.png", &["a.png"]),
            ("a.png,,, b.png", &["a.png", "b.png"]),
            ("é.png 1x,\u{a0}b.png", &["é.png", "\u{a0}b.png"]),
            ("", &[]),
            (" , ", &[]),
        ] {
            assert_eq!(urls(srcset), expected, "{srcset:?}");
        }
    }
}
