//! Tests of the similarity index.

use super::*;
use crate::similarity::{Estimate, HashKey, MAX_COMPARISONS, Sketch};

const HOUR: Duration = Duration::from_secs(3600);
const START: Duration = Duration::ZERO;

fn index() -> Index {
    Index::new(Threshold::new(0.9).expect("a threshold"), HOUR)
}

/// The fingerprint of a page that contains only its number.
fn small(number: u64) -> Fingerprint {
    Fingerprint::exact(HashKey::new(1), &number.to_le_bytes())
}

/// The fingerprint of a page of 400 words. All but the last `changed` words are unique to the number.
fn large(number: u64, changed: usize) -> Fingerprint {
    let word = |at| if at < 400 - changed { format!("w{number}x{at} ") } else { format!("c{changed}x{at} ") };
    Fingerprint::of_text(HashKey::new(1), None, (0..400).map(word).collect::<String>().as_bytes())
}

/// What the estimates find.
fn find(index: &Index, fingerprint: &Fingerprint, not_from: u64, now: Duration) -> Option<Match> {
    match index.find(fingerprint, not_from, now, None) {
        Lookup::Match(found) => Some(found),
        Lookup::New => None,
        Lookup::Undecided(pages) => panic!("{pages:?} without bodies"),
    }
}

#[test]
fn duplicate_is_found_only_under_another_url() {
    let mut index = index();
    for page in [small(1), large(1, 0)] {
        index.insert(&page, 10, START);
        assert_eq!(find(&index, &page, 10, START), None);
        assert_eq!(find(&index, &page, 11, START), Some(Match::Duplicate(10)));
    }
    assert_eq!(find(&index, &small(2), 11, START), None);
}

#[test]
fn page_stored_twice_is_found_under_the_other_url() {
    for order in [[1, 2], [2, 1]] {
        let mut index = index();
        for url in order {
            index.insert(&large(1, 0), url, START);
        }
        assert_eq!(find(&index, &large(1, 0), 1, START), Some(Match::Duplicate(2)));
        assert_eq!(find(&index, &large(1, 0), 2, START), Some(Match::Duplicate(1)));
    }
}

#[test]
fn near_duplicate_is_found_and_a_duplicate_wins() {
    let mut index = index();
    index.insert(&large(1, 0), 1, START);
    index.insert(&large(1, 10), 2, START);
    index.insert(&large(2, 0), 3, START);
    assert_eq!(find(&index, &large(1, 0), 9, START), Some(Match::Duplicate(1)));
    assert!(matches!(find(&index, &large(1, 5), 9, START), Some(Match::NearDuplicate(1 | 2))));
    assert_eq!(find(&index, &large(1, 5), 2, START), Some(Match::NearDuplicate(1)));
    assert_eq!(find(&index, &large(1, 200), 9, START), None);
    assert_eq!(find(&index, &large(3, 0), 9, START), None);
}

#[test]
fn threshold_one_matches_duplicates_only() {
    let mut index = Index::new(Threshold::new(1.0).expect("a threshold"), HOUR);
    index.insert(&large(1, 0), 1, START);
    assert_eq!(find(&index, &large(1, 0), 2, START), Some(Match::Duplicate(1)));
    assert_eq!(find(&index, &large(1, 1), 2, START), None);
    let sketch = large(1, 0).sketch.expect("many words");
    assert_eq!(index.threshold.estimate(&sketch, &sketch), Estimate::Different);
}

#[test]
fn page_expires_after_the_ttl_and_not_before() {
    let mut index = index();
    index.insert(&large(1, 0), 1, START);
    index.insert(&large(2, 0), 2, START + HOUR / 2);
    let (almost, hour) = (HOUR - Duration::from_millis(1), HOUR);
    assert_eq!(find(&index, &large(1, 0), 9, almost), Some(Match::Duplicate(1)));
    assert_eq!(find(&index, &large(1, 0), 9, hour), None, "an expired page is not found before its removal");
    index.remove_expired(almost);
    assert_eq!(index.len(), 2);
    index.remove_expired(hour);
    assert_eq!(index.len(), 1);
    assert_eq!(find(&index, &large(1, 3), 9, hour), None);
    assert_eq!(find(&index, &large(2, 3), 9, hour), Some(Match::NearDuplicate(2)));
    index.remove_expired(hour * 2);
    assert!(index.is_empty());
    assert!(index.newest.iter().all(HashTable::is_empty), "all tables are empty");
}

