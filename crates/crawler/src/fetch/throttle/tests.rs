use super::*;
use tokio::time::sleep;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn delay_runs_from_the_end_of_a_request_to_the_next() {
    let throttle = HostThrottle::new(SECOND, 1);
    let permit = throttle.acquire("host").await;
    sleep(5 * SECOND).await;
    drop(permit);
    let ended = Instant::now();
    let _permit = throttle.acquire("host").await;
    assert!(ended.elapsed() >= SECOND);
    assert!(ended.elapsed() < SECOND + Duration::from_millis(5));
}

#[tokio::test(start_paused = true)]
async fn only_hosts_without_a_pending_delay_are_forgotten() {
    let throttle = HostThrottle::new(SECOND, 1);
    for number in 0..MIN_HOSTS_TO_FORGET - 2 {
        drop(throttle.acquire(&format!("host{number}")).await);
    }
    throttle.slow_down("slow", 5 * SECOND);
    sleep(10 * SECOND).await;
    let _held = throttle.acquire("held").await;
    drop(throttle.acquire("fresh").await);
    let hosts =
        || unpoisoned(&throttle.hosts).by_name.keys().cloned().collect::<std::collections::BTreeSet<_>>();
    assert_eq!(hosts(), ["fresh", "held", "slow"].map(String::from).into());
    drop(throttle.acquire("slow").await);
    let ended = Instant::now();
    drop(throttle.acquire("slow").await);
    assert!(ended.elapsed() >= 5 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn slow_hosts_are_forgotten_after_a_long_idle_time() {
    let throttle = HostThrottle::new(SECOND, 1);
    let hosts = || unpoisoned(&throttle.hosts).by_name.len();
    for round in 0..5 {
        for number in 0..MIN_HOSTS_TO_FORGET {
            throttle.slow_down(&format!("{number}.{round}"), 30 * SECOND);
        }
        assert!(hosts() <= MIN_HOSTS_TO_FORGET, "{} in round {round}", hosts());
        sleep(SLOW_HOST_TTL + 30 * SECOND).await;
    }
}

#[tokio::test(start_paused = true)]
async fn delay_of_a_host_does_not_block_other_hosts() {
    let throttle = HostThrottle::new(SECOND, 1);
    drop(throttle.acquire("slow").await);
    let started_at = Instant::now();
    drop(throttle.acquire("other").await);
    assert_eq!(started_at.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn with_several_requests_in_flight_the_delay_runs_from_start_to_start() {
    let throttle = Arc::new(HostThrottle::new(SECOND, 3));
    let started_at = Instant::now();
    let requests = (0..6).map(|_| {
        let throttle = Arc::clone(&throttle);
        tokio::spawn(async move {
            let _permit = throttle.acquire("host").await;
            let started = started_at.elapsed();
            sleep(2 * SECOND + SECOND / 2).await;
            started
        })
    });
    let mut starts = Vec::new();
    for request in requests.collect::<Vec<_>>() {
        starts.push(request.await.unwrap());
    }
    starts.sort();
    assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= SECOND), "{starts:?}");
    assert!(starts[2] < 3 * SECOND, "three requests are in flight at once: {starts:?}");
}

#[tokio::test(start_paused = true)]
async fn delay_between_starts_holds_however_long_connecting_takes() {
    let throttle = Arc::new(HostThrottle::new(SECOND, 4));
    let start = Instant::now();
    let requests = [9, 0, 12, 1, 31, 2].map(|tenths| {
        let throttle = Arc::clone(&throttle);
        tokio::spawn(async move {
            let permit = throttle.acquire("host").await;
            sleep(tenths * SECOND / 10).await;
            let started = permit.start(None).await.unwrap() - start;
            sleep(SECOND / 10).await;
            started
        })
    });
    let mut starts = Vec::new();
    for request in requests {
        starts.push(request.await.unwrap());
    }
    starts.sort();
    assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= SECOND), "{starts:?}");
    assert!(starts[5] < 10 * SECOND, "{starts:?}");
    let last = throttle.host_delay("host").unwrap().cooldown;
    assert!(last >= SECOND * 8 / 10, "the delay runs from the last start: {last:?}");
}

