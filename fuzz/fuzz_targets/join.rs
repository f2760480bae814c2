//! Checks that the fast path of URL resolution agrees with the `url` crate.
#![no_main]

use crawler::internal::html::url_resolver::UrlResolver;
use libfuzzer_sys::fuzz_target;
use url::Url;

// The input is the base, a line feed, and the target.
fuzz_target!(|input: &str| {
    let Some((base, target)) = input.split_once('\n') else { return };
    let Ok(base) = Url::parse("http://example.org/a/").expect("a URL").join(base) else { return };
    let mut fast = String::new();
    if UrlResolver::new(&base).resolve_fast(target, &mut fast) {
        let mut expected = base.join(target).expect("the fast path supports only valid targets");
        expected.set_fragment(None);
        assert_eq!(fast, expected.as_str(), "{base} + {target:?}");
    }
});
