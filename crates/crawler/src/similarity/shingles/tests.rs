//! Tests of shingling.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

impl ShingleSink for HashSet<u64> {
    fn add(&mut self, shingle: u64) {
        self.insert(shingle);
    }
}

fn html(runs: &[&str]) -> HashSet<u64> {
    let mut hasher = ShingleHasher::new(HashKey::new(7), HashSet::new());
    runs.iter().for_each(|run| hasher.html_text(run.as_bytes()));
    hasher.shingles
}

fn plain(text: &[u8]) -> HashSet<u64> {
    let mut hasher = ShingleHasher::new(HashKey::new(7), HashSet::new());
    hasher.plain_text(text);
    hasher.shingles
}

#[test]
fn every_two_consecutive_words_are_a_shingle() {
    assert_eq!(html(&[""]).len(), 0);
    assert_eq!(html(&["one"]).len(), 0);
    assert_eq!(html(&["one two"]).len(), 1);
    assert_eq!(html(&["one two one two three"]).len(), 3);
    assert!(html(&["one two"]).is_disjoint(&html(&["two one"])));
    assert!(html(&["on etwo"]).is_disjoint(&html(&["one two"])));
}

#[test]
fn case_and_separators_do_not_matter() {
    let same = html(&["the 2nd café: straße, été"]);
    assert_eq!(html(&["  The--2ND\u{a0}CAFÉ\n\u{2014}\u{3000}Straße (ÉTÉ)\u{0}"]), same);
}

#[test]
fn markup_ends_a_word_but_not_a_shingle() {
    assert_eq!(html(&["one ", "", "two", "three"]), html(&["one two three"]));
}

#[test]
fn character_references_are_decoded_in_html_only() {
    let same = html(&["the café & the bar < one"]);
    assert_eq!(html(&["the caf&eacute; &amp; t&#104;e&nbsp;&#x62;ar&lt;one"]), same);
    assert_eq!(html(&["the caf&eacute &; &# the bar &one"]), html(&["the café the bar one"]));
    assert_eq!(plain(b"a&amp;b"), html(&["a amp b"]));
    assert_eq!(html(&["&", "&#", "&x"]).len(), 0);
}

#[test]
fn invalid_utf8_separates_words() {
    assert_eq!(plain(b"one\xFFtwo\xC3three \xE2\x82four"), html(&["one two three four"]));
}

#[test]
fn link_target_is_one_shingle() {
    let mut hasher = ShingleHasher::new(HashKey::new(7), HashSet::new());
    for url in ["http://a.test/", "http://a.test/b", "http://a.test/", "http://a.test/b\0"] {
        hasher.link_target(HashKey::new(7).hash(url.as_bytes()));
    }
    assert_eq!(hasher.shingles.len(), 3);
}

#[test]
fn hashes_depend_on_the_key() {
    let mut hasher = ShingleHasher::new(HashKey::new(8), HashSet::new());
    hasher.html_text(b"one two three");
    assert!(hasher.shingles.is_disjoint(&html(&["one two three"])));
}

/// The shingles by definition, without optimisation.
fn reference_shingles(text: &str) -> HashSet<(String, String)> {
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
    fn shingles_agree_with_the_reference_implementation(text in "([a-cA-C0é東İ\u{301}&;# \n<-]|\\PC){0,60}") {
        prop_assert_eq!(plain(text.as_bytes()).len(), reference_shingles(&text).len());
        let decoded = htmlize::unescape(text.as_str());
        prop_assert_eq!(html(&[&text]), plain(decoded.as_bytes()));
    }
}
