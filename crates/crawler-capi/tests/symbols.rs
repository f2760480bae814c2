//! Tests that the static library defines no symbols that could clash with those of a C program.

mod toolchain;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use toolchain::{cargo, succeed};

/// The global symbols of an archive that a C program could also define. Symbols that start with an underscore, like
/// Rust's mangled names, or contain characters that are not allowed in C cannot clash. Weak symbols, like the maths
/// functions in every Rust library, give way to others.
fn names(archive: &Path) -> BTreeSet<String> {
    let output = succeed(Command::new("readelf").args(["--symbols", "--wide"]).arg(archive));
    let text = String::from_utf8(output.stdout).unwrap();
    let names = text.lines().filter_map(|line| {
        // Number, value, size, type, binding, visibility, section, name.
        let [_, _, _, _, "GLOBAL", _, section, name] = line.split_whitespace().collect::<Vec<_>>()[..] else {
            return None;
        };
        let can_clash = section != "UND" && !name.starts_with('_') && !name.contains(['.', '$']);
        can_clash.then(|| name.to_owned())
    });
    names.collect()
}

#[test]
#[ignore = "builds the library separately: run by make test"]
fn archive_defines_only_its_two_functions() {
    // In a test run of the workspace, the library has the features that other crates enable. The installed one has not.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("alone");
    succeed(cargo().args(["build", "--quiet", "-p", "crawler-capi", "--target-dir"]).arg(&target));
    let expected = ["crawl", "crawl_html", "rust_eh_personality"].map(str::to_owned);
    assert_eq!(names(&target.join("debug/libcrawl.a")), BTreeSet::from(expected));
}
