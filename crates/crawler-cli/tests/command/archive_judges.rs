//! What judges archives: an own strict validator, and programs of others.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

const VALIDATOR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/command/archive_proof/validator.py");

/// What the validator prints: a line for each response, and the violations.
pub fn validated(files: &[PathBuf], options: &[&str]) -> (Vec<Value>, String) {
    let mut command = Command::new("python3");
    command.arg(VALIDATOR).args(options).args(files);
    let output = command.output().expect("python3 runs");
    let stdout = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.success(), stderr.is_empty(), "{stderr}");
    (stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), stderr)
}

/// The responses of an archive that keeps all rules, and has none of these secrets.
#[track_caller]
pub fn valid(files: &[PathBuf], secrets: &[&str]) -> Vec<Value> {
    let secrets = secrets.iter().flat_map(|secret| ["--secret", *secret]);
    valid_with(files, &secrets.collect::<Vec<_>>())
}

/// The responses of an archive of a distributed crawl that keeps all rules. It is in the order of the tasks, not in that of the requests.
#[track_caller]
pub fn valid_collected(files: &[PathBuf]) -> Vec<Value> {
    valid_with(files, &["--any-order"])
}

#[track_caller]
fn valid_with(files: &[PathBuf], options: &[&str]) -> Vec<Value> {
    let (responses, violations) = validated(files, options);
    assert!(violations.is_empty(), "{violations}");
    responses
}

/// A program of the Python packages that `make test` installs.
pub fn python_path(program: &str) -> PathBuf {
    let interpreter = PathBuf::from(std::env::var("CRAWLER_TEST_PYTHON").expect("make test sets it"));
    interpreter.with_file_name(program)
}

/// Runs a program of the Python packages that `make test` installs, and returns what it printed.
#[track_caller]
pub fn python_program(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(python_path(program)).args(arguments).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program}: {stdout}{stderr}");
    stdout.into_owned()
}

/// Checks all digests with FastWARC. It takes the payload digest of a revisit for that of the revisit's own block, which has no payload;
/// the standard says that it is that of the payload to which the revisit refers.
fn check_with_fastwarc(archive: &str, revisits: &[&str]) {
    let arguments = ["check", "--verify-payloads", "--quiet", "--output", "/dev/stdout", archive];
    let output = Command::new(python_path("fastwarc")).args(arguments).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.lines().count() > 2, "{said}{}", String::from_utf8_lossy(&output.stderr));
    for line in said.lines() {
        let (id, verdict) = line.rsplit_once(": ").unwrap();
        let is_right = matches!(verdict, "OK, PAYLOAD_OK" | "OK, PAYLOAD_NO_DIGEST");
        assert!(is_right || verdict == "OK, PAYLOAD_FAIL" && revisits.contains(&id), "{line}");
    }
}

/// Checks the files of an archive with these responses, its index and its WACZ file with the programs of others.
#[track_caller]
pub fn are_accepted(files: &[PathBuf], responses: &[Value]) {
    let revisits: Vec<&str> = responses
        .iter()
        .filter(|response| response["type"] == "revisit")
        .map(|response| response["id"].as_str().unwrap())
        .collect();
    let mut names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    for name in &names {
        let said = python_program("warcio", &["check", "--verbose", name]);
        assert!(!said.contains("failed") && said.contains("digest pass"), "{said}");
        check_with_fastwarc(name, &revisits);
    }
    names.insert(0, "--sort".into());
    let theirs = python_program("cdxj-indexer", &names.iter().map(String::as_str).collect::<Vec<_>>());
    let stem = names[1].strip_suffix("-00001.warc.gz").unwrap();
    let ours = fs::read_to_string(format!("{stem}.cdxj")).unwrap();
    for (our, their) in ours.lines().zip(theirs.lines()) {
        assert_eq!(our, their);
    }
    assert_eq!(ours.lines().count(), theirs.lines().count());
    let said = python_program("wacz", &["validate", "-f", &format!("{stem}.wacz")]);
    assert!(said.contains("Validation succeeded"), "{said}");
}
