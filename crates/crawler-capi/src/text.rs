//! C strings on their way in and out; only this file knows how they are owned.

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::{self, NonNull};

unsafe extern "C" {
    /// The C library's: what `fetch_fn` allocated with `malloc` goes back through it.
    fn free(memory: *mut c_void);
}

/// A page that `fetch_fn` returned. Freed once, when it is dropped.
pub(crate) struct Page(NonNull<c_char>);

// SAFETY: the page is memory that belongs to this value alone, and `free` may be called from any thread.
unsafe impl Send for Page {}

impl Page {
    /// # Safety
    /// `text` is NULL or a C string allocated with `malloc` that nobody else touches or frees.
    pub(crate) unsafe fn new(text: *mut c_char) -> Option<Self> {
        NonNull::new(text).map(Page)
    }
}

impl AsRef<[u8]> for Page {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `new` was promised a C string, which lives as long as this value does.
        unsafe { bytes(self.0.as_ptr()) }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: `new` was promised that the memory comes from `malloc` and is ours, and this runs once.
        unsafe { free(self.0.as_ptr().cast()) }
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

/// Gives a link as a C string.
pub(crate) fn with_link<R>(link: &[u8], call: impl FnOnce(*const c_char) -> R) -> R {
    call([link, b"\0"].concat().as_ptr().cast())
}

/// Gives the two ends of an edge as C strings.
///
/// `from` must stay where it is and as it is for as long as this thread lives.
pub(crate) fn with_edge(from: &[u8], to: &[u8], call: impl FnOnce(*const c_char, *const c_char)) {
    thread_local! {
        static EDGE: RefCell<EdgeText> = const { RefCell::new(EdgeText { from: &[], text: Vec::new() }) };
    }
    // A crawl that the callback starts runs on other threads: this one is not here twice at once.
    EDGE.with_borrow_mut(|edge| {
        edge.set(from, to);
        call(edge.text.as_ptr().cast(), edge.text[from.len() + 1..].as_ptr().cast());
    });
}

/// The edge that a parser is announcing: `from`, NUL, `to`, NUL. The edges of a page share their `from`,
/// which is copied once, so that a long link on a page with many links costs no more than it must.
struct EdgeText {
    /// Only ever compared.
    from: *const [u8],
    text: Vec<u8>,
}

impl EdgeText {
    fn set(&mut self, from: &[u8], to: &[u8]) {
        if ptr::eq(self.from, from) && !self.text.is_empty() {
            self.text.truncate(from.len() + 1);
        } else {
            self.from = from;
            self.text.clear();
            self.text.extend_from_slice(from);
            self.text.push(0);
        }
        self.text.extend_from_slice(to);
        self.text.push(0);
    }
}