#[tokio::test(start_paused = true)]
async fn request_that_is_connecting_needs_a_new_permit_after_a_cooldown() {
    let throttle = HostThrottle::new(SECOND, 2);
    let [first, second] = [throttle.acquire("host").await, throttle.acquire("host").await];
    first.start(None).await.unwrap();
    first.cool_down(7 * SECOND);
    let cooled = Instant::now();
    assert_eq!(second.start(None).await, Err(CoolingDown));
    assert_eq!(cooled.elapsed(), Duration::ZERO);
    drop(second);
    let second = throttle.acquire("host").await;
    assert!(second.start(None).await.unwrap() - cooled >= 7 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn cooldown_applies_to_requests_that_already_wait() {
    let throttle = Arc::new(HostThrottle::new(SECOND, 1));
    let permit = throttle.acquire("host").await;
    let waiting = tokio::spawn({
        let throttle = Arc::clone(&throttle);
        async move {
            drop(throttle.acquire("host").await);
            Instant::now()
        }
    });
    let started_at = Instant::now();
    permit.cool_down(7 * SECOND);
    drop(permit);
    assert!(waiting.await.unwrap() - started_at >= 7 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn slow_down_raises_the_delay_and_never_lowers_it() {
    let throttle = HostThrottle::new(SECOND, 1);
    drop(throttle.acquire("host").await);
    let ended = Instant::now();
    throttle.slow_down("host", 3 * SECOND);
    throttle.slow_down("host", SECOND / 2);
    drop(throttle.acquire("host").await);
    assert!(ended.elapsed() >= 3 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn cancelled_acquire_does_not_delay_the_next_one() {
    let throttle = HostThrottle::new(SECOND, 1);
    drop(throttle.acquire("host").await);
    let cancelled = tokio::time::timeout(SECOND / 2, throttle.acquire("host")).await;
    assert!(cancelled.is_err());
    let started_at = Instant::now();
    drop(throttle.acquire("host").await);
    assert!(started_at.elapsed() <= SECOND);
}

/// Simulates a request with this response time and returns the delay after it.
async fn delay_after(throttle: &HostThrottle, response_time: Duration) -> Duration {
    let permit = throttle.acquire("host").await;
    sleep(response_time).await;
    permit.record_response_time(response_time);
    drop(permit);
    throttle.host_delay("host").map_or(Duration::ZERO, |host_delay| host_delay.cooldown)
}

#[tokio::test(start_paused = true)]
async fn adaptive_delay_follows_the_response_times_down_to_the_configured_delay() {
    let throttle = HostThrottle::new(SECOND, 1).adaptive();
    assert_eq!(delay_after(&throttle, SECOND / 10).await, SECOND, "never below the delay");
    assert!(
        delay_after(&throttle, 8 * SECOND).await > 2 * SECOND,
        "the newest response time counts for a quarter"
    );
    for _ in 0..20 {
        delay_after(&throttle, 8 * SECOND).await;
    }
    let ended = Instant::now();
    assert_eq!(throttle.host_delay("host").unwrap().delay.as_secs_f64().round(), 8.0);
    drop(throttle.acquire("host").await);
    assert!(ended.elapsed() > 7 * SECOND, "{:?}", ended.elapsed());
    for _ in 0..20 {
        delay_after(&throttle, SECOND / 100).await;
    }
    assert_eq!(delay_after(&throttle, SECOND / 100).await, SECOND);
}

#[tokio::test(start_paused = true)]
async fn adaptive_delay_has_a_maximum() {
    let throttle = HostThrottle::new(SECOND, 1).adaptive();
    for _ in 0..3 {
        assert_eq!(delay_after(&throttle, 100 * SECOND).await, MAX_ADAPTIVE_DELAY);
    }
    assert_eq!(
        delay_after(&HostThrottle::new(2 * MAX_ADAPTIVE_DELAY, 1).adaptive(), SECOND).await,
        2 * MAX_ADAPTIVE_DELAY
    );
}

#[tokio::test(start_paused = true)]
async fn slow_responses_change_nothing_without_a_delay_or_without_adaptive_delay() {
    assert_eq!(
        delay_after(&HostThrottle::new(Duration::ZERO, 1).adaptive(), 5 * SECOND).await,
        Duration::ZERO
    );
    assert_eq!(delay_after(&HostThrottle::new(SECOND, 1), 5 * SECOND).await, SECOND);
}

#[tokio::test(start_paused = true)]
async fn adaptive_delay_is_divided_by_the_requests_in_flight() {
    let throttle = HostThrottle::new(SECOND, 4).adaptive();
    delay_after(&throttle, 12 * SECOND).await;
    assert_eq!(throttle.host_delay("host").unwrap().delay, 3 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn cooldown_from_another_worker_is_waited_out() {
    let throttle = HostThrottle::new(SECOND, 1);
    assert_eq!(throttle.host_delay("host"), None, "the host received no request yet");
    throttle.cool_down("host", 5 * SECOND);
    throttle.cool_down("host", 2 * SECOND);
    assert_eq!(throttle.host_delay("host"), Some(HostDelay { delay: SECOND, cooldown: 5 * SECOND }));
    let started_at = Instant::now();
    drop(throttle.acquire("host").await);
    assert!(started_at.elapsed() >= 5 * SECOND);
    assert_eq!(throttle.host_delay("host"), Some(HostDelay { delay: SECOND, cooldown: SECOND }));
}

#[tokio::test(start_paused = true)]
async fn host_without_delay_and_cooldown_has_no_host_delay() {
    let throttle = HostThrottle::new(Duration::ZERO, 1);
    drop(throttle.acquire("host").await);
    assert_eq!(throttle.host_delay("host"), None);
    assert!(throttle.slow_down("host", SECOND) && !throttle.slow_down("host", SECOND));
    assert_eq!(throttle.host_delay("host").map(|host_delay| host_delay.delay), Some(SECOND));
}

/// Starts a request to each host at once, each after this time to connect. Returns the times of the starts by host.
async fn starts(
    throttle: HostThrottle,
    requests: &[(&'static str, Duration)],
    address: Option<IpAddr>,
) -> Vec<(&'static str, Duration)> {
    let (throttle, start) = (Arc::new(throttle), Instant::now());
    let requests = requests.iter().map(|&(host, connecting)| {
        let throttle = Arc::clone(&throttle);
        tokio::spawn(async move {
            let permit = throttle.acquire(host).await;
            sleep(connecting).await;
            (host, permit.start(address).await.unwrap() - start)
        })
    });
    let mut starts = Vec::new();
    for request in requests.collect::<Vec<_>>() {
        starts.push(request.await.unwrap());
    }
    starts.sort_by_key(|(_, start)| *start);
    starts
}

/// The times of the starts, which must be at least this far apart.
#[track_caller]
fn check_apart(starts: &[(&str, Duration)], interval: Duration) {
    assert!(starts.windows(2).all(|pair| pair[1].1 - pair[0].1 >= interval), "{starts:?}");
}

#[tokio::test(start_paused = true)]
async fn requests_to_hosts_of_a_site_start_one_site_delay_apart_however_long_connecting_takes() {
    let (quick, slow) = (Duration::ZERO, 2 * SECOND);
    let requests =
        [("a.one.test", slow), ("b.one.test", quick), ("c.one.test:81", quick), ("one.test", SECOND / 3)];
    for max_in_flight in [1, 3] {
        let throttle = HostThrottle::new(SECOND, max_in_flight).site_delay(SECOND / 4);
        let starts = starts(throttle, &requests, None).await;
        check_apart(&starts, SECOND / 4);
        assert!(starts[3].1 <= slow + SECOND, "{starts:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn site_does_not_slow_other_sites() {
    let throttle = HostThrottle::new(SECOND, 1).site_delay(SECOND / 4);
    let hosts = ["a.one.test", "b.one.test", "c.one.test", "two.test", "127.0.0.1:1", "127.0.0.1:2"];
    let starts = starts(throttle, &hosts.map(|host| (host, Duration::ZERO)), None).await;
    let at_once = starts.iter().filter(|(_, start)| start.is_zero()).count();
    assert_eq!(at_once, 4, "{starts:?}");
}

#[tokio::test(start_paused = true)]
async fn host_with_a_cooldown_does_not_hold_up_the_other_hosts_of_its_site() {
    let throttle = HostThrottle::new(SECOND, 1).site_delay(SECOND / 4);
    throttle.cool_down("a.one.test", 60 * SECOND);
    let hosts = ["a.one.test", "b.one.test", "c.one.test"];
    let starts = starts(throttle, &hosts.map(|host| (host, Duration::ZERO)), None).await;
    assert!(starts[1].1 <= SECOND && starts[2].1 >= 60 * SECOND, "{starts:?}");
}

#[tokio::test(start_paused = true)]
async fn remaining_site_delay_is_known_until_it_has_passed() {
    let throttle = HostThrottle::new(Duration::ZERO, 1).site_delay(SECOND);
    let site = Domain::from_throttle_key("one.test");
    let permit = throttle.acquire("www.one.test").await;
    assert_eq!(throttle.site_cooldown(&site), Duration::ZERO, "no request has started");
    permit.start(None).await.unwrap();
    sleep(SECOND / 4).await;
    assert_eq!(throttle.site_cooldown(&site).as_secs_f64().mul_add(4.0, 0.1).floor(), 3.0);
    sleep(SECOND).await;
    assert_eq!(throttle.site_cooldown(&site), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn longer_site_delay_holds_for_the_next_request_also_if_there_was_none_before() {
    let site = Domain::from_throttle_key("one.test");
    for before in [Duration::ZERO, SECOND] {
        let throttle = HostThrottle::new(Duration::ZERO, 1).site_delay(before);
        throttle.acquire("www.one.test").await.start(None).await.unwrap();
        throttle.set_delays(Duration::ZERO, 5 * SECOND);
        assert_eq!(throttle.site_cooldown(&site), 5 * SECOND, "{before:?}");
        throttle.set_delays(Duration::ZERO, 2 * SECOND);
        assert_eq!(throttle.site_cooldown(&site), 2 * SECOND, "{before:?}");
        let started = Instant::now();
        throttle.acquire("mail.one.test").await.start(None).await.unwrap();
        assert!(started.elapsed() >= 2 * SECOND, "{:?}", started.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn requests_to_an_address_start_one_address_delay_apart() {
    let address = Some(IpAddr::from([192, 0, 2, 1]));
    let requests = ["one.test", "two.test", "three.test"].map(|host| (host, Duration::ZERO));
    let throttle = HostThrottle::new(SECOND, 1).address_delay(SECOND / 4);
    check_apart(&starts(throttle, &requests, address).await, SECOND / 4);
    let throttle = HostThrottle::new(SECOND, 1);
    assert!(starts(throttle, &requests, address).await.iter().all(|(_, start)| start.is_zero()));
}

#[tokio::test(start_paused = true)]
async fn sites_without_a_pending_delay_are_forgotten() {
    let throttle = HostThrottle::new(SECOND, 1).site_delay(SECOND / 4);
    for round in 0..3 {
        for number in 0..MIN_HOSTS_TO_FORGET {
            throttle.slow_down(&format!("n{number}-{round}.test"), Duration::ZERO);
        }
        sleep(2 * SECOND).await;
    }
    assert!(throttle.sites.len() <= 2 * MIN_HOSTS_TO_FORGET, "{}", throttle.sites.len());
}
