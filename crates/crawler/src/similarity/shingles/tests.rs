use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

impl ShingleSink for HashSet<u64> {
    fn add(&mut self, sequence: u64) {
        self.insert(sequence);
    }
}

fn html(runs: &[&str]) -> HashSet<u64> {
    let mut words = ShingleHasher::new(HashKey::new(7), HashSet::new());
    runs.iter().for_each(|run| words.html_text(run.as_bytes()));
    words.sequences
}

fn plain(text: &[u8]) -> HashSet<u64> {
    let mut words = ShingleHasher::new(HashKey::new(7), HashSet::new());
    words.plain_text(text);
    words.sequences
}

#[test]
fn every_two_words_that_follow_each_other_are_a_sequence() {
    assert_eq!(html(&[""]).len(), 0);
    assert_eq!(html(&["one"]).len(), 0);
    assert_eq!(html(&["one two"]).len(), 1);
    assert_eq!(html(&["one two one two three"]).len(), 3);
    assert!(html(&["one two"]).is_disjoint(&html(&["two one"])));
    assert!(html(&["on etwo"]).is_disjoint(&html(&["one two"])));
}

#[test]
fn case_and_what_separates_words_do_not_matter() {
    let same = html(&["the 2nd café: straße, été"]);
    assert_eq!(html(&["  The--2ND\u{a0}CAFÉ\n\u{2014}\u{3000}Straße (ÉTÉ)\u{0}"]), same);
}

#[test]
fn a_tag_ends_a_word_and_not_a_sequence() {
    assert_eq!(html(&["one ", "", "two", "three"]), html(&["one two three"]));
}

#[test]
fn references_in_html_are_what_they_stand_for_and_in_text_are_not() {
    let same = html(&["the café & the bar < one"]);
    assert_eq!(html(&["the caf&eacute; &amp; t&#104;e&nbsp;&#x62;ar&lt;one"]), same);
    assert_eq!(html(&["the caf&eacute &; &# the bar &one"]), html(&["the café the bar one"]));
    assert_eq!(plain(b"a&amp;b"), html(&["a amp b"]));
    assert_eq!(html(&["&", "&#", "&x"]).len(), 0);
}

#[test]
fn bytes_that_are_no_utf8_separate_words() {
    assert_eq!(plain(b"one\xFFtwo\xC3three \xE2\x82four"), html(&["one two three four"]));
}

#[test]
fn a_target_is_a_sequence_of_its_own() {
    let mut words = ShingleHasher::new(HashKey::new(7), HashSet::new());
    for url in ["http://a.test/", "http://a.test/b", "http://a.test/", "http://a.test/b\0"] {
        words.target(url);
    }
    assert_eq!(words.sequences.len(), 3);
}

#[test]
fn another_key_gives_other_hashes() {
    let mut words = ShingleHasher::new(HashKey::new(8), HashSet::new());
    words.html_text(b"one two three");
    assert!(words.sequences.is_disjoint(&html(&["one two three"])));
}

/// The definition, without haste.
fn by_definition(text: &str) -> HashSet<(String, String)> {
    let lower = |word: &str| word.chars().flat_map(char::to_lowercase).collect::<String>();
    let words: Vec<String> = text
        .split(|character: char| !character.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(lower)
        .collect();
    words.windows(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
}

proptest! {
    #[test]
    fn as_many_sequences_are_found_as_the_definition_has(text in "([a-cA-C0é東İ\u{301}&;# \n<-]|\\PC){0,60}") {
        prop_assert_eq!(plain(text.as_bytes()).len(), by_definition(&text).len());
        let decoded = htmlize::unescape(text.as_str());
        prop_assert_eq!(html(&[&text]), plain(decoded.as_bytes()));
    }
}
