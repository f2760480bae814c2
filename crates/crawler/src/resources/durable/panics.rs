//! Turns a panic into an error, silently: the storage engine panics where pages of a damaged file contradict each other.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    /// Panics of this thread are expected, and said in other words.
    static EXPECTED: Cell<bool> = const { Cell::new(false) };
}

/// Runs something that may panic on a damaged file, and keeps the panic's words off the terminal. Panics of other
/// threads are told as ever.
pub(super) fn quietly<T>(run: impl FnOnce() -> T) -> Result<T, ()> {
    static SILENCED: Once = Once::new();
    SILENCED.call_once(|| {
        let tell = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !EXPECTED.get() {
                tell(panic);
            }
        }));
    });
    let before = EXPECTED.replace(true);
    let done = panic::catch_unwind(AssertUnwindSafe(run)).map_err(|_| ());
    EXPECTED.set(before);
    done
}

/// Something of the storage engine's that may panic when it is dropped.
pub(super) struct Quiet<T>(Option<T>);

impl<T> Quiet<T> {
    pub(super) fn new(inner: T) -> Quiet<T> {
        Quiet(Some(inner))
    }

    pub(super) fn get(&self) -> &T {
        self.0.as_ref().expect("it is taken out only by the drop")
    }
}

impl<T> Drop for Quiet<T> {
    fn drop(&mut self) {
        let inner = self.0.take();
        // Whatever it could not do at its end, the next opening does or refuses.
        let _ = quietly(|| drop(inner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }

    #[test]
    fn a_panic_becomes_an_error_also_within_another_and_in_a_drop() {
        assert_eq!(quietly(|| 1), Ok(1));
        let inner = || -> () { panic!("inner") };
        assert_eq!(quietly(|| (quietly(inner), EXPECTED.get())), Ok((Err(()), true)));
        assert!(!EXPECTED.get());
        drop(Quiet::new(Bomb));
        assert!(!EXPECTED.get());
    }
}
