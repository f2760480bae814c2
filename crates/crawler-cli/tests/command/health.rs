//! `crawler health`: the health check of containers.

use testredis::ReservedPort;
use testweb::{Request, Response, Site};

use crate::common::{run, serve};
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
        ended.stderr.starts_with(&format!("crawler: cannot ask the process at {address}: ")),
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
