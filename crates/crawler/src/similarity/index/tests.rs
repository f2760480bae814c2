use super::*;
use crate::similarity::{HashKey, Sketch};

const HOUR: Duration = Duration::from_secs(3600);
const START: Duration = Duration::ZERO;

fn index() -> Index {
    Index::new(Threshold::new(0.9).expect("a threshold"), HOUR)
}

/// The fingerprint of a page that says nothing but its number.
fn small(number: u64) -> Fingerprint {
    Fingerprint::exact(HashKey::new(1), &number.to_le_bytes())
}

/// The fingerprint of a page of many words, all of them different from those of any other number, but for the
/// last `changed`.
fn large(number: u64, changed: usize) -> Fingerprint {
    let word = |at| if at < 400 - changed { format!("w{number}x{at} ") } else { format!("c{changed}x{at} ") };
    Fingerprint::of_text(HashKey::new(1), None, (0..400).map(word).collect::<String>().as_bytes())
}

#[test]
fn the_same_content_is_found_under_another_url_only() {
    let mut index = index();
    for page in [small(1), large(1, 0)] {
        index.insert(&page, 10, START);
        assert_eq!(index.find(&page, 10, START), None);
        assert_eq!(index.find(&page, 11, START), Some(Match::Same(10)));
    }
    assert_eq!(index.find(&small(2), 11, START), None);
}

#[test]
fn a_page_stored_twice_is_still_found_under_the_other_url() {
    for order in [[1, 2], [2, 1]] {
        let mut index = index();
        order.iter().for_each(|&url| index.insert(&large(1, 0), url, START));
        assert_eq!(index.find(&large(1, 0), 1, START), Some(Match::Same(2)));
        assert_eq!(index.find(&large(1, 0), 2, START), Some(Match::Same(1)));
    }
}

#[test]
fn a_similar_page_is_found_and_the_same_one_before_it() {
    let mut index = index();
    index.insert(&large(1, 0), 1, START);
    index.insert(&large(1, 10), 2, START);
    index.insert(&large(2, 0), 3, START);
    assert_eq!(index.find(&large(1, 0), 9, START), Some(Match::Same(1)));
    assert!(matches!(index.find(&large(1, 5), 9, START), Some(Match::Similar(1 | 2))));
    assert_eq!(index.find(&large(1, 5), 2, START), Some(Match::Similar(1)));
    assert_eq!(index.find(&large(1, 200), 9, START), None);
    assert_eq!(index.find(&large(3, 0), 9, START), None);
}

#[test]
fn at_threshold_one_only_the_same_counts() {
    let mut index = Index::new(Threshold::new(1.0).expect("a threshold"), HOUR);
    index.insert(&large(1, 0), 1, START);
    assert_eq!(index.find(&large(1, 0), 2, START), Some(Match::Same(1)));
    assert_eq!(index.find(&large(1, 1), 2, START), None);
    let sketch = large(1, 0).sketch.expect("many words");
    assert!(!index.threshold.similar(&sketch, &sketch));
}

#[test]
fn a_page_is_forgotten_an_hour_after_it_was_stored_and_not_before() {
    let mut index = index();
    index.insert(&large(1, 0), 1, START);
    index.insert(&large(2, 0), 2, START + HOUR / 2);
    let (almost, hour) = (HOUR - Duration::from_millis(1), HOUR);
    assert_eq!(index.find(&large(1, 0), 9, almost), Some(Match::Same(1)));
    assert_eq!(index.find(&large(1, 0), 9, hour), None, "also before it is removed");
    index.remove_expired(almost);
    assert_eq!(index.len(), 2);
    index.remove_expired(hour);
    assert_eq!(index.len(), 1);
    assert_eq!(index.find(&large(1, 3), 9, hour), None);
    assert_eq!(index.find(&large(2, 3), 9, hour), Some(Match::Similar(2)));
    index.remove_expired(hour * 2);
    assert!(index.is_empty());
    assert!(index.newest.iter().all(HashTable::is_empty), "nothing is left of it in any table");
}

#[test]
fn pages_come_and_go_as_in_a_model_of_the_index() {
    let mut index = index();
    index.oldest = u32::MAX - 150;
    for step in 0..500u64 {
        let now = Duration::from_secs(step * 60);
        index.remove_expired(now);
        index.insert(&small(step % 90), step, now);
        index.insert(&large(step % 7, 0), step, now);
        let living = step.saturating_sub(59)..=step;
        for number in 0..100 {
            let newest = living.clone().rev().find(|stored| stored % 90 == number);
            assert_eq!(
                index.find(&small(number), u64::MAX, now),
                newest.map(Match::Same),
                "{number} at {step}"
            );
        }
        assert_eq!(index.len(), living.count() * 2);
    }
    assert!(index.oldest < 1000, "numbers wrapped around");
}

#[test]
fn a_look_up_takes_a_bounded_number_of_candidates_however_many_share_a_key() {
    let mut index = index();
    let mut page = large(1, 0);
    let far = |sketch: &Sketch| Sketch { bits: sketch.bits.map(|bits| !bits), ..sketch.clone() };
    page.sketch = page.sketch.map(|sketch| Box::new(far(&sketch)));
    for url in 0..1000u64 {
        page.exact = url.into();
        index.insert(&page, url, START);
    }
    let sketch = large(1, 0).sketch.expect("many words");
    for (band, key) in index.threshold.bands(&sketch).enumerate() {
        assert_eq!(index.under(band + 1, key as u32).count(), MOST_CANDIDATES);
    }
    assert_eq!(index.find(&large(1, 0), 5000, START), None);
}
