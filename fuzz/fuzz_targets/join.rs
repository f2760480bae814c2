//! Joining quickly, whenever it gives an answer, gives that of the `url` crate.
#![no_main]

use crawler::internal::html::url_resolver::UrlResolver;
use libfuzzer_sys::fuzz_target;
use url::Url;

// The base stands before the first line end, the target after it.
fuzz_target!(|input: &str| {
    let Some((base, target)) = input.split_once('\n') else { return };
    let Ok(base) = Url::parse("http://example.org/a/").expect("a URL").join(base) else { return };
    let mut quick = String::new();
    if UrlResolver::new(&base).quickly(target, &mut quick) {
        let mut thorough = base.join(target).expect("what is joined quickly is well-formed");
        thorough.set_fragment(None);
        assert_eq!(quick, thorough.as_str(), "{base} + {target:?}");
    }
});
