//! Tests of the time limit of responses that wait for bytes; exchanges.rs: of recorded exchanges.

mod exchanges;

use tokio::time::sleep;

use super::*;
use crate::stats::BodyBytes;

const LIMIT: Duration = Duration::from_secs(10);

/// Grants a hundred bytes after a minute.
struct SlowBudget;

impl ByteBudget for SlowBudget {
    fn grant_more(&self, _: BodyBytes) -> GrantFuture<'_> {
        Box::pin(async {
            sleep(6 * LIMIT).await;
            Ok(100)
        })
    }
}

#[tokio::test(start_paused = true)]
async fn time_in_which_a_response_waits_for_bytes_does_not_count_against_the_timeout() {
    for (seconds, is_in_time) in [(9, true), (12, false)] {
        let (counter, start) = (ByteCounter::new(100, &SlowBudget), Instant::now());
        let exchange = async {
            // It waits three times, and the server takes a third of its time before each of them.
            for received in [300, 50, 40] {
                sleep(Duration::from_secs(seconds) / 3).await;
                counter.receive_granted(received).await;
            }
        };
        let result = timeout_without_waits(LIMIT, exchange, &counter).await;
        assert_eq!(result.is_ok(), is_in_time, "{seconds} s");
        let waits = counter.waited();
        assert_eq!(waits, 18 * LIMIT);
        assert_eq!(start.elapsed() - waits, LIMIT.min(Duration::from_secs(seconds)));
    }
}

#[tokio::test(start_paused = true)]
async fn bytes_that_were_not_granted_do_not_count() {
    let counter = ByteCounter::new(100, &SlowBudget);
    assert!(timeout(LIMIT, counter.receive_granted(250)).await.is_err());
    assert_eq!(counter.uncounted(), BodyBytes::default(), "the budget has counted a hundred bytes");
    counter.receive_granted(0).await;
    assert_eq!(counter.uncounted(), BodyBytes { decoded: 0, received: 50 });
}
