//! Conversion between C strings and bytes. Only this file knows who owns the strings.

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::NonNull;

unsafe extern "C" {
    /// The C library's `free`, for the strings that `fetch_fn` allocates with `malloc`.
    fn free(memory: *mut c_void);
}

/// A page that `fetch_fn` returned, with its link as a C string. A drop frees the page.
pub(crate) struct Page {
    link: Vec<u8>,
    text: NonNull<c_char>,
}

// SAFETY: this value is the only owner of the text, and `free` may be called from any thread.
unsafe impl Send for Page {}

impl Page {
    /// Fetches the page of a link.
    ///
    /// # Safety
    /// `fetch_fn` takes a C string, and returns NULL or a C string allocated with `malloc`, which no other
    /// code accesses or frees.
    pub(crate) unsafe fn fetch(
        link: &[u8],
        fetch_fn: unsafe extern "C" fn(*const c_char) -> *mut c_char,
    ) -> Option<Self> {
        let link = [link, b"\0"].concat();
        // SAFETY: the caller guarantees that `fetch_fn` takes a C string; `link` ends with a NUL.
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
        // SAFETY: by the contract of `fetch`, this is a C string, and it lives as long as this value.
        unsafe { bytes(self.text.as_ptr()) }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: by the contract of `fetch`, the memory comes from `malloc` and is owned here; `drop` runs once.
        unsafe { free(self.text.as_ptr().cast()) }
    }
}

/// The bytes of a C string, without the NUL at its end.
///
/// # Safety
/// `text` is a C string that is valid and does not change for `'a`.
pub(crate) unsafe fn bytes<'a>(text: *const c_char) -> &'a [u8] {
    // SAFETY: the requirements of `from_ptr` are those of this function.
    unsafe { CStr::from_ptr(text) }.to_bytes()
}

/// Calls a function with a text as a C string, which is valid only during the call.
pub(crate) fn with_c_string(text: &[u8], call: impl FnOnce(*const c_char)) {
    thread_local! {
        static C_STRING: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    // The borrow is never nested: a crawl that the function starts runs its callbacks on other threads.
    C_STRING.with_borrow_mut(|c_string| {
        c_string.clear();
        c_string.extend_from_slice(text);
        c_string.push(0);
        call(c_string.as_ptr().cast());
    });
}
