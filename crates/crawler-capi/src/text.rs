//! C strings on their way in and out; only this file knows how they are owned.

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::NonNull;

unsafe extern "C" {
    /// The C library's: what `fetch_fn` allocated with `malloc` goes back through it.
    fn free(memory: *mut c_void);
}

/// A page that `fetch_fn` returned, and the C string it was asked for. The page is freed once, when this is
/// dropped.
pub(crate) struct Page {
    link: Vec<u8>,
    text: NonNull<c_char>,
}

// SAFETY: the text is memory that belongs to this value alone, and `free` may be called from any thread.
unsafe impl Send for Page {}

impl Page {
    /// Fetches the page behind a link.
    ///
    /// # Safety
    /// `fetch_fn` takes a C string, and returns NULL or a C string allocated with `malloc` that nobody else
    /// touches or frees.
    pub(crate) unsafe fn fetch(
        link: &[u8],
        fetch_fn: unsafe extern "C" fn(*const c_char) -> *mut c_char,
    ) -> Option<Self> {
        let link = [link, b"\0"].concat();
        // SAFETY: the caller promises that this takes a C string, and here is one.
        let text = NonNull::new(unsafe { fetch_fn(link.as_ptr().cast()) })?;
        Some(Page { link, text })
    }

    /// The page's own link, as a C string.
    pub(crate) fn link(&self) -> *const c_char {
        self.link.as_ptr().cast()
    }
}

impl AsRef<[u8]> for Page {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `fetch` was promised a C string, which lives as long as this value does.
        unsafe { bytes(self.text.as_ptr()) }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: `fetch` was promised that the memory comes from `malloc` and is ours, and this runs once.
        unsafe { free(self.text.as_ptr().cast()) }
    }
}

/// The bytes of a C string, without the NUL at its end.
///
/// # Safety
/// `text` is a C string that lives and stays as it is for `'a`.
pub(crate) unsafe fn bytes<'a>(text: *const c_char) -> &'a [u8] {
    // SAFETY: the caller's promise is what `from_ptr` asks for.
    unsafe { CStr::from_ptr(text) }.to_bytes()
}

/// Calls a function with a text as a C string, which is gone afterwards.
pub(crate) fn with_c_string(text: &[u8], call: impl FnOnce(*const c_char)) {
    thread_local! {
        static C_STRING: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    // A crawl that the function starts runs on other threads: this one is not here twice at once.
    C_STRING.with_borrow_mut(|c_string| {
        c_string.clear();
        c_string.extend_from_slice(text);
        c_string.push(0);
        call(c_string.as_ptr().cast());
    });
}
