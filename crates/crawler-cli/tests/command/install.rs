//! Completion scripts and manual pages, as `make install` installs them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::common::{binary, executable, names};

/// Installs the command below a directory.
fn install() -> TempDir {
    let prefix = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("install.sh");
    let installed = Command::new("sh").arg(script).arg(executable()).arg(prefix.path()).output();
    succeeded(installed.unwrap());
    prefix
}

#[track_caller]
fn succeeded(output: Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The words that bash offers to complete the last one of a command line.
fn completed_by_bash(script: &Path, line: &[&str]) -> Vec<String> {
    let program = r#"
        source "$1"; shift
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        [[ $(complete -p crawler) =~ -F\ ([^ ]+) ]]
        ${BASH_REMATCH[1]} crawler "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", program, "bash"]).arg(script).args(line);
    succeeded(bash.output().unwrap()).lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_and_options() {
    let prefix = install();
    let script = prefix.path().join("share/bash-completion/completions/crawler");
    let words = |line: &[&str]| completed_by_bash(&script, line);
    let mut offered = words(&["crawler", "re"]);
    offered.sort();
    assert_eq!(offered, ["recrawl", "replay", "report", "resume"]);
    assert_eq!(words(&["crawler", "co"]), ["collect", "config", "completions"]);
    assert_eq!(
        words(&["crawler", "crawl", "--max-pages-"]),
        ["--max-pages-per-host", "--max-pages-per-site"]
    );
    assert_eq!(words(&["crawler", "crawl", "--scope", "p"]), ["prefix"]);
    assert_eq!(words(&["crawler", "completions", "z"]), ["zsh"]);
    // The classic form.
    assert_eq!(words(&["crawler", "--over"]), ["--overwrite"]);
    assert_eq!(words(&["crawler", "https://example.org/", "pages", "2", "--del"]), ["--delay"]);
    assert!(words(&["crawler", ""]).contains(&"crawl".to_owned()));
    // Arguments without a name are files, which bash itself completes.
    for line in [&["crawler", "https://example.org/", ""][..], &["crawler", "resume", ""]] {
        assert_eq!(words(line), [""], "{line:?}");
    }
    // What the help does not list is not offered.
    assert!(words(&["crawler", "worker", "--"]).contains(&"--concurrency".to_owned()));
    assert!(!words(&["crawler", "worker", "--"]).contains(&"--max-pages".to_owned()));
    assert!(!words(&["crawler", "m"]).contains(&"man".to_owned()));
}

#[test]
fn every_shell_has_a_script() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = succeeded(binary().args(["completions", shell]).output().unwrap());
        assert!(
            script.contains("max-pages-per-site") && !script.contains("resolve-file"),
            "{shell}: {script}"
        );
    }
    let rejected = binary().args(["completions", "tcsh"]).output().unwrap();
    assert_eq!(rejected.status.code(), Some(2), "{rejected:?}");
}

#[test]
#[ignore = "needs zsh and fish: run by make test"]
fn zsh_and_fish_accept_their_scripts() {
    let prefix = install();
    let zsh = prefix.path().join("share/zsh/site-functions/_crawler");
    succeeded(Command::new("zsh").args(["-n".as_ref(), zsh.as_os_str()]).output().unwrap());
    let loads = "autoload -Uz compinit; compinit -D -u; source $1; [[ $_comps[crawler] == _crawler ]]";
    succeeded(Command::new("zsh").args(["-f", "-c", loads, "zsh"]).arg(&zsh).output().unwrap());
    let fish = prefix.path().join("share/fish/vendor_completions.d/crawler.fish");
    succeeded(Command::new("fish").args(["-n".as_ref(), fish.as_os_str()]).output().unwrap());
    let offered = |line: &str| {
        let program = "source $argv[1]; complete -C $argv[2]";
        let mut shell = Command::new("fish");
        shell.args(["--no-config", "-c", program]).arg(&fish).arg(line).env("HOME", prefix.path());
        succeeded(shell.output().unwrap())
    };
    assert!(offered("crawler res").starts_with("resume\t"), "{}", offered("crawler res"));
    assert!(offered("crawler crawl --max-d").starts_with("--max-depth\t"));
}

fn pages(prefix: &TempDir) -> Vec<PathBuf> {
    let directory = prefix.path().join("share/man/man1");
    names(&directory).into_iter().map(|name| directory.join(name)).collect()
}

#[test]
fn every_command_has_a_manual_page() {
    let prefix = install();
    assert!(prefix.path().join("bin/crawler").exists());
    let names: Vec<String> =
        pages(&prefix).iter().map(|page| page.file_name().unwrap().to_string_lossy().into_owned()).collect();
    let help = succeeded(Command::new(prefix.path().join("bin/crawler")).arg("--help").output().unwrap());
    let listed =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let commands: Vec<&str> = listed.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(commands.contains(&"crawl") && commands.contains(&"demo"), "{commands:?}");
    for command in commands.iter().filter(|command| **command != "help") {
        assert!(names.contains(&format!("crawler-{command}.1")), "{command} is not in {names:?}");
    }
    assert_eq!(names.len(), commands.len(), "the command itself, and no 'help': {names:?}");
    for page in pages(&prefix) {
        let text = fs::read_to_string(&page).unwrap();
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "\"EXIT STATUS\"", "\"SEE ALSO\""] {
            assert!(text.contains(&format!("\n.SH {section}\n")), "{section} is not in {}", page.display());
        }
        let is_configurable = !page.ends_with("crawler-completions.1");
        for section in ["ENVIRONMENT", "FILES"] {
            assert_eq!(
                text.matches(&format!("\n.SH {section}\n")).count(),
                usize::from(is_configurable),
                "{text}"
            );
        }
    }
    let not_there = binary().args(["man", "/nowhere/at/all"]).output().unwrap();
    assert_eq!(not_there.status.code(), Some(2), "{not_there:?}");
}

#[test]
#[ignore = "needs groff and mandoc: run by make test"]
fn manual_pages_have_no_errors() {
    let prefix = install();
    for page in pages(&prefix) {
        let groff = Command::new("groff").args(["-ww", "-man", "-Tutf8", "-z"]).arg(&page).output().unwrap();
        assert!(groff.status.success() && groff.stderr.is_empty(), "{groff:?}");
        let mut mandoc = Command::new("mandoc");
        succeeded(mandoc.args(["-T", "lint", "-W", "error"]).arg(&page).output().unwrap());
    }
}
