//! Turns panics of the storage engine into errors, silently: it panics if pages of a damaged file are inconsistent.

use crate::panics;

/// Runs code that may panic on a damaged file, without printing the panic.
pub(super) fn catch_panic<T>(run: impl FnOnce() -> T) -> Result<T, ()> {
    panics::catch_panic(run).map_err(drop)
}

/// A value of the storage engine whose drop may panic.
pub(super) struct DropGuarded<T>(Option<T>);

impl<T> DropGuarded<T> {
    pub(super) fn new(inner: T) -> DropGuarded<T> {
        DropGuarded(Some(inner))
    }

    pub(super) fn get(&self) -> &T {
        self.0.as_ref().expect("only drop takes the value")
    }
}

impl<T> Drop for DropGuarded<T> {
    fn drop(&mut self) {
        let inner = self.0.take();
        // What the drop could not finish, the next open repairs or refuses.
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
    fn panic_becomes_an_error_also_in_a_drop() {
        assert_eq!(catch_panic(|| 1), Ok(1));
        assert_eq!(catch_panic(|| -> () { panic!("expected") }), Err(()));
        drop(DropGuarded::new(Bomb));
    }
}
