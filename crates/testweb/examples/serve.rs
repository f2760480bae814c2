//! Serves a seeded site, or seeded hosts, until it is killed: `serve SEED PAGES [HOSTS]`.

use testweb::{Certificate, Site, Web};

fn main() {
    let numbers: Vec<usize> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let builder = match numbers[..] {
        [seed, pages] => Web::builder().site(Site::seeded(seed as u64, pages)),
        [seed, pages, hosts] => Web::builder().seeded_hosts(seed as u64, hosts, pages),
        _ => Web::builder().site(Site::new().fallback(|request| demoweb::one_site::respond(request).into())),
    };
    let web = builder.https(Certificate::Good).without_log().start();
    println!("{}\n{}", web.url("/"), web.https_url("/"));
    loop {
        std::thread::park();
    }
}
