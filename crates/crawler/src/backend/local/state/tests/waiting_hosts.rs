//! Which hosts hold a crawl up, and why.

use super::*;
use crate::backend::{WaitReason, WaitingHost};
use crate::live_settings::LiveLimits;

/// The waiting hosts by name.
fn waiting(state: &mut LocalState<MemoryStorage>, host: &str) -> Option<WaitingHost> {
    state.snapshot().waiting_hosts.into_iter().find(|waiting| waiting.host == host)
}

#[tokio::test(start_paused = true)]
async fn the_host_with_the_most_urls_is_found_among_any_number_of_hosts() {
    let mut state = state_with(BackendConfig { queue_size: 100_000, ..config() });
    for thousand in 0..30 {
        let hosts = (0..1_000).map(|number| format!("http://h{thousand}-{number}.test/"));
        add_urls(&mut state, hosts);
    }
    add_urls(&mut state, urls_of("large.test", 50));
    let most = state.snapshot().waiting_hosts;
    assert_eq!((most.len(), most[0].host.as_str(), most[0].waiting), (10, "large.test", 50));
    // Which hosts these are is searched once per second, how many URLs wait is not.
    add_urls(&mut state, urls_of("larger.test", 60));
    add_urls(&mut state, (100..105).map(|page| format!("http://large.test/{page}")));
    assert_eq!(state.snapshot().waiting_hosts[0].waiting, 55);
    advance(60 * SECOND_OF_TIME).await;
    assert_eq!(state.snapshot().waiting_hosts[0].host, "larger.test");
}

#[tokio::test(start_paused = true)]
async fn hosts_wait_for_the_delay_of_their_site_or_for_their_own_or_for_workers() {
    let (config, site_delay) = (config(), SECOND_OF_TIME / 4);
    let hosts = HostLimits { workers_share_throttle: true, site_delay, ..config.hosts };
    let mut state = state_with(BackendConfig { hosts, workers: 1, ..config });
    add_urls(&mut state, (0..9).map(|number| format!("http://h{number}.site.test/")));
    advance(SECOND_OF_TIME).await;
    assert_eq!(waiting(&mut state, "h8.site.test").unwrap().why, WaitReason::Busy, "no worker wants a URL");
    let lease = state.lease(FIRST, 9).unwrap().remove(0);
    assert_eq!(&*lease.url, "http://h0.site.test/");
    assert_eq!(waiting(&mut state, "h8.site.test").unwrap().why, WaitReason::SiteDelay(site_delay));
    add_urls(&mut state, ["http://h0.site.test/more".to_owned()]);
    advance(SECOND_OF_TIME).await;
    assert_eq!(waiting(&mut state, "h0.site.test").unwrap().why, WaitReason::Delay(SECOND_OF_TIME));
}

#[tokio::test(start_paused = true)]
async fn all_hosts_of_a_paused_crawl_wait_for_its_continuation() {
    let mut state = state();
    add_urls(&mut state, urls_of("a.test", 3));
    let mut set_paused = |is_paused| {
        state.set_limits(&LiveLimits {
            is_paused,
            max_pages: 1_000,
            max_bytes: 1_000_000,
            delay: SECOND_OF_TIME,
            site_delay: Duration::ZERO,
            blocked: None,
        });
        waiting(&mut state, "a.test").unwrap().why
    };
    assert_eq!(set_paused(true), WaitReason::Paused);
    assert_eq!(set_paused(false), WaitReason::Busy);
}
