//! The report on a distributed crawl, while it runs and at its end.

use std::fs;

use super::fixture::Fixture;
use super::markdown_report::MarkdownReport;
use super::process::run;

#[test]
#[ignore = "needs redis-server: run by make test"]
fn report_from_redis_names_the_failed_urls_and_the_pages_that_link_to_them() {
    let fixture = Fixture::slow(6, 15);
    let report =
        |fixture: &Fixture| MarkdownReport(fixture.run(&["report", "--redis", "--format", "markdown"]));
    let crawl = fixture.start_crawl(2, &["--report", "report.md"]);
    let running = report(&fixture);
    assert!(running.0.contains("- **State:** Running"), "{}", running.0);
    crawl.wait_for_success();
    fixture.check();

    let at_end = fs::read_to_string(fixture.directory.path().join("report.md")).unwrap();
    let sums = fs::read(fixture.directory.path().join("summary.json")).unwrap();
    let sums: serde_json::Value = serde_json::from_slice(&sums).unwrap();
    let local = fixture.directory.path().join("local.md").display().to_string();
    let options = fixture.options();
    let mut arguments = vec!["crawl", &local];
    let seed = fixture.gate_url();
    arguments[1] = &seed;
    arguments.extend(options.iter().map(String::as_str).filter(|option| *option != "jsonl=pages.jsonl"));
    arguments.retain(|argument| *argument != "--module");
    arguments.extend(["--report", &local, "-q"]);
    let alone = run(fixture.crawler(&arguments));
    assert!(alone.status.success(), "{}", String::from_utf8_lossy(&alone.stderr));
    let local = MarkdownReport(fs::read_to_string(&local).unwrap());
    for report in [MarkdownReport(at_end), report(&fixture)] {
        report.check_counts(&sums);
        assert!(!report.failed().is_empty() && !report.0.contains("not stored"), "{}", report.0);
        let failed = |report: &MarkdownReport| report.failed().into_keys().collect::<Vec<_>>();
        assert_eq!(failed(&report), failed(&local));
        assert!(report.section("Broken links").contains("All stored pages were searched"), "{}", report.0);
        let redirects = |report: &MarkdownReport| {
            let mut rows = report.rows("Redirects");
            rows.sort();
            rows
        };
        assert_eq!(redirects(&report), redirects(&local));
        assert!(report.section("Structure").contains("`h0.test:"), "{}", report.section("Structure"));
    }
    let missing = run(fixture.crawler(&["report", "--redis", "--crawl", "none"]));
    let (status, text) = (missing.status.code(), String::from_utf8_lossy(&missing.stderr));
    assert_eq!(status, Some(1), "{text}");
    assert!(text.contains("there is no crawl 'none'"), "{text}");
}
