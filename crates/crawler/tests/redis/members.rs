//! Membership of processes in a crawl, and the phases of the crawl.

use std::time::Duration;

use crawler::internal::backend::WorkerId;
use crawler::internal::backend::redis::{JoinResult, Member, Phase, RedisBackend, RedisCrawl, Role};
use testredis::Server;

use super::{block_on, config};

const FIRST: Role = Role::Worker(WorkerId(0));

async fn open(server: &Server) -> RedisBackend {
    let crawl = RedisCrawl::new(server.url().parse().unwrap(), "members");
    RedisBackend::open(crawl, config(0)).await.unwrap()
}

async fn only_member(backend: &RedisBackend) -> Member {
    let (members, _) = backend.members().await.unwrap();
    assert_eq!(members.len(), 1, "{members:?}");
    members.into_iter().next().unwrap()
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn role_has_one_member_and_the_first_free_worker_id_is_assigned() {
    let server = Server::start();
    block_on(async {
        let backend = open(&server).await;
        assert!(matches!(backend.join(None, "a", "here", None).await.unwrap(), JoinResult::New(FIRST, _)));
        let second = backend.join(None, "b", "here", None).await.unwrap();
        assert!(matches!(second, JoinResult::New(Role::Worker(WorkerId(1)), _)), "{second:?}");
        let taken = backend.join(Some(FIRST), "c", "here", None).await.unwrap();
        assert!(matches!(taken, JoinResult::Taken(Member { ref token, .. }) if token == "a"), "{taken:?}");
        backend.leave(FIRST, "b").await.unwrap();
        let (members, _) = backend.members().await.unwrap();
        assert_eq!(members.len(), 2, "a process cannot leave for another");
        backend.leave(FIRST, "a").await.unwrap();
        assert!(matches!(backend.join(None, "c", "here", None).await.unwrap(), JoinResult::New(FIRST, _)));
    });
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn member_with_a_newer_heartbeat_is_not_declared_dead() {
    let server = Server::start();
    block_on(async {
        let backend = open(&server).await;
        backend.join(Some(FIRST), "a", "here", None).await.unwrap();
        let before = only_member(&backend).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert!(backend.heartbeat(FIRST, "a", Duration::ZERO, None).await.unwrap().is_member);
        assert!(!backend.declare_dead(&before).await.unwrap());
        let joined = backend.join(Some(FIRST), "b", "here", Some(&before)).await.unwrap();
        assert!(matches!(joined, JoinResult::Taken(_)), "{joined:?}");
        let member = only_member(&backend).await;
        let joined = backend.join(Some(FIRST), "b", "here", Some(&member)).await.unwrap();
        assert!(matches!(joined, JoinResult::TookOver(FIRST, _)), "{joined:?}");
        let reply = backend.heartbeat(FIRST, "a", Duration::ZERO, None).await.unwrap();
        assert!(!reply.is_member, "another process has the role");
    });
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn role_of_a_dead_member_is_free_only_after_its_urls_are_reassigned() {
    let server = Server::start();
    block_on(async {
        let backend = open(&server).await;
        backend.join(Some(FIRST), "a", "here", None).await.unwrap();
        let member = only_member(&backend).await;
        assert!(backend.declare_dead(&member).await.unwrap());
        assert!(!backend.heartbeat(FIRST, "a", Duration::ZERO, None).await.unwrap().is_member);
        let joined = backend.join(Some(FIRST), "b", "here", Some(&member)).await.unwrap();
        assert!(matches!(joined, JoinResult::Taken(Member { is_dead: true, .. })), "{joined:?}");
        backend.leave(FIRST, "a").await.unwrap();
        assert!(matches!(backend.join(Some(FIRST), "b", "here", None).await.unwrap(), JoinResult::New(..)));
    });
}

#[test]
#[ignore = "needs redis-server; make test installs it"]
fn end_applies_only_to_the_opening_it_was_decided_for() {
    let server = Server::start();
    block_on(async {
        let backend = open(&server).await;
        assert_eq!(backend.members().await.unwrap().1.phase, Phase::Unknown);
        let first = backend.set_seeding(b"note").await.unwrap();
        assert_eq!(
            backend.set_ended(first.run, "done").await.unwrap().phase,
            Phase::Seeding,
            "seeds are being admitted"
        );
        assert_eq!(backend.set_running(first.run).await.unwrap().phase, Phase::Running);
        let second = backend.set_seeding(b"").await.unwrap();
        assert_eq!(second.version, first.version, "without a note, no process has to restart");
        assert_eq!(backend.set_running(first.run).await.unwrap().phase, Phase::Seeding);
        backend.set_running(second.run).await.unwrap();
        assert_eq!(backend.set_ended(first.run, "done").await.unwrap().phase, Phase::Running);
        assert_eq!(backend.set_ended(second.run, "pages").await.unwrap().phase, Phase::Ended("pages".into()));
        backend.store_result(first.run, "old").await.unwrap();
        assert_eq!(backend.result().await.unwrap(), None);
        let third = backend.set_seeding(b"other").await.unwrap();
        assert!(third.version > second.version);
        assert!(!backend.archive(second.run).await.unwrap().is_archived, "the crawl was opened again");
    });
}
