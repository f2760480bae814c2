//! Counts the most frequent words of the crawl, in bounded memory.
//!
//! A word is a run of letters and digits in the page's visible text, in lower case. Counts are exact for up to
//! [`MAX_WORDS`] distinct words. When there are more, the Misra-Gries algorithm makes room: the median count is
//! subtracted from every word, and words with nothing left are removed. A count is then too low by at most the total
//! subtracted so far, which the summary states. This error is at most two in every `MAX_WORDS` words counted.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

use super::BuiltinModule;
use crate::page::Page;

/// How many distinct words are counted at once: more than a language has in common use, in about 10 MB.
pub const MAX_WORDS: usize = 100_000;

/// The longest word counted, in bytes. Longer runs are keys, hashes and encoded data.
pub const MAX_WORD_BYTES: usize = 64;

/// How many words the summary lists by default.
pub const DEFAULT_TOP: usize = 20;

/// Counts the words of all pages and lists the most frequent in the summary.
#[derive(Debug)]
pub struct WordCount {
    top: usize,
    counts: Mutex<WordCounts>,
}

impl WordCount {
    /// A module whose summary lists the `top` most frequent words.
    pub fn new(top: usize) -> WordCount {
        WordCount { top, counts: Mutex::new(WordCounts::new(MAX_WORDS)) }
    }
}

impl BuiltinModule for WordCount {
    fn name(&self) -> &str {
        "words"
    }

    fn wants_found_on(&self) -> bool {
        false
    }

    fn process_page(&self, page: &Page) -> Result<(), String> {
        // Count the page first, so that threads take the lock once per page and not once per word.
        let text = page.text();
        let mut of_page: HashMap<&str, u64> = HashMap::new();
        for word in words(&text) {
            *of_page.entry(word).or_default() += 1;
        }
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        for (word, count) in of_page {
            counts.add(word.to_lowercase(), count);
        }
        Ok(())
    }

    fn is_blocking(&self) -> bool {
        false
    }

    fn summary(&self) -> Option<String> {
        Some(self.counts.lock().unwrap_or_else(PoisonError::into_inner).summary(self.top))
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| (1..=MAX_WORD_BYTES).contains(&word.len()))
}

#[derive(Debug)]
struct WordCounts {
    counts: HashMap<String, u64>,
    max_words: usize,
    /// The total subtracted from every count to make room.
    subtracted: u64,
    /// All words counted, with duplicates.
    total: u64,
}

impl WordCounts {
    fn new(max_words: usize) -> WordCounts {
        WordCounts { counts: HashMap::new(), max_words, subtracted: 0, total: 0 }
    }

    fn add(&mut self, word: String, count: u64) {
        self.total += count;
        *self.counts.entry(word).or_default() += count;
        if self.counts.len() > self.max_words {
            self.make_room();
        }
    }

    fn make_room(&mut self) {
        let mut all: Vec<u64> = self.counts.values().copied().collect();
        let middle = all.len() / 2;
        let median = *all.select_nth_unstable(middle).1;
        self.counts.retain(|_, count| {
            *count -= median.min(*count);
            *count > 0
        });
        self.subtracted += median;
    }

    fn summary(&self, top: usize) -> String {
        let mut ranked: Vec<(&str, u64)> =
            self.counts.iter().map(|(word, count)| (word.as_str(), *count)).collect();
        // Equal counts in alphabetical order, so that the summary is reproducible.
        ranked.sort_unstable_by(|(word, count), (other, its)| its.cmp(count).then(word.cmp(other)));
        let mut summary = match self.subtracted {
            0 => format!("{} words, {} distinct", self.total, self.counts.len()),
            error => format!("{} words; counts may be too low by up to {error}", self.total),
        };
        for (word, count) in ranked.iter().take(top) {
            let _ = write!(summary, "\n{count:>9} {word}");
        }
        summary
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules::example;

    #[test]
    fn counts_are_exact_and_listed_in_order() {
        let words = WordCount::new(3);
        for body in
            ["<title>Not shown</title><p>The cat, the DOG<br>the 7 cats' İz", "<p>Zoë&shy; zoë the-cat"]
        {
            words.process_page(&example::page("http://a.test/", body.as_bytes(), &[])).unwrap();
        }
        let counted = words.summary().unwrap();
        let expected = "\n        4 the\n        2 cat\n        2 zoë";
        assert!(counted.ends_with(expected), "{counted}");
    }

    #[test]
    fn word_is_a_run_of_letters_and_digits_of_bounded_length() {
        let long = "x".repeat(MAX_WORD_BYTES + 1);
        let text = format!("a1-b2 {long} {} ,, λόγος", &long[1..]);
        assert_eq!(words(&text).collect::<Vec<_>>(), ["a1", "b2", &long[1..], "λόγος"]);
    }

    #[test]
    fn memory_is_bounded_and_the_stated_error_holds() {
        let mut counts = WordCounts::new(100);
        let mut truth: HashMap<String, u64> = HashMap::new();
        for round in 0..20_000u64 {
            // Half of all words are one of ten; the others are all distinct.
            let word =
                if round % 2 == 0 { format!("often{}", round / 2 % 10) } else { format!("rare{round}") };
            *truth.entry(word.clone()).or_default() += 1;
            counts.add(word, 1);
            assert!(counts.counts.len() <= 100);
        }
        assert!(counts.subtracted > 0 && counts.subtracted <= 2 * 20_000 / 100, "{}", counts.subtracted);
        for often in 0..10 {
            let word = format!("often{often}");
            let (counted, real) = (counts.counts[&word], truth[&word]);
            assert!(counted <= real && counted + counts.subtracted >= real, "{word}: {counted} of {real}");
        }
        let summary = counts.summary(10);
        assert_eq!(summary.matches("often").count(), 10, "{summary}");
        assert!(summary.contains("too low by up to"), "{summary}");
    }

    #[test]
    fn counts_are_exact_at_the_limit() {
        let mut counts = WordCounts::new(100);
        for word in 0..100 {
            counts.add(format!("word{word}"), word + 1);
        }
        assert_eq!((counts.subtracted, counts.counts["word99"]), (0, 100));
        assert!(counts.summary(1).starts_with("5050 words, 100 distinct\n"), "{}", counts.summary(1));
    }
}
