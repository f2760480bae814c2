//! How well sketches tell similar pages from others, against the sets themselves.

use std::time::Duration;

use super::corpus::{EDITS, Edit, Random, edited, pages};
use super::manual;
use super::*;

const NOW: Duration = Duration::ZERO;

/// What became of edited pages that had to be found, or not to be.
#[derive(Default)]
struct Tally {
    pairs: u32,
    found: u32,
}

impl Tally {
    fn add(&mut self, found: bool) {
        self.pairs += 1;
        self.found += u32::from(found);
    }

    fn share(&self) -> f64 {
        f64::from(self.found) / f64::from(self.pairs)
    }
}

/// A threshold, the Dice coefficient from which on nearly all pages have to be found, and that up to which
/// nearly none may be.
#[derive(Clone, Copy)]
struct Bounds {
    threshold: f64,
    near: f64,
    far: f64,
}

const DEFAULT: Bounds = Bounds { threshold: 0.9, near: 0.93, far: 0.85 };

/// Edits pages to a Dice coefficient near either bound and looks them up among all pages. Returns how many were
/// found, of those at or above `near` and of those at or below `far`.
fn look_up(pages: &[String], edits: &[Edit], bounds: Bounds, pairs: usize) -> (Tally, Tally) {
    let Bounds { threshold, near, far } = bounds;
    let mut index = Index::new(Threshold::new(threshold).expect("a threshold"), Duration::from_secs(3600));
    let originals: Vec<Measured> = pages.iter().map(|page| Measured::new(page)).collect();
    for (url, page) in originals.iter().enumerate() {
        index.insert(&page.fingerprint, url as u64, NOW);
    }
    let mut random = Random::new(1);
    let (mut similar, mut different) = (Tally::default(), Tally::default());
    for (page, original) in pages.iter().zip(&originals).cycle().take(pairs) {
        let edit = edits[random.below(edits.len())];
        let bound = if random.below(2) == 0 { near + 0.02 } else { far - 0.05 };
        let page =
            Measured::new(&edited(page, edit, 1.0 - bound + (random.share() - 0.5) * 0.06, &mut random));
        if page.sequences.len() < MIN_SEQUENCES || original.sequences.len() < MIN_SEQUENCES {
            continue;
        }
        let found = index.find(&page.fingerprint, u64::MAX, NOW);
        match original.dice(&page) {
            dice if dice >= near => similar.add(found.is_some()),
            // It may really be similar to another page.
            dice if dice <= far => different.add(
                matches!(found, Some(Match::Similar(url)) if originals[url as usize].dice(&page) <= far),
            ),
            _ => {}
        }
    }
    (similar, different)
}

fn check(pages: &[String], edits: &[Edit], bounds: Bounds, pairs: usize) {
    let (similar, different) = look_up(pages, edits, bounds, pairs);
    let report = format!(
        "threshold {}, {edits:?}: {:.4} of {} similar and {:.4} of {} different pages found",
        bounds.threshold,
        similar.share(),
        similar.pairs,
        different.share(),
        different.pairs
    );
    println!("{report}");
    assert!(similar.share() >= 0.99 && different.share() <= 0.005, "{report}");
    let least = pairs as u32 / 4;
    assert!(similar.pairs > least && different.pairs > least, "the edits miss the bounds: {report}");
}

#[test]
fn nearly_all_similar_pages_are_found_and_nearly_no_others() {
    check(&pages(), &EDITS, DEFAULT, 4_000);
}

#[test]
#[ignore = "needs postgresql-doc; make test installs it"]
fn nearly_all_similar_pages_of_a_real_manual_are_found_and_nearly_no_others() {
    let pages = manual::pages();
    check(&pages, &[Edit::Scattered, Edit::Thinned], DEFAULT, 3_000);
    check(&pages, &[Edit::Rewritten, Edit::Cut, Edit::Inserted], DEFAULT, 3_000);
}

#[test]
#[ignore = "needs postgresql-doc; make test installs it"]
fn nearly_no_page_of_a_real_manual_is_taken_for_another() {
    let pages: Vec<Measured> = manual::pages().iter().map(|page| Measured::new(page)).collect();
    let mut index =
        Index::new(Threshold::new(DEFAULT.threshold).expect("a threshold"), Duration::from_secs(3600));
    let mut wrong = Tally::default();
    for (url, page) in pages.iter().enumerate() {
        let found = index.find(&page.fingerprint, url as u64, NOW);
        wrong.add(
            matches!(found, Some(Match::Similar(other)) if pages[other as usize].dice(page) <= DEFAULT.far),
        );
        index.insert(&page.fingerprint, url as u64, NOW);
    }
    let report = format!("{:.4} of {} pages taken for another", wrong.share(), wrong.pairs);
    println!("{report}");
    assert!(wrong.share() <= 0.005, "{report}");
}

#[test]
fn bands_and_cut_follow_the_threshold() {
    check(&pages(), &EDITS, Bounds { threshold: 0.8, near: 0.85, far: 0.72 }, 1_000);
    check(&pages(), &EDITS, Bounds { threshold: 0.95, near: 0.97, far: 0.91 }, 1_000);
}

#[test]
fn the_likeness_of_sketches_is_about_that_of_the_sets() {
    let mut random = Random::new(2);
    let (mut sum, mut squares, mut count) = (0.0, 0.0, 0.0);
    for page in pages().iter().cycle().take(500) {
        let body = edited(page, Edit::Scattered, random.share() * 0.6, &mut random);
        let (a, b) = (Measured::new(page), Measured::new(&body));
        let (Some(sketch), Some(other)) = (&a.fingerprint.sketch, &b.fingerprint.sketch) else { continue };
        let error = sketch.likeness(other) - a.dice(&b);
        (sum, squares, count) = (sum + error, squares + error * error, count + 1.0);
    }
    let (bias, deviation) = (f64::abs(sum / count), f64::sqrt(squares / count));
    println!("bias {bias:.4}, deviation {deviation:.4}");
    assert!(count > 400.0 && bias < 0.005 && deviation < 0.025, "bias {bias:.4}, deviation {deviation:.4}");
}
