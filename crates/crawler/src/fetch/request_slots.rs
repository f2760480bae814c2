//! Limits the requests in flight. A request that has received nothing for a while gives its slot to another one.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::sleep;

/// A request that has received nothing for this long does not count as in flight.
const SILENCE: Duration = Duration::from_secs(1);

/// How often a silent request is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// Slots for requests in flight.
pub(super) struct RequestSlots {
    free: Semaphore,
    /// Requests that received something after they gave their slot away, while no slot was free. Each takes the next slot
    /// that becomes free.
    overdrawn: AtomicUsize,
    /// How many further requests may be silent without a slot.
    silent: Semaphore,
}

/// The slot of one request.
pub(super) struct RequestSlot<'a> {
    slots: &'a RequestSlots,
    is_silent: bool,
}

impl RequestSlots {
    /// Slots for `max` requests, and for `max_silent` more that are silent.
    pub(super) fn new(max: usize, max_silent: usize) -> RequestSlots {
        RequestSlots {
            free: Semaphore::new(max.clamp(1, Semaphore::MAX_PERMITS)),
            overdrawn: AtomicUsize::new(0),
            silent: Semaphore::new(max_silent.min(Semaphore::MAX_PERMITS)),
        }
    }

    /// Waits for a free slot.
    pub(super) async fn acquire(&self) -> RequestSlot<'_> {
        self.free.acquire().await.expect("the semaphore is never closed").forget();
        RequestSlot { slots: self, is_silent: false }
    }

    fn release(&self) {
        let is_overdrawn =
            self.overdrawn.try_update(Ordering::AcqRel, Ordering::Acquire, |count| count.checked_sub(1));
        if is_overdrawn.is_err() {
            self.free.add_permits(1);
        }
    }
}

impl RequestSlot<'_> {
    /// Gives the slot away while the request receives nothing, and takes it back when it does. Never returns. `received`
    /// returns how much was received, and `changed` is called with whether the request is silent.
    pub(super) async fn watch(&mut self, received: impl Fn() -> u64, mut changed: impl FnMut(bool)) {
        let mut last = received();
        let mut quiet = Duration::ZERO;
        loop {
            sleep(if self.is_silent { CHECK_INTERVAL } else { SILENCE / 2 }).await;
            let now = received();
            if now != last {
                (last, quiet) = (now, Duration::ZERO);
                if self.is_silent {
                    self.resume();
                    changed(false);
                }
            } else if !self.is_silent {
                quiet += SILENCE / 2;
                if quiet >= SILENCE && self.pause() {
                    changed(true);
                }
            }
        }
    }

    /// Gives the slot away, unless too many requests are silent already.
    fn pause(&mut self) -> bool {
        let Ok(permit) = self.slots.silent.try_acquire() else { return false };
        permit.forget();
        self.is_silent = true;
        self.slots.release();
        true
    }

    fn resume(&mut self) {
        self.is_silent = false;
        self.slots.silent.add_permits(1);
        match self.slots.free.try_acquire() {
            Ok(permit) => permit.forget(),
            Err(_) => drop(self.slots.overdrawn.fetch_add(1, Ordering::AcqRel)),
        }
    }
}

impl Drop for RequestSlot<'_> {
    fn drop(&mut self) {
        match self.is_silent {
            true => self.slots.silent.add_permits(1),
            false => self.slots.release(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use tokio::time::{Instant, timeout};

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn silent_request_gives_its_slot_away_and_takes_it_back() {
        let slots = RequestSlots::new(1, 1);
        let received = Cell::new(0);
        let mut silent = slots.acquire().await;
        let changes = Cell::new(Vec::new());
        let note = |is_silent| {
            let mut list = changes.take();
            list.push(is_silent);
            changes.set(list);
        };
        let started = Instant::now();
        let other = tokio::select! {
            () = silent.watch(|| received.get(), note) => unreachable!(),
            other = slots.acquire() => other,
        };
        assert!((SECOND..SECOND + Duration::from_millis(5)).contains(&started.elapsed()));
        let receive = async {
            sleep(Duration::from_millis(100)).await;
            received.set(1);
        };
        let (watched, ()) = tokio::join!(timeout(SECOND / 2, silent.watch(|| received.get(), note)), receive);
        assert!(watched.is_err());
        drop(other);
        assert!(timeout(SECOND, slots.acquire()).await.is_err(), "the slot was taken back");
        drop(silent);
        let _third = slots.acquire().await;
        assert_eq!(changes.take(), [true, false]);
    }

    #[tokio::test(start_paused = true)]
    async fn number_of_silent_requests_is_limited() {
        let slots = RequestSlots::new(1, 1);
        let mut first = slots.acquire().await;
        assert!(timeout(2 * SECOND, first.watch(|| 0, |_| ())).await.is_err());
        let mut second = slots.acquire().await;
        assert!(timeout(2 * SECOND, second.watch(|| 0, |_| ())).await.is_err());
        assert!(timeout(SECOND, slots.acquire()).await.is_err());
        drop(first);
        assert!(timeout(2 * SECOND, second.watch(|| 0, |_| ())).await.is_err());
        let _third = slots.acquire().await;
    }

    #[tokio::test(start_paused = true)]
    async fn request_that_receives_something_keeps_its_slot() {
        let slots = RequestSlots::new(1, 1);
        let mut slot = slots.acquire().await;
        let started = Instant::now();
        let received = || started.elapsed().as_millis() as u64 / 900;
        assert!(timeout(9 * SECOND, slot.watch(received, |_| unreachable!())).await.is_err());
    }
}
