//! Membership of processes in a crawl, and the phases of the crawl.

use std::time::Duration;

use crawler::internal::backend::WorkerId;
use crawler::internal::backend::redis::{DistributedCrawl, JoinResult, Member, Phase, Role, crawl_info};
use testredis::Server;

use super::block_on;
use super::distributed_crawl::TestCrawl;

const FIRST: Role = Role::Worker(WorkerId(0));

async fn open(server: &Server) -> DistributedCrawl {
    TestCrawl::new(server, "members").open().await
}

/// A crawl that processes can join.
async fn open_started(server: &Server) -> DistributedCrawl {
    let control = open(server).await;
    control.set_seeding(b"").await.unwrap();
    control
}

async fn only_member(control: &DistributedCrawl) -> Member {
    let (members, _) = control.members().await.unwrap();
    assert_eq!(members.len(), 1, "{members:?}");
    members.into_iter().next().unwrap()
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn role_has_one_member_and_the_first_free_worker_id_is_assigned() {
    let server = Server::start();
    block_on(async {
        let control = open_started(&server).await;
        assert!(matches!(control.join(None, "a", "here", None).await.unwrap(), JoinResult::Joined(FIRST, _)));
        let second = control.join(None, "b", "here", None).await.unwrap();
        assert!(matches!(second, JoinResult::Joined(Role::Worker(WorkerId(1)), _)), "{second:?}");
        let taken = control.join(Some(FIRST), "c", "here", None).await.unwrap();
        assert!(matches!(taken, JoinResult::Taken(Member { ref token, .. }) if token == "a"), "{taken:?}");
        control.leave(FIRST, "b").await.unwrap();
        let (members, _) = control.members().await.unwrap();
        assert_eq!(members.len(), 2, "a process cannot leave for another");
        control.leave(FIRST, "a").await.unwrap();
        assert!(matches!(control.join(None, "c", "here", None).await.unwrap(), JoinResult::Joined(FIRST, _)));
    });
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn no_process_joins_a_crawl_that_redis_does_not_have() {
    let server = Server::start();
    block_on(async {
        let control = open(&server).await;
        assert_eq!(control.join(None, "a", "here", None).await.unwrap(), JoinResult::NoCrawl);
        let (members, state) = control.members().await.unwrap();
        assert_eq!((members.len(), state.phase), (0, Phase::Unknown));
    });
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn member_with_a_newer_heartbeat_is_not_declared_dead() {
    let server = Server::start();
    block_on(async {
        let control = open_started(&server).await;
        control.join(Some(FIRST), "a", "here", None).await.unwrap();
        let before = only_member(&control).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert!(control.heartbeat(FIRST, "a", Duration::ZERO).await.unwrap().0);
        assert!(!control.declare_dead(&before).await.unwrap());
        let joined = control.join(Some(FIRST), "b", "here", Some(&before)).await.unwrap();
        assert!(matches!(joined, JoinResult::Taken(_)), "{joined:?}");
        let member = only_member(&control).await;
        let joined = control.join(Some(FIRST), "b", "here", Some(&member)).await.unwrap();
        assert!(matches!(joined, JoinResult::Joined(FIRST, _)), "{joined:?}");
        let reply = control.heartbeat(FIRST, "a", Duration::ZERO).await.unwrap();
        assert!(!reply.0, "another process has the role");
    });
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn role_of_a_dead_member_is_free_only_after_its_urls_are_reassigned() {
    let server = Server::start();
    block_on(async {
        let control = open_started(&server).await;
        control.join(Some(FIRST), "a", "here", None).await.unwrap();
        let member = only_member(&control).await;
        assert!(control.declare_dead(&member).await.unwrap());
        assert!(!control.heartbeat(FIRST, "a", Duration::ZERO).await.unwrap().0);
        let joined = control.join(Some(FIRST), "b", "here", Some(&member)).await.unwrap();
        assert!(matches!(joined, JoinResult::Taken(Member { is_dead: true, .. })), "{joined:?}");
        control.leave(FIRST, "a").await.unwrap();
        assert!(matches!(
            control.join(Some(FIRST), "b", "here", None).await.unwrap(),
            JoinResult::Joined(..)
        ));
    });
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn end_applies_only_to_the_run_it_was_decided_for() {
    let server = Server::start();
    block_on(async {
        let control = open(&server).await;
        assert_eq!(control.members().await.unwrap().1.phase, Phase::Unknown);
        let first = control.set_seeding(b"note").await.unwrap();
        assert_eq!(
            control.set_ended(first.run, "done").await.unwrap().phase,
            Phase::Seeding,
            "seeds are being admitted"
        );
        assert_eq!(control.set_running(first.run).await.unwrap().phase, Phase::Running);
        let second = control.set_seeding(b"").await.unwrap();
        assert_eq!(second.version, first.version, "without a note, no process has to restart");
        assert_eq!(control.set_running(first.run).await.unwrap().phase, Phase::Seeding);
        control.set_running(second.run).await.unwrap();
        assert_eq!(control.set_ended(first.run, "done").await.unwrap().phase, Phase::Running);
        assert_eq!(control.set_ended(second.run, "pages").await.unwrap().phase, Phase::Ended("pages".into()));
        control.store_result(first.run, "old").await.unwrap();
        assert_eq!(control.result().await.unwrap(), None);
        let third = control.set_seeding(b"other").await.unwrap();
        assert!(third.version > second.version);
        assert!(!control.archive(second.run).await.unwrap().is_archived, "the crawl was started again");
        let info = crawl_info(&TestCrawl::new(&server, "members").place()).await.unwrap().unwrap();
        assert_eq!(
            (info.metadata.as_slice(), info.state.run, info.has_result),
            (&b"other"[..], third.run, false)
        );
    });
}

#[test]
#[ignore = "needs redis-server: run by make test"]
fn reports_result_and_elapsed_time_belong_to_a_run() {
    let server = Server::start();
    block_on(async {
        let control = open(&server).await;
        let run = control.set_seeding(b"note").await.unwrap().run;
        control.set_running(run).await.unwrap();
        control.join(Some(Role::Frontier), "f", "here", None).await.unwrap();
        for _ in 0..2 {
            control.heartbeat(Role::Frontier, "f", Duration::from_millis(700)).await.unwrap();
        }
        let (is_member, _) =
            control.heartbeat(Role::Frontier, "other", Duration::from_secs(9)).await.unwrap();
        assert!(!is_member);
        control.report("f", "fine").await.unwrap();
        control.set_ended(run, "done").await.unwrap();
        control.store_result(run, "all").await.unwrap();
        assert_eq!(control.result().await.unwrap().as_deref(), Some("all"));
        assert_eq!(control.reports().await.unwrap()["f"], "fine");
        let next = control.set_seeding(b"").await.unwrap();
        assert_eq!(next.elapsed, Duration::from_millis(1_400), "it counts all runs");
        assert_eq!((control.result().await.unwrap(), control.reports().await.unwrap().len()), (None, 0));
    });
}
