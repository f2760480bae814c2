//! Statistics in a state, after the crawl was killed and resumed.

use std::path::Path;

use crawler::internal::backend::durable::{StateReader, StateStatus};
use crawler::internal::crawl_view::CrawlPhase;
use crawler::internal::statistics::Sample;
use rustix::process::Signal;
use testweb::Web;

use crate::state::StateDir;

fn status(place: &StateDir) -> StateStatus {
    StateReader::open(Path::new(&place.state())).unwrap().status().unwrap()
}

fn requests(status: &StateStatus) -> u64 {
    status.statistics.hosts.iter().map(|(_, host)| host.requests).sum()
}

#[test]
fn statistics_continue_after_kill_and_resume() {
    let web = Web::builder().seeded_hosts(11, 6, 25).start();
    let place = StateDir::new();
    let options = r"--delay 100ms --similarity 0 --include ^http://h\d+\.test:";
    let crawl = || place.crawl(web.url_of("h0.test", "/")).with(options);
    let mut running = crawl().start();
    running.until("an answer", |_| Path::new(&place.state()).join("crawl.socket").exists());
    // The first statistics are stored after a second.
    running.until("some requests after two seconds", |_| status(&place).elapsed.as_millis() > 2_000);
    let live = status(&place);
    assert_eq!((live.phase.clone(), live.limits.delay.as_millis()), (CrawlPhase::Running, 100));
    assert!(live.process.is_some() && !live.statistics.latest.is_empty());
    running.signal(Signal::KILL);
    running.wait();
    let killed = status(&place);
    let (logged, stored) = (web.hits() as u64, requests(&killed));
    assert!(stored > 0 && stored <= logged, "{stored} of {logged}");
    assert_eq!(killed.phase, CrawlPhase::Ended("the crawl was interrupted".into()));
    assert!(killed.statistics.commits > 0 && killed.statistics.in_flight == 0);
    assert_eq!(killed.limits, live.limits);

    crawl().run().expect(0);
    let end = status(&place);
    // Only what the killed process had not stored is missing.
    assert_eq!(requests(&end), web.hits() as u64 - (logged - stored));
    let responses: u64 = end.statistics.statuses.values().sum();
    assert_eq!(responses, requests(&end), "{:?}", end.statistics.statuses);
    assert_eq!(end.statistics.started_at, killed.statistics.started_at);
    assert_eq!(end.phase, CrawlPhase::Ended("all URLs are done".into()));
    let samples = end.statistics.series.samples();
    assert!(samples.len() > 2, "{samples:?}");
    let follows = |a: &Sample, b: &Sample| a.at_seconds < b.at_seconds && a.pages <= b.pages;
    assert!(samples.is_sorted_by(follows), "{samples:?}");
    assert_eq!(samples.last().unwrap().pages, end.snapshot.pages);
    for (host, host_statistics) in end.statistics.hosts.iter() {
        assert!(host_statistics.smallest_gap_ms.is_none_or(|gap| gap >= 100), "{host}: {host_statistics:?}");
    }
}