#[test]
fn index_agrees_with_a_model() {
    let mut index = index();
    index.oldest = u32::MAX - 150;
    for step in 0..500u64 {
        let now = Duration::from_secs(step * 60);
        index.remove_expired(now);
        index.insert(&small(step % 90), step, now);
        index.insert(&large(step % 7, 0), step, now);
        let alive = step.saturating_sub(59)..=step;
        for number in 0..100 {
            let newest = alive.clone().rev().find(|stored| stored % 90 == number);
            assert_eq!(
                find(&index, &small(number), u64::MAX, now),
                newest.map(Match::Duplicate),
                "{number} at {step}"
            );
        }
        assert_eq!(index.len(), alive.count() * 2);
    }
    assert!(index.oldest < 1000, "numbers wrapped around");
}

#[test]
fn number_of_candidates_is_limited_however_many_pages_share_a_key() {
    let mut index = index();
    let mut page = large(1, 0);
    let inverted = |sketch: &Sketch| Sketch { bits: sketch.bits.map(|bits| !bits), ..sketch.clone() };
    page.sketch = page.sketch.map(|sketch| Box::new(inverted(&sketch)));
    for url in 0..1000u64 {
        page.exact = url.into();
        index.insert(&page, url, START);
    }
    let sketch = large(1, 0).sketch.expect("many words");
    for (band, key) in index.threshold.bands(&sketch).enumerate() {
        assert_eq!(index.pages_with_key(band + 1, key as u32).count(), MAX_CANDIDATES);
    }
    assert_eq!(find(&index, &large(1, 0), 5000, START), None);
}

#[test]
fn border_cases_are_compared_exactly_the_most_similar_first_and_a_limited_number_of_them() {
    let mut index = index();
    let page = large(1, 0);
    // About 0.9, and far more of them than are compared.
    for url in 0..40 {
        index.insert(&large(1, 36 + url as usize % 8), url, START);
    }
    let mut verdicts = Verdicts::default();
    let Lookup::Undecided(pages) = index.find(&page, 99, START, Some(&verdicts)) else { panic!("decided") };
    assert_eq!(pages.len(), MAX_COMPARISONS);
    assert!(pages.is_sorted_by_key(|page| page.distance));
    verdicts.add(pages[0].url, false);
    assert_eq!(index.find(&page, 99, START, Some(&verdicts)), Lookup::Undecided(pages[1..].to_vec()));
    let mut similar = verdicts.clone();
    similar.add(pages[1].url, true);
    let found = Lookup::Match(Match::NearDuplicate(pages[1].url));
    assert_eq!(index.find(&page, 99, START, Some(&similar)), found);
    pages[1..].iter().for_each(|page| verdicts.add(page.url, false));
    assert_eq!(index.find(&page, 99, START, Some(&verdicts)), Lookup::New, "no more are compared");
    index.insert(&large(1, 2), 50, START);
    let found = Lookup::Match(Match::NearDuplicate(50));
    assert_eq!(index.find(&page, 99, START, Some(&verdicts)), found, "not a border case");
}

#[test]
fn forgotten_pages_are_not_found_and_their_memory_is_returned() {
    for threshold in [0.9, 1.0] {
        let mut index = Index::new(Threshold::new(threshold).expect("a threshold"), HOUR);
        index.insert(&large(1, 0), 1, START);
        let mut last = index.insert(&small(0), 2, START);
        // A page that changes again and again.
        for version in 1..1_000 {
            index.forget(last);
            if index.is_sparse() {
                assert_eq!(index.compact(), [(1, 0)], "the page of the other URL alone");
            }
            last = index.insert(&small(version), 2, START);
        }
        assert!(index.len() < 100, "{}", index.len());
        assert_eq!(find(&index, &small(998), 9, START), None, "an earlier version");
        assert_eq!(find(&index, &small(999), 9, START), Some(Match::Duplicate(2)));
        assert_eq!(find(&index, &large(1, 0), 9, START), Some(Match::Duplicate(1)));
    }
}
