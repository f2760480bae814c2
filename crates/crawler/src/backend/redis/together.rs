//! Lets moves that come while others are under way go together with the next ones: one script does them all.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

use super::super::BackendError;
use crate::error::StorageErrorKind;

/// Moves of one kind: what is asked, and what is answered.
pub(super) struct Batcher<T, R> {
    state: Mutex<State<T, R>>,
    /// The most that go together, by their weights: a script must not be long.
    most: usize,
    /// How long the first waits for others.
    gathering: Duration,
    are_enough: Notify,
}

/// With so many it does not wait for more.
const ENOUGH: usize = 16;

struct State<T, R> {
    waiting: Vec<(T, oneshot::Sender<Turn<T, R>>)>,
    is_under_way: bool,
    /// Somebody waits until there are so many.
    wanted: usize,
}

/// What somebody who waits is told.
enum Turn<T, R> {
    /// The move was made with others.
    Made(Result<R, BackendError>),
    /// It is time to make it, together with what else waits.
    Make(T),
}

impl<T, R> Batcher<T, R> {
    pub(super) fn new(most: usize, gathering: Duration) -> Batcher<T, R> {
        let state = Mutex::new(State { waiting: Vec::new(), is_under_way: false, wanted: 0 });
        Batcher { state, most, gathering, are_enough: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State<T, R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a move, with all that come while others are under way, and a little longer where more may come: of so many
    /// there may be at a time.
    pub(super) async fn make(
        &self,
        one: T,
        at_a_time: usize,
        weight: impl Fn(&T) -> usize,
        make: impl AsyncFnOnce(Vec<T>) -> Result<Vec<R>, BackendError>,
    ) -> Result<R, BackendError> {
        let closed = || BackendError::redis(StorageErrorKind::Io, "the connection to Redis was closed");
        let one = match self.wait_or_go(one) {
            Ok(one) => one,
            Err(turn) => match turn.await {
                Ok(Turn::Made(made)) => return made,
                Ok(Turn::Make(one)) => one,
                Err(_) => return Err(closed()),
            },
        };
        self.gather(at_a_time.min(ENOUGH)).await;
        let (mut all, mut others, mut load) = (vec![one], Vec::new(), 0);
        load += weight(&all[0]);
        {
            let mut state = self.state();
            let mut fits = |(next, _): &(T, _)| {
                load += weight(next);
                load <= self.most
            };
            let count = state.waiting.iter().take_while(|next| fits(next)).count();
            for (next, turn) in state.waiting.drain(..count) {
                all.push(next);
                others.push(turn);
            }
        }
        let made = make(all).await;
        self.pass_on();
        let mut made = match made {
            Ok(made) => made.into_iter(),
            Err(trouble) => {
                others.into_iter().for_each(|turn| drop(turn.send(Turn::Made(Err(trouble.clone())))));
                return Err(trouble);
            }
        };
        let own = made.next().ok_or_else(closed);
        for (turn, made) in others.into_iter().zip(made) {
            // Who does not wait any more does not want to know.
            let _ = turn.send(Turn::Made(Ok(made)));
        }
        own
    }

    /// The turn to wait for, if moves are under way.
    fn wait_or_go(&self, one: T) -> Result<T, oneshot::Receiver<Turn<T, R>>> {
        let mut state = self.state();
        if !state.is_under_way {
            state.is_under_way = true;
            return Ok(one);
        }
        let (turn, wait) = oneshot::channel();
        state.waiting.push((one, turn));
        if state.waiting.len() == state.wanted {
            self.are_enough.notify_one();
        }
        Err(wait)
    }

    /// Waits until there are so many, for a while.
    async fn gather(&self, enough: usize) {
        {
            let mut state = self.state();
            if state.waiting.len() + 1 >= enough {
                return;
            }
            state.wanted = enough - 1;
        }
        let _ = timeout(self.gathering, self.are_enough.notified()).await;
        self.state().wanted = 0;
    }

    /// Lets somebody who waits make the next moves.
    fn pass_on(&self) {
        let mut state = self.state();
        while !state.waiting.is_empty() {
            let (next, turn) = state.waiting.remove(0);
            if turn.send(Turn::Make(next)).is_ok() {
                return;
            }
        }
        state.is_under_way = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const GATHERING: Duration = Duration::from_millis(50);

    /// Makes ten moves at once; answers what each was answered, and how many times something was made.
    async fn make_ten(most: usize, fails: bool) -> (Vec<Result<u32, BackendError>>, usize) {
        make_ten_of(1, most, fails).await
    }

    /// The same, where so many may come at a time.
    async fn make_ten_of(
        at_a_time: usize,
        most: usize,
        fails: bool,
    ) -> (Vec<Result<u32, BackendError>>, usize) {
        let (together, times) = (Arc::new(Batcher::new(most, GATHERING)), Arc::new(AtomicUsize::new(0)));
        let all = (0..10u32).map(|number| {
            let (together, times) = (Arc::clone(&together), Arc::clone(&times));
            tokio::spawn(async move {
                let make = async |all: Vec<u32>| {
                    times.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    if fails {
                        Err(BackendError::redis(StorageErrorKind::Io, "no"))
                    } else {
                        Ok(all.iter().map(|one| one * 2).collect())
                    }
                };
                together.make(number, at_a_time, |_| 1, make).await
            })
        });
        let mut answers = Vec::new();
        for one in all.collect::<Vec<_>>() {
            answers.push(one.await.unwrap());
        }
        (answers, times.load(Ordering::Relaxed))
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_while_something_is_under_way_goes_together_and_each_gets_its_own_answer() {
        let (answers, times) = make_ten(100, false).await;
        assert!(answers.into_iter().map(Result::unwrap).eq((0..10).map(|number| 2 * number)));
        assert_eq!(times, 2, "the first alone, and the others after it");
    }

    #[tokio::test(start_paused = true)]
    async fn where_others_may_come_the_first_waits_for_them_and_no_longer_than_until_they_are_there() {
        let begun = tokio::time::Instant::now();
        let (answers, times) = make_ten_of(10, 100, false).await;
        assert!(answers.into_iter().map(Result::unwrap).eq((0..10).map(|number| 2 * number)));
        assert_eq!(times, 1, "all of them together");
        assert!(begun.elapsed() < GATHERING, "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn for_those_who_do_not_come_it_waits_a_moment() {
        let begun = tokio::time::Instant::now();
        let (answers, times) = make_ten_of(12, 100, false).await;
        assert!(answers.iter().all(Result::is_ok));
        assert_eq!(times, 1, "all that came");
        assert!(begun.elapsed() >= GATHERING && begun.elapsed() < 2 * GATHERING, "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_go_together_than_may() {
        let (answers, times) = make_ten(3, false).await;
        assert!(answers.iter().all(Result::is_ok));
        assert_eq!(times, 4);
    }

    #[tokio::test(start_paused = true)]
    async fn trouble_is_told_to_all_who_went_together() {
        let (answers, _) = make_ten(100, true).await;
        assert!(answers.iter().all(|answer| answer.as_ref().unwrap_err().to_string() == "no"));
    }
}
