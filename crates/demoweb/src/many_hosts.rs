//! The fifty hosts that `crawler demo --pipeline` crawls: lighthouses, and hosts with the usual problems of a broad
//! crawl.

use std::time::Duration;

use crate::random::Random;
use crate::request::Request;
use crate::response::Response;

/// The number of hosts other than lighthouses.
const OTHERS: usize = 7;

/// The number of lighthouses. With the others there are fifty hosts.
const LIGHTS: usize = 50 - OTHERS;

/// The number of pages of each lighthouse.
const PAGES: usize = 10;

/// The response time of the slow host.
const SLOW_RESPONSE_TIME: Duration = Duration::from_millis(600);

const WORDS: &str = "anchor beacon bell boat brass buoy calm chart clock coal cormorant current dawn deck depth drift \
    dusk eider engine fathom flash fog foghorn gale gannet glass granite gull harbour haul heron hull island jetty \
    keel keeper kelp knot lamp lantern ledge lens lichen log mast mist moon mooring mussel night north oar oil otter \
    paint pier pilot plover prism puffin quay rain reef rope rota rudder sail salt sand seal shoal signal silt skerry \
    slip sound spray squall stair star stern storm stove strait swell tar tern thrift tide tower vane voyage watch \
    wave weather west whale wick winch wind window wreck yawl";

/// The host from whose home page all others are reachable.
pub const SEED: &str = "harbour.test";

/// Responds for forty-three lighthouses with ten pages each, an endless calendar, an endless maze, a mirror with
/// near-duplicates of the last lighthouse, a slow host, a host that closes every connection, and a host with pages that
/// its robots.txt disallows.
pub fn respond(request: &Request) -> Response {
    match request.host().as_str() {
        SEED => harbour(request),
        "calendar.test" => calendar(request),
        "maze.test" => maze(request),
        "mirror.test" => mirror(request),
        "slow.test" => slow(request),
        "dead.test" => Response::close_immediately(),
        "keepers.test" => keepers(request),
        host => match (1..=LIGHTS).find(|number| light(*number) == host) {
            Some(_) if request.path == "/robots.txt" => Response::text("User-agent: *\nAllow: /\n"),
            Some(number) => page_of(number, request, ""),
            None => Response::status(404),
        },
    }
}

/// Host and path of the pages that every crawl keeps.
pub fn kept_pages() -> Vec<(String, String)> {
    // Of each page of the last lighthouse and its near-duplicate, the crawl keeps the one that it fetches first.
    let lights = (1..LIGHTS).flat_map(|number| (0..PAGES).map(move |page| (light(number), path(page))));
    lights.chain([(SEED.to_owned(), "/".to_owned())]).collect()
}

/// A host, and the paths of its pages of which `mirror.test` has near-duplicates.
pub fn mirrored() -> (String, Vec<String>) {
    (light(LIGHTS), (1..PAGES).map(path).collect())
}

fn light(number: usize) -> String {
    format!("light{number:02}.test")
}

fn path(page: usize) -> String {
    if page == 0 { "/".into() } else { format!("/log/{page}.html") }
}

/// A page of a lighthouse. The pages of a host form a tree, and so do the hosts, so that the crawl is deep.
fn page_of(number: usize, request: &Request, addition: &str) -> Response {
    let Some(page) = (0..PAGES).find(|page| path(*page) == request.path) else {
        return Response::status(404);
    };
    let below = [2 * page + 1, 2 * page + 2].into_iter().filter(|page| *page < PAGES);
    let mut links: Vec<String> = below.map(|page| url(request, &light(number), &path(page))).collect();
    if page == 0 {
        let next = [2 * number, 2 * number + 1].into_iter().filter(|number| *number <= LIGHTS);
        links.extend(next.map(|number| url(request, &light(number), "/")));
    } else {
        links.push(url(request, SEED, "/"));
    }
    let title = format!("Light {number}, page {page}");
    html(&title, &(random_text(number as u64, &request.path) + addition), &links)
}

fn harbour(request: &Request) -> Response {
    if request.path != "/" {
        return Response::status(404);
    }
    let hosts = [light(1).as_str(), "calendar.test", "maze.test", "slow.test", "dead.test", "keepers.test"]
        .map(|host| url(request, host, "/"));
    let copies = (1..PAGES).map(|page| url(request, "mirror.test", &path(page)));
    let links: Vec<String> = hosts.into_iter().chain(copies).collect();
    html("The harbour", &random_text(0, "/"), &links)
}

/// A crawler trap: every month links to later ones.
fn calendar(request: &Request) -> Response {
    let month: u64 = match request.path.strip_prefix("/month/") {
        Some(month) => month.parse().unwrap_or(0),
        None => 0,
    };
    let links = [1, 12].map(|months| url(request, "calendar.test", &format!("/month/{}", month + months)));
    html(&format!("Month {month}"), &random_text(month, "calendar"), &links)
}

/// A crawler trap: every page links to a longer path.
fn maze(request: &Request) -> Response {
    let next = url(request, "maze.test", &format!("{}/on/", request.path.trim_end_matches('/')));
    html("A room of the maze", &random_text(2, &request.path), &[next])
}

fn mirror(request: &Request) -> Response {
    page_of(LIGHTS, request, " Copied out fair.")
}

fn slow(request: &Request) -> Response {
    let page = match request.path.as_str() {
        "/" => html(
            "The long stairs",
            &random_text(3, "/"),
            &["/1", "/2"].map(|path| url(request, "slow.test", path)),
        ),
        "/1" | "/2" => html("A landing", &random_text(3, &request.path), &[]),
        _ => Response::status(404),
    };
    page.delay(SLOW_RESPONSE_TIME)
}

fn keepers(request: &Request) -> Response {
    match request.path.as_str() {
        "/robots.txt" => Response::text("User-agent: *\nDisallow: /private/\n"),
        "/" => {
            let links = ["/rota", "/private/letters"].map(|path| url(request, "keepers.test", path));
            html("The keepers", &random_text(4, "/"), &links)
        }
        "/rota" => html("The rota", &random_text(4, "/rota"), &[]),
        "/private/letters" => html("Letters", "These are not for you.", &[]),
        _ => Response::status(404),
    }
}

/// A hundred words, which depend on the number and the place.
fn random_text(number: u64, place: &str) -> String {
    let words: Vec<&str> = WORDS.split_whitespace().collect();
    let mut random = Random::keyed(&[number], place);
    (0..100).map(|_| random.one_of(&words)).collect::<Vec<_>>().join(" ") + "."
}

/// A URL of another host with the port of the request.
fn url(request: &Request, host: &str, path: &str) -> String {
    let port = request.authority.rsplit_once(':').map_or("80", |(_, port)| port);
    format!("http://{host}:{port}{path}")
}

fn html(title: &str, text: &str, links: &[String]) -> Response {
    let links: String = links.iter().map(|link| format!("<li><a href=\"{link}\">{link}</a>\n")).collect();
    Response::page(format!(
        "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>{title}</title></head>\n\
         <body>\n<h1>{title}</h1>\n<p>{text}\n<ul>\n{links}</ul>\n</body>\n</html>\n"
    ))
}
