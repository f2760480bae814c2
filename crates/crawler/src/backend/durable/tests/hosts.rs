//! What is kept of hosts across ends.

use std::time::Duration;

use super::super::super::{Backend, Completion, HostDelay};
use super::{Life, ROOM, begin, found};
use crate::backend::local::storage::Storage;
use crate::outcome::Outcome;

const DELAY: Duration = Duration::from_secs(1);

fn life(max_pages_per_host: u64) -> Life {
    let mut begin = begin(7);
    begin.delay = DELAY;
    begin.settings.max_pages_per_host = max_pages_per_host;
    Life::of(begin, ROOM)
}

/// The hosts that have a row.
fn rows(life: &Life) -> Vec<String> {
    let state = life.backend().shared.state();
    state.storage.view.hosts_after("", usize::MAX).unwrap().into_iter().map(|(host, _)| host).collect()
}

async fn pace(life: &Life, host: &str, delay: Duration, rest: Duration) {
    life.backend().set_host_delay(host, HostDelay { delay, cooldown: rest }).await.unwrap();
}

#[tokio::test]
async fn only_hosts_that_are_owed_more_than_everybody_have_rows() {
    let life = life(u64::MAX);
    for number in 0..10 {
        pace(&life, &format!("ordinary{number}.test"), DELAY, DELAY).await;
    }
    assert!(rows(&life).is_empty());
    pace(&life, "patient.test", DELAY * 5, DELAY * 5).await;
    pace(&life, "busy.test", DELAY, DELAY * 3 / 2).await;
    pace(&life, "closed.test", DELAY, DELAY * 60).await;
    assert_eq!(rows(&life), ["busy.test", "closed.test", "patient.test"]);
    tokio::time::sleep(DELAY).await;
    // The first is busy no more; a shorter rest that is told later does not end a longer one.
    for host in ["busy.test", "closed.test"] {
        pace(&life, host, DELAY, DELAY).await;
    }
    pace(&life, "patient.test", DELAY * 5, DELAY * 5).await;
    assert_eq!(rows(&life), ["closed.test", "patient.test"]);
}

#[tokio::test]
async fn thousands_of_hosts_are_taken_back_after_a_death() {
    let mut life = life(u64::MAX);
    // Waited for once, all are there.
    for number in 0..3_000 {
        let host_delay = HostDelay { delay: DELAY * 30, cooldown: DELAY * 30 };
        life.backend()
            .shared
            .state()
            .storage
            .set_host_delay(&format!("host{number}.test"), host_delay)
            .unwrap();
    }
    pace(&life, "last.test", DELAY * 30, DELAY * 30).await;
    life.die();
    assert_eq!(rows(&life).len(), 3_001);
    let rest = |host: &str| life.backend().shared.state().rests.of(&format!("http://{host}.test/"));
    for number in 0..3_000 {
        assert!(rest(&format!("host{number}")) > DELAY * 20, "{number}");
    }
    assert!(rest("other") <= DELAY, "who asks for nothing gets no more than what everybody gets");
}

#[tokio::test]
async fn pages_that_are_limited_are_counted_across_ends_however_the_host_is_paced() {
    let mut life = life(2);
    life.backend().admit(found(0..1)).await.unwrap();
    for lease in life.leases().await {
        life.backend().reserve(&lease, 0).await.unwrap();
        let mut completion = Completion::new(&lease);
        completion.outcome = Outcome::Page;
        completion.host_delay = Some(HostDelay { delay: DELAY, cooldown: DELAY * 60 });
        life.backend().complete(vec![completion]).await.unwrap();
    }
    pace(&life, "h0.test", DELAY, DELAY).await;
    life.die();
    assert_eq!(rows(&life), ["h0.test"]);
    let pages = life.backend().shared.state().budgets.pages_of_host("http://h0.test/");
    assert_eq!(pages.map(|(_, pages)| pages), Some(1));
}
