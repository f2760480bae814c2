//! Another visit: a crash between two commits of its start leaves a visit in which each URL is queued once.

use super::super::open::read_hash_key;
use super::super::recrawl::{Recrawl, queue_some, record_begin};
use super::super::{Batch, Tables, schedule};
use super::*;
use crate::scope::Scope;
use crate::visit::RevisitAfter;

/// A finished crawl of 10 URLs.
async fn finished() -> TestState {
    let mut state = TestState::new(7, SMALL_CACHE);
    state.options.config.visits.are_kept = true;
    state.reopen();
    let seeds = (0..10).map(|number| DiscoveredUrl { url: url(number), depth: 0, redirects: 0 });
    state.backend().admit(seeds.collect()).await.unwrap();
    visit_all(&state).await;
    state.reopen();
    end_visit(&state);
    state
}

/// Records that the outputs of the visit are complete.
fn end_visit(state: &TestState) {
    state.open.as_ref().unwrap().1.record_visit_end().unwrap();
}

async fn visit_all(state: &TestState) {
    for lease in state.leases().await {
        let completion = Completion { outcome: Outcome::Page, ..Completion::new(&lease) };
        state.backend().complete(vec![completion]).await.unwrap();
    }
}

#[tokio::test]
async fn crash_between_two_commits_leaves_a_visit_that_is_continued() {
    for commits in 0..=6 {
        let mut state = finished().await;
        state.open = None;
        {
            let tables = Tables::open(&state.path(), Batch::default).unwrap();
            let key = read_hash_key(&tables.view().unwrap(), &state.path()).unwrap();
            record_begin(&tables, &Recrawl::default()).unwrap();
            for _ in 0..commits {
                queue_some(&tables, key, &Scope::anywhere(), 2).unwrap();
            }
        }
        // It is continued whether it is requested again or not.
        state.options.recrawl = (commits % 2 == 0).then(Recrawl::default);
        state.open();
        let snapshot = state.backend().shared.state().snapshot();
        assert_eq!((snapshot.visit, snapshot.admitted, snapshot.completed), (2, 10, 0), "{commits} commits");
        assert!(snapshot.outcomes.is_empty() && snapshot.pages == 0);
        let leases = state.leases().await;
        assert_eq!(leases.len(), 10);
        assert!(leases.iter().all(|lease| lease.previous.is_some()));
        // Killed in the middle of the visit: those that were not completed are still pending, and no other.
        for lease in &leases[..4] {
            let completion = Completion { outcome: Outcome::Unchanged, ..Completion::new(lease) };
            state.backend().complete(vec![completion]).await.unwrap();
        }
        state.options.recrawl = Some(Recrawl::default());
        state.reopen();
        let snapshot = state.backend().shared.state().snapshot();
        assert_eq!((snapshot.visit, snapshot.pending()), (2, 6));
        visit_all(&state).await;
        end_visit(&state);
        state.reopen();
        assert_eq!(state.backend().shared.state().snapshot().visit, 3, "the visit before had ended");
    }
}

#[tokio::test]
async fn visit_whose_outputs_were_not_completed_is_finished_before_another_starts() {
    let mut state = finished().await;
    state.options.recrawl = Some(Recrawl::default());
    state.reopen();
    visit_all(&state).await;
    state.outputs.can_be_completed = false;
    let visit = |state: &TestState| {
        let snapshot = state.backend().shared.state().snapshot();
        (snapshot.visit, snapshot.pending())
    };
    for kill in 0..3 {
        state.crash();
        assert_eq!(visit(&state), (2, 0), "the outputs could not be completed {kill} times");
    }
    state.outputs.can_be_completed = true;
    state.reopen();
    assert_eq!(visit(&state), (3, 10), "the same process completes them and starts the next visit");
}

#[tokio::test]
async fn visit_starts_after_a_crawl_that_visited_urls_when_they_were_due() {
    let mut state = finished().await;
    state.options.config.visits.revisit_after = Some(RevisitAfter::Auto);
    state.reopen();
    let leases = state.leases().await;
    assert!(leases.is_empty(), "nothing is due");
    state.options.config.visits.revisit_after = None;
    state.options.recrawl = Some(Recrawl::default());
    for _ in 0..2 {
        // The second time, the visit that was killed is continued.
        state.crash();
        let snapshot = state.backend().shared.state().snapshot();
        assert_eq!((snapshot.visit, snapshot.pending()), (2, 10));
    }
}

#[tokio::test]
async fn crash_while_the_schedule_changes_loses_no_url_of_it() {
    let hourly = RevisitAfter::Fixed(Duration::from_secs(60 * 60));
    for is_recrawled in [false, true] {
        let mut state = finished().await;
        state.options.config.visits.revisit_after = Some(hourly);
        state.reopen();
        let scheduled = |state: &TestState| state.backend().shared.state().snapshot().scheduled;
        assert_eq!(scheduled(&state), 10);
        state.open = None;
        {
            let tables = Tables::open(&state.path(), Batch::default).unwrap();
            if is_recrawled {
                record_begin(&tables, &Recrawl { revisit_after: Some(hourly) }).unwrap();
            } else {
                // The first commit of a process that schedules the URLs by another rule.
                let mut batch = Batch { number: 1, ..Batch::default() };
                schedule::clear(&mut batch);
                tables.write(&batch).unwrap();
            }
        }
        state.open();
        assert_eq!(scheduled(&state), 10, "recrawled: {is_recrawled}");
    }
}
