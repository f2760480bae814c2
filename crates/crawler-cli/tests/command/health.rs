//! `crawler health`: the health check of containers.

use std::fs;

use tempfile::TempDir;
use testredis::ReservedPort;
use testweb::{Request, Response, Site};

use crate::common::{run, serve};
use crate::http::Server;
use crate::pipeline::Pipeline;

#[test]
fn process_with_metrics_is_healthy_while_it_crawls() {
    let web = serve(Site::new().fallback(|request: &Request| match request.path.as_str() {
        "/robots.txt" => Response::status(404),
        path => Response::page(format!("<a href='{path}x'>next</a>")),
    }));
    let port = ReservedPort::new();
    let address = format!("127.0.0.1:{}", port.number());
    let ended = run(&["health", "--metrics", &address]).expect(1);
    assert!(
        ended.stderr.starts_with(&format!("crawler: cannot query the process at {address}: ")),
        "{}",
        ended.stderr
    );

    let crawl = Pipeline::bare(web.url("/")).with("--delay 20ms --metrics").with_one(&address);
    let mut crawl = crawl.start();
    crawl.until("requests", |_| web.hits() > 3);
    for all in [&*address, &format!("0.0.0.0:{}", port.number()), &port.number().to_string()] {
        assert_eq!(run(&["health", "--metrics", all]).expect(0).stdout, "ok\n");
    }
    crawl.until("readiness", |_| run(&["health", "--ready", "--metrics", &address]).code() == 0);
    crawl.signal(rustix::process::Signal::TERM);
    crawl.wait().expect(143);

    let other = serve(Site::new());
    let ended = run(&["health", "--metrics", &other.port().to_string()]).expect(2);
    assert!(
        ended.stderr.contains("does not serve /healthz; give the address of --metrics"),
        "{}",
        ended.stderr
    );
}

#[test]
fn crawl_that_completes_its_outputs_is_healthy_however_long_it_takes() {
    let web = serve(Site::new().fallback(|request: &Request| match request.path.as_str() {
        "/robots.txt" => Response::status(404),
        path => Response::page(format!("<a href='{path}x'>next</a>")),
    }));
    let directory = TempDir::new().unwrap();
    let last = directory.path().join("last");
    // The program exits after its last page when the file is there.
    let program = format!("exec=cat > /dev/null; until [ -e '{}' ]; do sleep 0.05; done", last.display());
    let crawl = Pipeline::bare(web.url("/"))
        .with("--delay 200ms --similarity 0 --metrics 127.0.0.1:0 --max-pages 10");
    let mut crawl = crawl.with("--module").with_one(program).start();
    crawl.until_message("/metrics\n");
    let server = Server::announced(&crawl.stderr_so_far());
    // No time without a report is allowed, so a crawl that runs is stuck.
    crawl.until("a crawl", |_| server.get("/healthz?stuck-after=0s").status == 503);
    crawl.until("the end", |_| server.get("/readyz").body == "stopping\n");
    assert_eq!(server.get("/healthz?stuck-after=0s").status, 200);
    fs::write(last, "").unwrap();
    crawl.wait().expect(0);
}
