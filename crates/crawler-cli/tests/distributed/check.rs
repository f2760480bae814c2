//! `--module check=FILE` over Redis: `crawler collect` makes the report from the parts of the workers.

use std::fs;

use serde_json::Value;

use super::fixture::Fixture;
use super::process::run;

#[test]
#[ignore = "needs redis-server: run by make test"]
fn report_is_made_from_the_parts_of_all_workers_after_one_was_killed() {
    let fixture = Fixture::slow(6, 8);
    let controller = fixture
        .start_crawl(3, &["--dead-after", "3s", "--module", "check=report.log,format=json,accept=999"]);
    fixture.kill("worker 1");
    controller.wait_for_success();
    let made = run(fixture.crawler(&["collect", "--of", "report.log"]));
    assert!(made.status.success(), "{made:?}");
    let report: Value =
        serde_json::from_str(&fs::read_to_string(fixture.directory.path().join("report.log")).unwrap())
            .unwrap();
    let status = fixture.status();
    assert_eq!(report["counts"]["pages"], status["pages"], "{report}");
    let broken = report["broken"].as_array().unwrap();
    assert_eq!(report["counts"]["broken"], broken.len(), "{report}");
    assert!(!broken.is_empty() && broken.iter().all(|url| url["links"].as_u64() > Some(0)), "{report}");
    assert_eq!(report["complete"], true, "{report}");
}
