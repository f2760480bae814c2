//! Measures how well sketches distinguish similar pages from others, compared with the exact sets.

use std::time::Duration;

use super::corpus::{CorpusRandom, EDITS, Edit, edited, pages};
use super::manual;
use super::*;

const NOW: Duration = Duration::ZERO;

/// Counts pages and how many of them the index found.
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

/// A threshold, the Dice coefficient from which nearly all pages must be found, and the one up to which nearly none may
/// be found.
#[derive(Clone, Copy)]
struct ErrorBounds {
    threshold: f64,
    near: f64,
    far: f64,
}

/// What the estimates find.
fn find(index: &Index, page: &Fingerprint, not_from: u64) -> Option<Match> {
    match index.find(page, not_from, NOW, None) {
        Lookup::Match(found) => Some(found),
        Lookup::New | Lookup::Undecided(_) => None,
    }
}

const DEFAULT: ErrorBounds = ErrorBounds { threshold: 0.9, near: 0.93, far: 0.85 };

/// Edits pages to a Dice coefficient close to either bound and looks them up among all pages. Returns how many were
/// found of those at or above `near`, and of those at or below `far`.
fn look_up(pages: &[String], edits: &[Edit], bounds: ErrorBounds, pairs: usize) -> (Tally, Tally) {
    let ErrorBounds { threshold, near, far } = bounds;
    let mut index = Index::new(Threshold::new(threshold).expect("a threshold"), Duration::from_secs(3600));
    let originals: Vec<ExactPage> = pages.iter().map(|page| ExactPage::new(page)).collect();
    for (url, page) in originals.iter().enumerate() {
        index.insert(&page.fingerprint, url as u64, NOW);
    }
    let mut random = CorpusRandom::new(1);
    let (mut similar, mut different) = (Tally::default(), Tally::default());
    for (page, original) in pages.iter().zip(&originals).cycle().take(pairs) {
        let edit = edits[random.below(edits.len())];
        let bound = if random.below(2) == 0 { near + 0.02 } else { far - 0.05 };
        let page =
            ExactPage::new(&edited(page, edit, 1.0 - bound + (random.share() - 0.5) * 0.06, &mut random));
        if page.shingles.len() < MIN_SHINGLES || original.shingles.len() < MIN_SHINGLES {
            continue;
        }
        let found = find(&index, &page.fingerprint, u64::MAX);
        match original.dice(&page) {
            dice if dice >= near => similar.add(found.is_some()),
            // The page may be similar to another page than its original.
            dice if dice <= far => different.add(
                matches!(found, Some(Match::NearDuplicate(url)) if originals[url as usize].dice(&page) <= far),
            ),
            _ => {}
        }
    }
    (similar, different)
}

fn check(pages: &[String], edits: &[Edit], bounds: ErrorBounds, pairs: usize) {
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
    let min_pairs = pairs as u32 / 4;
    assert!(similar.pairs > min_pairs && different.pairs > min_pairs, "the edits miss the bounds: {report}");
}

#[test]
fn nearly_all_near_duplicates_and_nearly_no_others_are_found() {
    check(&pages(), &EDITS, DEFAULT, 4_000);
}

#[test]
#[ignore = "needs postgresql-doc: run by make test"]
fn nearly_all_near_duplicates_in_a_real_manual_and_nearly_no_others_are_found() {
    let pages = manual::pages();
    check(&pages, &[Edit::Scattered, Edit::Thinned], DEFAULT, 3_000);
    check(&pages, &[Edit::Rewritten, Edit::Cut, Edit::Inserted], DEFAULT, 3_000);
}

#[test]
#[ignore = "needs postgresql-doc: run by make test"]
fn nearly_no_page_of_a_real_manual_is_a_near_duplicate_of_another() {
    let pages: Vec<ExactPage> = manual::pages().iter().map(|page| ExactPage::new(page)).collect();
    let mut index =
        Index::new(Threshold::new(DEFAULT.threshold).expect("a threshold"), Duration::from_secs(3600));
    let mut wrong = Tally::default();
    for (url, page) in pages.iter().enumerate() {
        let found = find(&index, &page.fingerprint, url as u64);
        wrong.add(
            matches!(found, Some(Match::NearDuplicate(other)) if pages[other as usize].dice(page) <= DEFAULT.far),
        );
        index.insert(&page.fingerprint, url as u64, NOW);
    }
    let report = format!("{:.4} of {} pages wrongly found as near-duplicates", wrong.share(), wrong.pairs);
    println!("{report}");
    assert!(wrong.share() <= 0.005, "{report}");
}

