//! A matcher of robots.txt patterns for the reference parser, which misses matches after a star.

use robotstxt::matcher::RobotsMatchStrategy;

/// Matches a pattern in the simplest way, by tracking all positions in the path where the pattern so far can end.
#[derive(Default)]
pub struct SimpleMatch;

impl SimpleMatch {
    fn matched_length(path: &str, pattern: &str) -> i32 {
        let (literal, anchored) = match pattern.strip_suffix('$') {
            Some(literal) => (literal, true),
            None => (pattern, false),
        };
        let path = path.as_bytes();
        let mut ends = vec![false; path.len() + 1];
        ends[0] = true;
        for byte in literal.bytes() {
            if byte == b'*' {
                let first = ends.iter().position(|end| *end).unwrap_or(ends.len());
                ends[first..].fill(true);
            } else {
                for at in (0..path.len()).rev() {
                    ends[at + 1] = ends[at] && path[at] == byte;
                }
                ends[0] = false;
            }
        }
        let matches = if anchored { ends[path.len()] } else { ends.contains(&true) };
        if matches { pattern.len() as i32 } else { -1 }
    }
}

impl RobotsMatchStrategy for SimpleMatch {
    fn match_allow(&self, path: &str, pattern: &str) -> i32 {
        SimpleMatch::matched_length(path, pattern)
    }

    fn match_disallow(&self, path: &str, pattern: &str) -> i32 {
        SimpleMatch::matched_length(path, pattern)
    }
}
