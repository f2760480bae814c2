//! The words of the crawl: which are the most frequent, in memory that does not grow with the vocabulary.
//!
//! A word is a run of letters and digits of what the page says, in lower case. Counts are exact as long as there
//! are at most [`MOST_WORDS`] different words. When there is one more, the rarer half makes room in the manner of
//! Misra and Gries: the count of the word in the middle is taken off every word, and those with nothing left are
//! forgotten. A count is then too low by at most what has been taken off so far, which the summary states; it never
//! exceeds two words in every `MOST_WORDS` seen.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

use super::Module;
use crate::page::Page;

/// How many different words are counted at once: more than a language has in common use, in some 10 MB.
pub const MOST_WORDS: usize = 100_000;

/// How many bytes a word may have. Longer runs are keys, hashes and encoded data; they are not counted.
pub const LONGEST_WORD: usize = 64;

/// How many words the summary names unless told otherwise.
pub const DEFAULT_TOP: usize = 20;

/// Counts the words of all pages, and names the most frequent at the end.
#[derive(Debug)]
pub struct WordCount {
    top: usize,
    counts: Mutex<WordCounts>,
}

impl WordCount {
    /// Will name so many words.
    pub fn new(top: usize) -> WordCount {
        WordCount { top, counts: Mutex::new(WordCounts::new(MOST_WORDS)) }
    }
}

impl Module for WordCount {
    fn name(&self) -> &str {
        "words"
    }

    fn process_page(&self, page: &Page) -> Result<(), String> {
        // Counted by page first, so that threads wait for each other once a page and not once a word.
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
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| (1..=LONGEST_WORD).contains(&word.len()))
}

#[derive(Debug)]
struct WordCounts {
    counts: HashMap<String, u64>,
    most: usize,
    /// What has been taken off every count to make room.
    taken_off: u64,
    /// All words seen, repeats included.
    seen: u64,
}

impl WordCounts {
    fn new(most: usize) -> WordCounts {
        WordCounts { counts: HashMap::new(), most, taken_off: 0, seen: 0 }
    }

    fn add(&mut self, word: String, count: u64) {
        self.seen += count;
        *self.counts.entry(word).or_default() += count;
        if self.counts.len() > self.most {
            self.make_room();
        }
    }

    fn make_room(&mut self) {
        let mut all: Vec<u64> = self.counts.values().copied().collect();
        let middle = all.len() / 2;
        let less = *all.select_nth_unstable(middle).1;
        self.counts.retain(|_, count| {
            *count -= less.min(*count);
            *count > 0
        });
        self.taken_off += less;
    }

    fn summary(&self, top: usize) -> String {
        let mut ranked: Vec<(&str, u64)> =
            self.counts.iter().map(|(word, count)| (word.as_str(), *count)).collect();
        // Equal counts stand in the order of the alphabet, so that the same crawl says the same.
        ranked.sort_unstable_by(|(word, count), (other, its)| its.cmp(count).then(word.cmp(other)));
        let mut summary = match self.taken_off {
            0 => format!("{} words, {} different", self.seen, self.counts.len()),
            less => format!("{} words; counts may be too low by up to {less}", self.seen),
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
    fn words_are_counted_exactly_and_named_in_order() {
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
    fn a_word_is_a_run_of_letters_and_digits_of_bounded_length() {
        let long = "x".repeat(LONGEST_WORD + 1);
        let text = format!("a1-b2 {long} {} ,, λόγος", &long[1..]);
        assert_eq!(words(&text).collect::<Vec<_>>(), ["a1", "b2", &long[1..], "λόγος"]);
    }

    #[test]
    fn memory_is_bounded_and_counts_are_never_further_off_than_stated() {
        let mut counts = WordCounts::new(100);
        let mut truth: HashMap<String, u64> = HashMap::new();
        for round in 0..20_000u64 {
            // Half of all words are one of ten, the other half hardly ever the same twice.
            let word =
                if round % 2 == 0 { format!("often{}", round / 2 % 10) } else { format!("rare{round}") };
            *truth.entry(word.clone()).or_default() += 1;
            counts.add(word, 1);
            assert!(counts.counts.len() <= 100);
        }
        assert!(counts.taken_off > 0 && counts.taken_off <= 2 * 20_000 / 100, "{}", counts.taken_off);
        for often in 0..10 {
            let word = format!("often{often}");
            let (counted, real) = (counts.counts[&word], truth[&word]);
            assert!(counted <= real && counted + counts.taken_off >= real, "{word}: {counted} of {real}");
        }
        let summary = counts.summary(10);
        assert_eq!(summary.matches("often").count(), 10, "{summary}");
        assert!(summary.contains("too low by up to"), "{summary}");
    }

    #[test]
    fn a_full_vocabulary_is_still_exact() {
        let mut counts = WordCounts::new(100);
        for word in 0..100 {
            counts.add(format!("word{word}"), word + 1);
        }
        assert_eq!((counts.taken_off, counts.counts["word99"]), (0, 100));
        assert!(counts.summary(1).starts_with("5050 words, 100 different\n"), "{}", counts.summary(1));
    }
}
