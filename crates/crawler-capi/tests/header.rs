//! `crawl.h` says what the library is: the C compiler holds it against declarations made from the Rust
//! source.

mod toolchain;

use std::fs;
use std::process::Command;
use tempfile::TempDir;
use toolchain::{compiler, crate_directory, succeed};

/// The declarations of all exported functions, as made from the Rust source.
fn declarations() -> String {
    let config =
        cbindgen::Config { language: cbindgen::Language::C, no_includes: true, ..Default::default() };
    let bindings = cbindgen::Builder::new()
        .with_src(crate_directory().join("src/lib.rs"))
        .with_config(config)
        .generate()
        .expect("the Rust source can be read");
    let mut text = Vec::new();
    bindings.write(&mut text);
    String::from_utf8(text).expect("declarations are text")
}

/// The functions declared in a C header without bodies, by the names before their parameters.
fn declared_names(header: &str) -> Vec<String> {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("declarations.h");
    fs::write(&path, header).unwrap();
    let mut preprocessor = compiler();
    let output = succeed(preprocessor.args(["-E", "-P"]).arg(&path));
    let text = String::from_utf8(output.stdout).unwrap();
    let mut names: Vec<_> = text
        .split(';')
        .filter(|declaration| !declaration.trim_start().starts_with("typedef"))
        .filter_map(|declaration| declaration.split('(').next()?.split_whitespace().last().map(str::to_owned))
        .collect();
    names.sort();
    names
}

/// Whether the compiler takes both for the same.
fn agrees_with_the_header(declarations: &str) -> bool {
    let directory = TempDir::new().unwrap();
    let source = directory.path().join("both.c");
    fs::write(&source, format!("#include \"crawl.h\"\n{declarations}")).unwrap();
    let mut compiler = compiler();
    compiler.arg("-fsyntax-only").arg(source).output().unwrap().status.success()
}

#[test]
fn the_header_declares_what_the_library_exports() {
    let declarations = declarations();
    let header = fs::read_to_string(crate_directory().join("include/crawl.h")).unwrap();
    assert!(agrees_with_the_header(&declarations), "crawl.h contradicts the source:\n{declarations}");
    assert_eq!(declared_names(&header), ["crawl", "crawl_html"]);
    // Of what the source declares, `free` is the C library's.
    let exported: Vec<_> = declared_names(&declarations).into_iter().filter(|name| name != "free").collect();
    assert_eq!(declared_names(&header), exported);
}

#[test]
fn a_header_that_differs_would_be_noticed() {
    let declarations = declarations();
    for (from, to) in
        [("int parse_workers", "long parse_workers"), ("int crawl", "void crawl"), ("char *(", "void *(")]
    {
        let other = declarations.replace(from, to);
        assert_ne!(other, declarations);
        assert!(!agrees_with_the_header(&other), "{from} is as good as {to}");
    }
}

/// Whether a compiler takes the header by itself, with all warnings on.
fn is_good_header(compiler: &str, language: &str, standard: &str, name: &str) {
    let mut command = Command::new(compiler);
    command.args(["-x", language, standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]);
    succeed(command.arg(crate_directory().join("include").join(name)));
}

#[test]
fn the_header_is_good_in_old_c_and_in_cpp_under_both_names() {
    for name in ["crawl.h", "crawler.h"] {
        is_good_header("cc", "c", "-std=c99", name);
        is_good_header("cc", "c", "-std=c17", name);
        // Not every system with a C compiler has one for C++.
        if Command::new("c++").arg("--version").output().is_ok() {
            is_good_header("c++", "c++", "-std=c++11", name);
        }
    }
}
