//! Turns a panic into an error without printing it, so that the caller decides how and how often to report it.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    /// Whether this thread runs inside `catch_panic`.
    static EXPECTED: Cell<bool> = const { Cell::new(false) };
    /// The source location of this thread's last expected panic.
    static LOCATION: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs a function that may panic. The panic is not printed; its message and location are the error. Panics of other
/// threads are printed as usual.
pub(crate) fn catch_panic<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    static INSTALL_HOOK: Once = Once::new();
    INSTALL_HOOK.call_once(|| {
        let default_hook = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if EXPECTED.get() {
                LOCATION.set(panic.location().map(|location| format!(" at {location}")));
            } else {
                default_hook(panic);
            }
        }));
    });
    let before = EXPECTED.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(run));
    EXPECTED.set(before);
    result.map_err(|panic| {
        let location = LOCATION.take().unwrap_or_default();
        format!("panicked{location}: {}", message(&*panic))
    })
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_becomes_an_error_with_its_message_also_when_nested() {
        assert_eq!(catch_panic(|| 1), Ok(1));
        let inner = || -> () { panic!("inner {}", 1) };
        let (inner_result, still_expected) = catch_panic(|| (catch_panic(inner), EXPECTED.get())).unwrap();
        let error = inner_result.unwrap_err();
        assert!(error.starts_with("panicked at ") && error.ends_with(": inner 1"), "{error}");
        assert!(error.contains("panics.rs:"), "{error}");
        assert!(still_expected && !EXPECTED.get());
    }
}
