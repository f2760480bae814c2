//! Turns a panic into an error, silently: what it said is told in other words, or as often as it should be.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    /// Panics of this thread are expected.
    static EXPECTED: Cell<bool> = const { Cell::new(false) };
    /// Where the last expected panic of this thread came from.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs something that may panic, and keeps the panic's words off the terminal: they are the error. Panics of other
/// threads are told as ever.
pub(crate) fn catch_panic<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    static SILENCED: Once = Once::new();
    SILENCED.call_once(|| {
        let tell = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if EXPECTED.get() {
                PLACE.set(panic.location().map(|place| format!(" at {place}")));
            } else {
                tell(panic);
            }
        }));
    });
    let before = EXPECTED.replace(true);
    let done = panic::catch_unwind(AssertUnwindSafe(run));
    EXPECTED.set(before);
    done.map_err(|panic| {
        let place = PLACE.take().unwrap_or_default();
        format!("panicked{place}: {}", words(&*panic))
    })
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without words")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_with_its_words_also_within_another() {
        assert_eq!(catch_panic(|| 1), Ok(1));
        let inner = || -> () { panic!("inner {}", 1) };
        let (said, still_expected) = catch_panic(|| (catch_panic(inner), EXPECTED.get())).unwrap();
        let said = said.unwrap_err();
        assert!(said.starts_with("panicked at ") && said.ends_with(": inner 1"), "{said}");
        assert!(said.contains("panics.rs:"), "{said}");
        assert!(still_expected && !EXPECTED.get());
    }
}
