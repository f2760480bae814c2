//! Finds the names that a mistyped word, or a word of another crawler's command line, may mean.

/// The edit distance up to which a misspelt name is taken for another.
const MAX_TYPOS: usize = 2;

/// The number of letters that an abbreviated name must share with the full one.
const MIN_PREFIX: usize = 3;

/// The number of names that a message suggests.
const MAX_SUGGESTIONS: usize = 3;

/// An option of other crawlers, and what this one has instead.
pub struct OtherName {
    /// The option, as users of wget, HTTrack, Scrapy and similar programs write it.
    names: &'static [&'static str],
    /// The options of this crawler. Not every command has all of them.
    pub options: &'static [&'static str],
    /// What the classic mode has instead of an option. Empty if it is an option there too, or nothing.
    pub classic: &'static str,
}

/// The options of other crawlers that users try first.
const OTHER_NAMES: [OtherName; 10] = [
    OtherName {
        names: &["--depth", "--level", "--max-level", "--depth-limit", "-d", "-l"],
        options: &["--max-depth"],
        classic: "the depth is the third argument",
    },
    OtherName {
        names: &["--output", "--out", "--output-file", "--output-document", "-o", "-O"],
        options: &["--module jsonl=FILE"],
        classic: "the directory is the second argument",
    },
    OtherName {
        names: &["--mirror", "--directory-prefix", "-m", "-P"],
        options: &["--module mirror=DIR"],
        classic: "",
    },
    OtherName {
        names: &["--no-robots", "--no-robots-txt", "--ignore-robots-txt"],
        options: &["--ignore-robots"],
        classic: "",
    },
    OtherName { names: &["--threads", "--jobs", "--parallel", "-j"], options: &["--workers"], classic: "" },
    OtherName {
        names: &["--json", "--format", "--output-format"],
        options: &["--json", "--format json", "--summary FILE", "--progress json"],
        classic: "",
    },
    OtherName { names: &["--limit", "--max-files"], options: &["--max-pages"], classic: "" },
    OtherName { names: &["--wait", "--sleep", "--rate", "-w"], options: &["--delay"], classic: "" },
    OtherName { names: &["--no-check-certificate", "-k"], options: &["--insecure"], classic: "" },
    OtherName { names: &["--no-parent"], options: &["--scope prefix"], classic: "" },
];

/// What this crawler has instead of an option of other crawlers.
pub fn other_crawlers_name(written: &str) -> Option<&'static OtherName> {
    OTHER_NAMES.iter().find(|other| other.names.contains(&written))
}

/// The names that a user may have meant: the closest misspelt one, or else those that contain the word.
pub fn similar<'n>(word: &str, names: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
    let names: Vec<&str> = names.collect();
    // Of a short name, two typos leave nothing.
    let typos = |name: &&str| (strsim::osa_distance(word, name), word.len().min(name.len()));
    let is_typo =
        |name: &&&str| matches!(typos(name), (count, length) if count <= MAX_TYPOS && 2 * count < length);
    if let Some(closest) = names.iter().filter(is_typo).min_by_key(|name| typos(name).0) {
        return vec![closest];
    }
    if word.len() < MIN_PREFIX {
        return Vec::new();
    }
    let (abbreviated, others): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| name.starts_with(word));
    let with_word = others.into_iter().filter(|name| name.split(['-', '_']).any(|part| part == word));
    abbreviated.into_iter().chain(with_word).take(MAX_SUGGESTIONS).collect()
}

/// Whether a word ends a longer name: `depth` ends `max-depth`, and says what it is about.
pub fn is_last_word(word: &str, name: &str) -> bool {
    name.rsplit_once('-').is_some_and(|(_, last)| last == word)
}

/// `; did you mean '--a', '--b' or '--c'?`, or nothing without names.
pub fn did_you_mean(names: &[&str], prefix: &str) -> String {
    match names {
        [] => String::new(),
        names => {
            let quoted: Vec<String> = names.iter().map(|name| format!("'{prefix}{name}'")).collect();
            format!("; did you mean {}?", listed(&quoted, "or"))
        }
    }
}

/// `a, b or c`, with the word before the last one.
pub fn listed(names: &[String], word: &str) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} {word} {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_similar_names_are_suggested() {
        let names = ["delay", "dead-after", "max-pages", "max-bytes", "user-agent", "crawl", "why"];
        for (word, suggested) in [
            ("dleay", &["delay"][..]),
            ("max-page", &["max-pages"]),
            ("max", &["max-pages", "max-bytes"]),
            ("user", &["user-agent"]),
            ("agent", &["user-agent"]),
            ("pages", &["max-pages"]),
            ("craw", &["crawl"]),
            ("wyh", &["why"]),
            ("header", &[]),
            ("ma", &[]),
            ("x", &[]),
            ("", &[]),
        ] {
            assert_eq!(similar(word, names.into_iter()), suggested, "{word}");
        }
    }
}