#[test]
fn bands_and_maximum_distance_follow_the_threshold() {
    check(&pages(), &EDITS, ErrorBounds { threshold: 0.8, near: 0.85, far: 0.72 }, 1_000);
    check(&pages(), &EDITS, ErrorBounds { threshold: 0.95, near: 0.97, far: 0.91 }, 1_000);
}

#[test]
fn similarity_of_sketches_estimates_that_of_the_sets() {
    let mut random = CorpusRandom::new(2);
    let (mut sum, mut squares, mut count) = (0.0, 0.0, 0.0);
    for page in pages().iter().cycle().take(500) {
        let body = edited(page, Edit::Scattered, random.share() * 0.6, &mut random);
        let (a, b) = (ExactPage::new(page), ExactPage::new(&body));
        let (Some(sketch), Some(other)) = (&a.fingerprint.sketch, &b.fingerprint.sketch) else { continue };
        let error = sketch.similarity(other) - a.dice(&b);
        (sum, squares, count) = (sum + error, squares + error * error, count + 1.0);
    }
    let (bias, deviation) = (f64::abs(sum / count), f64::sqrt(squares / count));
    println!("bias {bias:.4}, deviation {deviation:.4}");
    assert!(count > 400.0 && bias < 0.005 && deviation < 0.025, "bias {bias:.4}, deviation {deviation:.4}");
}

/// A page to compare exactly.
fn html_page(body: &str) -> PageBody<'_> {
    let content_type = ContentType { media: Media::Html, charset: None };
    PageBody { url: "http://example.org/dir/page.html", content_type, body: body.as_bytes() }
}

/// How many pages at a Dice coefficient of about `dice` to a stored page are found: by the estimates, and if border cases
/// are compared exactly.
fn found_at(dice: f64) -> (Tally, Tally) {
    let (key, threshold) = (HashKey::new(KEY), Threshold::new(0.9).expect("a threshold"));
    let (mut estimated, mut compared) = (Tally::default(), Tally::default());
    let mut random = CorpusRandom::new(3);
    let pages: Vec<String> =
        pages().into_iter().filter(|page| (1_000..6_000).contains(&page.len())).collect();
    let originals: Vec<ExactPage> = pages.iter().map(|page| ExactPage::new(page)).collect();
    for (original, one) in pages.iter().zip(&originals).cycle().take(2_500) {
        let edit = EDITS[random.below(EDITS.len())];
        let body = edited(original, edit, 1.0 - dice + (random.share() - 0.5) * 0.02, &mut random);
        let two = ExactPage::new(&body);
        if (one.dice(&two) - dice).abs() > 0.0025 {
            continue;
        }
        let mut index = Index::new(threshold, Duration::from_secs(3600));
        index.insert(&one.fingerprint, 1, NOW);
        estimated.add(find(&index, &two.fingerprint, 2).is_some());
        let mut verdicts = Verdicts::default();
        let found = match index.find(&two.fingerprint, 2, NOW, Some(&verdicts)) {
            Lookup::Undecided(_) => {
                let (strip_query, page) = (nothing(), html_page(&body));
                let comparison = ExactComparison::new(key, &strip_query, page);
                let shingles = comparison.shingles_of(&html_page(original));
                verdicts.add(1, comparison.is_near_duplicate(&shingles, threshold));
                index.find(&two.fingerprint, 2, NOW, Some(&verdicts))
            }
            decided => decided,
        };
        compared.add(found != Lookup::New);
        if compared.pairs == 500 {
            break;
        }
    }
    (estimated, compared)
}

#[test]
fn verdict_at_the_border_is_exact_if_bodies_are_stored() {
    for (dice, is_duplicate) in
        [(0.87, false), (0.89, false), (0.897, false), (0.903, true), (0.91, true), (0.93, true)]
    {
        let (estimated, compared) = found_at(dice);
        let wrong = |tally: &Tally| if is_duplicate { 1.0 - tally.share() } else { tally.share() };
        let report = format!(
            "at {dice}, {} pairs: {:.4} wrong by the estimate, {:.4} by the comparison",
            compared.pairs,
            wrong(&estimated),
            wrong(&compared)
        );
        println!("{report}");
        assert!(compared.pairs >= 80 && wrong(&compared) == 0.0, "{report}");
    }
}
