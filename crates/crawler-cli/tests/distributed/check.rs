//! `--module check=FILE` over Redis: `crawler collect` makes the report from the parts of the workers. What only a removed output
//! needs is not requested.

use std::fs;
use std::time::Duration;

use serde_json::Value;

use testweb::{Response, Site, Web};

use super::fixture::{Fixture, is_over};
use super::process::{Process, run};

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

#[test]
#[ignore = "needs redis-server: run by make test"]
fn what_only_a_removed_output_needs_is_not_requested_any_more() {
    for output in ["check=report.json", "mirror=site"] {
        let site = Site::new().fallback(|request| match request.path.as_str() {
            "/" => Response::page((0..40).map(|n| format!("<img src=/{n}.png>")).collect::<String>()),
            _ => Response::text("x").content_type("image/png"),
        });
        let web = Web::builder().host("h0.test", site).start();
        let fixture = Fixture { web, delay: Duration::from_millis(100), ..Fixture::new(1, 1) };
        let images = || fixture.web.log().filter(|hit| hit.path.ends_with(".png")).len();
        // As a mirror has by default.
        let options = ["--scope", "host", "--max-page-bytes", "10MB"];
        let controller = Process::start(fixture.crawl(1, &[&options[..], &["--module", output]].concat()));
        fixture.wait_for_status("some images", |_| images() > 3);
        fixture.run(&["stop"]);
        controller.wait_for_success();
        fixture.wait_for_status("the end", is_over);
        let before = images();
        assert!(before < 40, "{output}: {before} images");
        let output = run(fixture.crawl(1, &options));
        assert!(output.status.success(), "{output:?}");
        assert_eq!(images(), before);
        let status = fixture.status();
        assert_eq!(status["pending"], 0, "{status}");
        assert_eq!(status["skipped"]["by_reason"]["excluded"], 40 - before, "{status}");
    }
}
