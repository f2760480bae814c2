//! `crawl.h` declares what the library exports: the C compiler compares it with declarations generated from the Rust
//! source.

use std::fs;
use std::process::Command;

use tempfile::TempDir;

use super::toolchain::{compiler, crate_directory, succeed};

/// The declarations of all exported functions, generated from the Rust source.
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

/// The names of the functions that a C header declares.
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

/// Whether the compiler accepts both sets of declarations in one file.
fn agrees_with_the_header(declarations: &str) -> bool {
    let directory = TempDir::new().unwrap();
    let source = directory.path().join("both.c");
    fs::write(&source, format!("#include \"crawl.h\"\n{declarations}")).unwrap();
    let mut compiler = compiler();
    compiler.arg("-fsyntax-only").arg(source).output().unwrap().status.success()
}

#[test]
fn header_declares_what_the_library_exports() {
    let declarations = declarations();
    let header = fs::read_to_string(crate_directory().join("include/crawl.h")).unwrap();
    assert!(agrees_with_the_header(&declarations), "crawl.h contradicts the source:\n{declarations}");
    assert_eq!(declared_names(&header), ["crawl", "crawl_html"]);
    // The source also declares `free`, which is the C library's.
    let exported: Vec<_> = declared_names(&declarations).into_iter().filter(|name| name != "free").collect();
    assert_eq!(declared_names(&header), exported);
}

#[test]
fn different_declarations_are_rejected() {
    let declarations = declarations();
    for (from, to) in
        [("int parse_workers", "long parse_workers"), ("int crawl", "void crawl"), ("char *(", "void *(")]
    {
        let other = declarations.replace(from, to);
        assert_ne!(other, declarations);
        assert!(!agrees_with_the_header(&other), "{to} is accepted for {from}");
    }
}

/// Asserts that a compiler accepts the header alone, with all warnings as errors.
fn assert_compiles(compiler: &str, language: &str, standard: &str, name: &str) {
    let mut command = Command::new(compiler);
    command.args(["-x", language, standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]);
    succeed(command.arg(crate_directory().join("include").join(name)));
}

#[test]
fn header_compiles_as_c99_c17_and_cpp_under_both_names() {
    for name in ["crawl.h", "crawler.h"] {
        assert_compiles("cc", "c", "-std=c99", name);
        assert_compiles("cc", "c", "-std=c17", name);
        // Not every system with a C compiler has a C++ compiler.
        if Command::new("c++").arg("--version").output().is_ok() {
            assert_compiles("c++", "c++", "-std=c++11", name);
        }
    }
}
