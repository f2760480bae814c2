//! The names that the static library defines: its two functions, and none that could clash with a program's own.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use super::toolchain::{LIBRARY_VARIABLE, built_alone, succeed};

/// The global names that an archive defines and that a C program could define too. Names that start with an underscore,
/// as Rust's mangled ones do, and names with characters that C does not allow cannot clash. Weak definitions, such as the
/// math functions in every Rust library, give way to others.
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
#[ignore = "needs the library built alone: run by make test"]
fn archive_defines_only_its_two_functions() {
    // A workspace build has the features that other crates ask for; the installed library has not.
    let directory = built_alone().unwrap_or_else(|| {
        panic!(
            "set {LIBRARY_VARIABLE} to the directory that `cargo build -p crawler-capi` built the library in"
        )
    });
    let expected = ["crawl", "crawl_html", "rust_eh_personality"].map(str::to_owned);
    assert_eq!(names(&directory.join("libcrawl.a")), BTreeSet::from(expected));
}
