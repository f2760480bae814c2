//! The fast path of URL resolution returns what the `url` crate returns, for every base and target it accepts.
#![no_main]

use crawler::internal::html::url_resolver::UrlResolver;
use libfuzzer_sys::fuzz_target;
use url::Url;

// The first line is the base, the rest is the target.
fuzz_target!(|input: &str| {
    let Some((base, target)) = input.split_once('\n') else { return };
    let Ok(base) = Url::parse("http://example.org/a/").expect("a valid URL").join(base) else { return };
    let mut fast = String::new();
    if UrlResolver::new(&base).resolve_fast(target, &mut fast) {
        let mut expected = base.join(target).expect("the fast path accepts only valid targets");
        expected.set_fragment(None);
        assert_eq!(fast, expected.as_str(), "{base} + {target:?}");
    }
});
