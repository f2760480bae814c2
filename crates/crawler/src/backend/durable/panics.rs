//! Turns a panic into an error, silently: the storage engine panics where pages of a damaged file contradict each other.

use crate::panics;

/// Runs something that may panic on a damaged file, and keeps the panic's words off the terminal.
pub(super) fn catch_panic<T>(run: impl FnOnce() -> T) -> Result<T, ()> {
    panics::catch_panic(run).map_err(drop)
}

/// Something of the storage engine's that may panic when it is dropped.
pub(super) struct DropGuarded<T>(Option<T>);

impl<T> DropGuarded<T> {
    pub(super) fn new(inner: T) -> DropGuarded<T> {
        DropGuarded(Some(inner))
    }

    pub(super) fn get(&self) -> &T {
        self.0.as_ref().expect("it is taken out only by the drop")
    }
}

impl<T> Drop for DropGuarded<T> {
    fn drop(&mut self) {
        let inner = self.0.take();
        // Whatever it could not do at its end, the next opening does or refuses.
        let _ = catch_panic(|| drop(inner));
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
    fn a_panic_becomes_an_error_also_in_a_drop() {
        assert_eq!(catch_panic(|| 1), Ok(1));
        assert_eq!(catch_panic(|| -> () { panic!("expected") }), Err(()));
        drop(DropGuarded::new(Bomb));
    }
}
