//! The conformance tests of duplicates.

use super::*;

pub async fn duplicate_with_followed_links_is_fetched_again(backend: impl Backend) {
    backend.admit(vec![discovered("http://a/", 7), discovered("http://b/", 7)]).await.unwrap();
    run_frontier(&backend).await;
    for lease in [lease_all(&backend, FIRST).await, lease_all(&backend, SECOND).await].concat() {
        let links_followed = &*lease.url == "http://b/";
        let outcome = Outcome::near_duplicate("http://c/".into(), links_followed);
        backend.complete(vec![Completion { outcome, ..page(&lease, Vec::new()) }]).await.unwrap();
    }
    backend.admit(vec![discovered("http://a/", 3), discovered("http://b/", 3)]).await.unwrap();
    run_frontier(&backend).await;
    let refetches = [lease_all(&backend, FIRST).await, lease_all(&backend, SECOND).await].concat();
    assert_eq!(urls(&refetches), ["http://b/"]);
}

/// Words of a text, all different.
fn words(text: usize, from: usize, to: usize) -> String {
    (from..to).map(|word| format!("t{text}w{word} ")).collect()
}

async fn store(backend: &impl Backend, url: &str, body: &str) -> ContentMatch {
    let fingerprint = Fingerprint::of_text(backend.hash_key(), None, body.as_bytes());
    backend.store_content(url, &fingerprint, body.as_bytes(), false).await.unwrap()
}

pub async fn seed_is_stored_although_it_is_a_duplicate(backend: impl Backend) {
    let (body, similar) = (words(0, 0, 400), words(0, 2, 402));
    assert_eq!(store(&backend, "http://a/", &body).await, ContentMatch::New);
    for (url, body) in [("http://b/", &body), ("http://c/", &similar)] {
        let fingerprint = Fingerprint::of_text(backend.hash_key(), None, body.as_bytes());
        let result = backend.store_content(url, &fingerprint, body.as_bytes(), true).await.unwrap();
        assert_eq!(result, ContentMatch::New);
        assert_eq!(backend.load_content(url).await.unwrap().as_deref(), Some(body.as_bytes()));
    }
    assert_eq!(backend.snapshot().await.unwrap().stored_pages, 3);
    assert_eq!(store(&backend, "http://d/", &similar).await, ContentMatch::Duplicate("http://c/".into()));
}

/// Two texts with `shared` common shingles of 400, which the sketches misjudge. They share an index band.
fn misjudged(backend: &impl Backend, first: usize, shared: usize) -> [String; 2] {
    let threshold = Threshold::new(0.9).unwrap();
    let pairs = (first..).map(|text| [words(text, 0, 401), words(text, 400 - shared, 801 - shared)]);
    let is_misjudged = |bodies: &[String; 2]| {
        let sketches = bodies
            .each_ref()
            .map(|body| Fingerprint::of_text(backend.hash_key(), None, body.as_bytes()).sketch.unwrap());
        let [one, two] = &sketches;
        let share_a_band = threshold.bands(one).zip(threshold.bands(two)).any(|(one, two)| one == two);
        let Estimate::Border { is_similar, .. } = threshold.estimate(one, two) else { return false };
        share_a_band && is_similar != (shared >= 360)
    };
    pairs.into_iter().find(is_misjudged).unwrap()
}

pub async fn true_similarity_decides_where_the_estimate_is_close_to_the_threshold(backend: impl Backend) {
    for (number, shared) in [352, 356, 358, 362, 364, 368].into_iter().enumerate() {
        let [one, two] = misjudged(&backend, number * 10_000, shared);
        let (first, second) = (format!("http://{number}/1"), format!("http://{number}/2"));
        assert_eq!(store(&backend, &first, &one).await, ContentMatch::New);
        let expected = if shared >= 360 { ContentMatch::NearDuplicate(first) } else { ContentMatch::New };
        assert_eq!(store(&backend, &second, &two).await, expected, "{shared} of 400");
    }
}

pub async fn estimate_decides_without_stored_bodies(backend: impl Backend) {
    for (number, shared) in [356, 364].into_iter().enumerate() {
        let [one, two] = misjudged(&backend, number * 10_000, shared);
        let (first, second) = (format!("http://{number}/1"), format!("http://{number}/2"));
        assert_eq!(store(&backend, &first, &one).await, ContentMatch::New);
        let expected = if shared < 360 { ContentMatch::NearDuplicate(first) } else { ContentMatch::New };
        assert_eq!(store(&backend, &second, &two).await, expected, "{shared} of 400");
    }
}

pub async fn duplicate_is_not_stored_and_a_page_is_not_its_own_duplicate(backend: impl Backend) {
    let words = |from: usize, to: usize| words(0, from, to);
    let store = async |url: &str, body: &str| store(&backend, url, body).await;
    let first = words(0, 400);
    assert_eq!(store("http://a/", &first).await, ContentMatch::New);
    assert_eq!(store("http://a/", &first).await, ContentMatch::New, "delivered again");
    assert_eq!(store("http://b/", &first).await, ContentMatch::Duplicate("http://a/".into()));
    assert_eq!(store("http://c/", &words(4, 404)).await, ContentMatch::NearDuplicate("http://a/".into()));
    assert_eq!(store("http://d/", &words(200, 600)).await, ContentMatch::New);
    assert_eq!(backend.load_content("http://a/").await.unwrap().as_deref(), Some(first.as_bytes()));
    assert_eq!(backend.load_content("http://b/").await.unwrap(), None);
    assert_eq!(backend.snapshot().await.unwrap().stored_pages, 2);
    advance(&backend, 61 * MINUTE).await;
    assert_eq!(backend.load_content("http://a/").await.unwrap(), None, "after its TTL");
    assert_eq!(store("http://b/", &first).await, ContentMatch::New);
}
