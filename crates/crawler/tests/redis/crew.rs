//! Places in the crew, and the course of a crawl, seen by several processes.

use std::time::Duration;

use crawler::backend::WorkerId;
use crawler::backend::redis::{JoinResult, Member, Phase, RedisBackend, RedisCrawl, Role};
use testredis::Server;

use super::{block_on, settings};

const FIRST: Role = Role::Worker(WorkerId(0));

async fn open(server: &Server) -> RedisBackend {
    let place = RedisCrawl::new(server.url().parse().unwrap(), "crew");
    RedisBackend::open(place, settings(0)).await.unwrap()
}

async fn only_member(resources: &RedisBackend) -> Member {
    let (members, _) = resources.crew().await.unwrap();
    assert_eq!(members.len(), 1, "{members:?}");
    members.into_iter().next().unwrap()
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn a_place_is_had_by_one_and_free_ones_are_taken_from_the_first() {
    let server = Server::start();
    block_on(async {
        let resources = open(&server).await;
        assert!(matches!(resources.join(None, "a", "here", None).await.unwrap(), JoinResult::New(FIRST, _)));
        let second = resources.join(None, "b", "here", None).await.unwrap();
        assert!(matches!(second, JoinResult::New(Role::Worker(WorkerId(1)), _)), "{second:?}");
        let taken = resources.join(Some(FIRST), "c", "here", None).await.unwrap();
        assert!(matches!(taken, JoinResult::Taken(Member { ref token, .. }) if token == "a"), "{taken:?}");
        resources.part(FIRST, "b").await.unwrap();
        let (members, _) = resources.crew().await.unwrap();
        assert_eq!(members.len(), 2, "nobody gives up the place of another");
        resources.part(FIRST, "a").await.unwrap();
        assert!(matches!(resources.join(None, "c", "here", None).await.unwrap(), JoinResult::New(FIRST, _)));
    });
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn who_was_heard_of_since_is_not_dead() {
    let server = Server::start();
    block_on(async {
        let resources = open(&server).await;
        resources.join(Some(FIRST), "a", "here", None).await.unwrap();
        let before = only_member(&resources).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert!(resources.beat(FIRST, "a", Duration::ZERO, None).await.unwrap().has_place);
        assert!(!resources.declare_dead(&before).await.unwrap());
        let joined = resources.join(Some(FIRST), "b", "here", Some(&before)).await.unwrap();
        assert!(matches!(joined, JoinResult::Taken(_)), "{joined:?}");
        let silent = only_member(&resources).await;
        let joined = resources.join(Some(FIRST), "b", "here", Some(&silent)).await.unwrap();
        assert!(matches!(joined, JoinResult::Again(FIRST, _)), "{joined:?}");
        let beat = resources.beat(FIRST, "a", Duration::ZERO, None).await.unwrap();
        assert!(!beat.has_place, "another has it");
    });
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn one_found_dead_has_no_place_and_nobody_comes_before_what_it_had_is_back() {
    let server = Server::start();
    block_on(async {
        let resources = open(&server).await;
        resources.join(Some(FIRST), "a", "here", None).await.unwrap();
        let member = only_member(&resources).await;
        assert!(resources.declare_dead(&member).await.unwrap());
        assert!(!resources.beat(FIRST, "a", Duration::ZERO, None).await.unwrap().has_place);
        let early = resources.join(Some(FIRST), "b", "here", Some(&member)).await.unwrap();
        assert!(matches!(early, JoinResult::Taken(Member { is_dead: true, .. })), "{early:?}");
        resources.part(FIRST, "a").await.unwrap();
        assert!(matches!(resources.join(Some(FIRST), "b", "here", None).await.unwrap(), JoinResult::New(..)));
    });
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn an_end_is_the_end_of_the_opening_that_it_was_decided_for() {
    let server = Server::start();
    block_on(async {
        let resources = open(&server).await;
        assert_eq!(resources.crew().await.unwrap().1.phase, Phase::Unknown);
        let first = resources.set_opening(b"note").await.unwrap();
        assert_eq!(
            resources.set_over(first.opening, "done").await.unwrap().phase,
            Phase::Opening,
            "seeds come"
        );
        assert_eq!(resources.set_running(first.opening).await.unwrap().phase, Phase::Running);
        let second = resources.set_opening(b"").await.unwrap();
        assert_eq!(second.version, first.version, "without a note, nobody has to begin anew");
        assert_eq!(resources.set_running(first.opening).await.unwrap().phase, Phase::Opening);
        resources.set_running(second.opening).await.unwrap();
        assert_eq!(resources.set_over(first.opening, "done").await.unwrap().phase, Phase::Running);
        assert_eq!(
            resources.set_over(second.opening, "pages").await.unwrap().phase,
            Phase::Over("pages".into())
        );
        resources.keep_result(first.opening, "old").await.unwrap();
        assert_eq!(resources.result().await.unwrap(), None);
        let third = resources.set_opening(b"other").await.unwrap();
        assert!(third.version > second.version);
        assert!(!resources.put_away(second.opening).await.unwrap().is_closed, "it comes too late");
    });
}
