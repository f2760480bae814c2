//! The fast path of URL resolution returns the normal form of what the `url` crate returns, for every base and target it
//! accepts. The normal form is its own normal form.
#![no_main]

use crawler::internal::html::{self, normal_form, url_resolver::UrlResolver};
use libfuzzer_sys::fuzz_target;
use url::Url;

// The first line is the base, the rest is the target.
fuzz_target!(|input: &str| {
    let Some((base, target)) = input.split_once('\n') else { return };
    let Ok(base) = Url::parse("http://example.org/a/").expect("a valid URL").join(base) else { return };
    let resolver = UrlResolver::new(&base);
    let mut fast = String::new();
    if resolver.resolve_fast(target, &mut fast) {
        let mut expected = base.join(target).expect("the fast path accepts only valid targets");
        normal_form::normalize(&mut expected).expect("the fast path accepts only valid targets");
        assert_eq!(fast, expected.as_str(), "{base} + {target:?}");
    }
    let mut resolved = String::new();
    if resolver.resolve(target, || encoding_rs::UTF_8, &mut resolved).is_ok() {
        assert_eq!(
            html::normalize(&resolved).map(String::from).as_ref(),
            Ok(&resolved),
            "{base} + {target:?}"
        );
    }
});
