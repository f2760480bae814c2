//! Places in the crew, and the course of a crawl, seen by several processes.

use std::time::Duration;

use crawler::internal::backend::WorkerId;
use crawler::internal::backend::redis::{JoinResult, Member, Phase, RedisBackend, RedisCrawl, Role};
use testredis::Server;

use super::{block_on, settings};

const FIRST: Role = Role::Worker(WorkerId(0));

async fn open(server: &Server) -> RedisBackend {
    let place = RedisCrawl::new(server.url().parse().unwrap(), "crew");
    RedisBackend::open(place, settings(0)).await.unwrap()
}

async fn only_member(backend: &RedisBackend) -> Member {
    let (members, _) = backend.crew().await.unwrap();
    assert_eq!(members.len(), 1, "{members:?}");
    members.into_iter().next().unwrap()
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn a_place_is_had_by_one_and_free_ones_are_taken_from_the_first() {
    let server = Server::start();
    block_on(async {
        let backend = open(&server).await;
        assert!(matches!(backend.join(None, "a", "here", None).await.unwrap(), JoinResult::New(FIRST, _)));
        let second = backend.join(None, "b", "here", None).await.unwrap();
        assert!(matches!(second, JoinResult::New(Role::Worker(WorkerId(1)), _)), "{second:?}");
        let taken = backend.join(Some(FIRST), "c", "here", None).await.unwrap();
        assert!(matches!(taken, JoinResult::Taken(Member { ref token, .. }) if token == "a"), "{taken:?}");
        backend.part(FIRST, "b").await.unwrap();
        let (members, _) = backend.crew().await.unwrap();
        assert_eq!(members.len(), 2, "nobody gives up the place of another");
        backend.part(FIRST, "a").await.unwrap();
        assert!(matches!(backend.join(None, "c", "here", None).await.unwrap(), JoinResult::New(FIRST, _)));
    });
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn who_was_heard_of_since_is_not_dead() {
    let server = Server::start();
    block_on(async {
        let backend = open(&server).await;
        backend.join(Some(FIRST), "a", "here", None).await.unwrap();
        let before = only_member(&backend).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert!(backend.beat(FIRST, "a", Duration::ZERO, None).await.unwrap().has_place);
        assert!(!backend.declare_dead(&before).await.unwrap());
        let joined = backend.join(Some(FIRST), "b", "here", Some(&before)).await.unwrap();
        assert!(matches!(joined, JoinResult::Taken(_)), "{joined:?}");
        let silent = only_member(&backend).await;
        let joined = backend.join(Some(FIRST), "b", "here", Some(&silent)).await.unwrap();
        assert!(matches!(joined, JoinResult::Again(FIRST, _)), "{joined:?}");
        let beat = backend.beat(FIRST, "a", Duration::ZERO, None).await.unwrap();
        assert!(!beat.has_place, "another has it");
    });
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn one_found_dead_has_no_place_and_nobody_comes_before_what_it_had_is_back() {
    let server = Server::start();
    block_on(async {
        let backend = open(&server).await;
        backend.join(Some(FIRST), "a", "here", None).await.unwrap();
        let member = only_member(&backend).await;
        assert!(backend.declare_dead(&member).await.unwrap());
        assert!(!backend.beat(FIRST, "a", Duration::ZERO, None).await.unwrap().has_place);
        let early = backend.join(Some(FIRST), "b", "here", Some(&member)).await.unwrap();
        assert!(matches!(early, JoinResult::Taken(Member { is_dead: true, .. })), "{early:?}");
        backend.part(FIRST, "a").await.unwrap();
        assert!(matches!(backend.join(Some(FIRST), "b", "here", None).await.unwrap(), JoinResult::New(..)));
    });
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn an_end_is_the_end_of_the_opening_that_it_was_decided_for() {
    let server = Server::start();
    block_on(async {
        let backend = open(&server).await;
        assert_eq!(backend.crew().await.unwrap().1.phase, Phase::Unknown);
        let first = backend.set_opening(b"note").await.unwrap();
        assert_eq!(
            backend.set_over(first.opening, "done").await.unwrap().phase,
            Phase::Opening,
            "seeds come"
        );
        assert_eq!(backend.set_running(first.opening).await.unwrap().phase, Phase::Running);
        let second = backend.set_opening(b"").await.unwrap();
        assert_eq!(second.version, first.version, "without a note, nobody has to begin anew");
        assert_eq!(backend.set_running(first.opening).await.unwrap().phase, Phase::Opening);
        backend.set_running(second.opening).await.unwrap();
        assert_eq!(backend.set_over(first.opening, "done").await.unwrap().phase, Phase::Running);
        assert_eq!(
            backend.set_over(second.opening, "pages").await.unwrap().phase,
            Phase::Over("pages".into())
        );
        backend.keep_result(first.opening, "old").await.unwrap();
        assert_eq!(backend.result().await.unwrap(), None);
        let third = backend.set_opening(b"other").await.unwrap();
        assert!(third.version > second.version);
        assert!(!backend.put_away(second.opening).await.unwrap().is_closed, "it comes too late");
    });
}
