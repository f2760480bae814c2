//! The installed library: pkg-config finds it, programs link it either way, and the documented example runs.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::linked_pages::assert_prints_every_edge;
use super::toolchain::{SYSTEM_LIBRARIES, crate_directory, library_directory, succeed};

/// A prefix that the library is installed in.
fn installed() -> TempDir {
    let prefix = TempDir::new().unwrap();
    install(prefix.path());
    prefix
}

fn install(prefix: &Path) {
    succeed(Command::new(crate_directory().join("install.sh")).arg(library_directory()).arg(prefix));
}

/// Builds the documented example with these flags.
fn build_example(prefix: &TempDir, flags: &[impl AsRef<OsStr>]) -> PathBuf {
    let program = prefix.path().join("example");
    let example = crate_directory().join("examples/crawl_directory.c");
    succeed(Command::new("cc").arg(example).args(flags).arg("-o").arg(&program));
    program
}

fn flag(name: &str, path: PathBuf) -> String {
    format!("{name}{}", path.display())
}

/// The flags that pkg-config prints for the installed library, as a shell splits them.
fn pkg_config(prefix: &Path, options: &str) -> Vec<String> {
    let mut shell = Command::new("sh");
    shell.args(["-ec", "eval \"set -- $(pkg-config $0 crawl)\"; printf '%s\\n' \"$@\"", options]);
    let output = succeed(shell.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn example_builds_with_the_installed_shared_library() {
    let prefix = installed();
    let lib = prefix.path().join("lib");
    let flags = [flag("-I", prefix.path().join("include")), flag("-L", lib.clone()), "-lcrawl".to_owned()];
    let program = build_example(&prefix, &flags);
    assert_prints_every_edge(Command::new(program).env("LD_LIBRARY_PATH", lib));
}

#[test]
fn example_builds_with_the_installed_static_library() {
    let prefix = installed();
    fs::remove_file(prefix.path().join("lib/libcrawl.so")).unwrap();
    let mut flags =
        vec![flag("-I", prefix.path().join("include")), flag("", prefix.path().join("lib/libcrawl.a"))];
    flags.extend(SYSTEM_LIBRARIES.map(str::to_owned));
    assert_prints_every_edge(&mut Command::new(build_example(&prefix, &flags)));
    flags.push("-static".to_owned());
    assert_prints_every_edge(&mut Command::new(build_example(&prefix, &flags)));
}

#[test]
#[ignore = "needs pkg-config: run by make test"]
fn example_builds_with_the_flags_of_pkg_config() {
    let prefix = installed();
    let lib = prefix.path().join("lib");
    let program = build_example(&prefix, &pkg_config(prefix.path(), "--cflags --libs"));
    assert_prints_every_edge(Command::new(program).env("LD_LIBRARY_PATH", &lib));
    fs::remove_file(lib.join("libcrawl.so")).unwrap();
    let flags = pkg_config(prefix.path(), "--cflags --libs --static");
    assert_prints_every_edge(&mut Command::new(build_example(&prefix, &flags)));
}

#[test]
#[ignore = "needs pkg-config: run by make test"]
fn prefix_may_contain_spaces_and_special_characters() {
    let directory = TempDir::new().unwrap();
    for name in ["two words", "a&b", "a|b", "back\\slash", "it's", "#1"] {
        let prefix = directory.path().join(name);
        install(&prefix);
        let flags = pkg_config(&prefix, "--cflags --libs");
        assert_eq!(flags[..2], [flag("-I", prefix.join("include")), flag("-L", prefix.join("lib"))]);
    }
}

#[test]
fn relative_prefix_is_rejected_before_anything_is_installed() {
    let directory = TempDir::new().unwrap();
    let script = crate_directory().join("install.sh");
    let mut command = Command::new(script);
    let output = command.arg(library_directory()).arg("opt").current_dir(directory.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("PREFIX must be an absolute path, not opt"));
    assert!(fs::read_dir(directory.path()).unwrap().next().is_none());
}

#[test]
#[ignore = "needs make: run by make test"]
fn make_rejects_a_relative_prefix_before_it_builds_anything() {
    let mut make = Command::new("make");
    make.args(["install", "PREFIX=opt", "CARGO=false"]).current_dir(crate_directory().join("../.."));
    // A `make` that runs this test would pass its own options on.
    make.env_remove("MAKEFLAGS").env_remove("MAKELEVEL");
    let output = make.output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("PREFIX must be an absolute path, not opt"));
}

/// Whether the script runs `ldconfig`, which the test replaces with its own.
fn updates_loader_cache(prefix: &Path, destdir: &str) -> bool {
    let programs = TempDir::new().unwrap();
    let (ldconfig, has_run) = (programs.path().join("ldconfig"), programs.path().join("has_run"));
    // It fails, as it does for users who may not write the cache. The script must succeed nevertheless.
    fs::write(&ldconfig, format!("#!/bin/sh\n: >'{}'\necho no >&2\nexit 1\n", has_run.display())).unwrap();
    fs::set_permissions(&ldconfig, fs::Permissions::from_mode(0o755)).unwrap();
    let mut script = Command::new(crate_directory().join("install.sh"));
    let path = format!("{}:{}", programs.path().display(), std::env::var("PATH").unwrap());
    let output =
        succeed(script.arg(library_directory()).arg(prefix).env("DESTDIR", destdir).env("PATH", path));
    assert!(output.stdout.is_empty() && output.stderr.is_empty(), "{output:?}");
    has_run.exists()
}

#[test]
fn install_updates_the_loader_cache_unless_destdir_is_set() {
    let directory = TempDir::new().unwrap();
    assert!(updates_loader_cache(directory.path(), ""));
    assert!(!updates_loader_cache(Path::new("/opt/crawl"), directory.path().to_str().unwrap()));
}

#[test]
fn destdir_moves_the_files_but_not_the_prefix_in_them() {
    let directory = TempDir::new().unwrap();
    let mut script = Command::new(crate_directory().join("install.sh"));
    succeed(script.arg(library_directory()).arg("/opt/crawl").env("DESTDIR", directory.path()));
    let root = directory.path().join("opt/crawl");
    for file in ["lib/libcrawl.so", "lib/libcrawl.a", "include/crawl.h", "include/crawler.h"] {
        assert!(root.join(file).exists(), "{file}");
    }
    let text = fs::read_to_string(root.join("lib/pkgconfig/crawl.pc")).unwrap();
    assert!(text.contains("prefix=/opt/crawl\n"), "{text}");
    assert!(text.contains(&format!("Version: {}\n", env!("CARGO_PKG_VERSION"))), "{text}");
}
