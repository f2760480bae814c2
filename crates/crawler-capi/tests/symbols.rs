//! What the static library brings into a C program: two functions, and no names that could clash with its own.

mod toolchain;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use toolchain::{cargo, succeed};

/// The names that an archive defines, and that a program could not define again, among those a C program may use:
/// the others begin with an underscore, as Rust's mangled ones do, or have characters that C does not know. Weak
/// definitions, as of the maths functions in every Rust library, give way to others.
fn names(archive: &Path) -> BTreeSet<String> {
    let output = succeed(Command::new("readelf").args(["--symbols", "--wide"]).arg(archive));
    let text = String::from_utf8(output.stdout).unwrap();
    let names = text.lines().filter_map(|line| {
        // Number, value, size, type, binding, visibility, section, name.
        let [_, _, _, _, "GLOBAL", _, section, name] = line.split_whitespace().collect::<Vec<_>>()[..] else {
            return None;
        };
        let ours = section != "UND" && !name.starts_with('_') && !name.contains(['.', '$']);
        ours.then(|| name.to_owned())
    });
    names.collect()
}

#[test]
#[ignore = "builds the library once more, by itself: run by make test"]
fn the_archive_defines_two_names_of_its_own() {
    // Within a workspace's test run the library has the features that others ask for, as installed it has not.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("alone");
    succeed(cargo().args(["build", "--quiet", "-p", "crawler-capi", "--target-dir"]).arg(&target));
    let expected = ["crawl", "crawl_html", "rust_eh_personality"].map(str::to_owned);
    assert_eq!(names(&target.join("debug/libcrawl.a")), BTreeSet::from(expected));
}
