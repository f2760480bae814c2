//! The fifty hosts that `crawler demo --pipeline` crawls: a coast of lighthouses, and everything that a crawl of many
//! hosts has to cope with.

use std::time::Duration;

use crate::answer::Answer;
use crate::hostile::Hostile;
use crate::request::Request;
use crate::seeded::Random;
use crate::site::Site;
use crate::web::{Builder, Web};

/// How many hosts are none: the harbour and the odd ones.
const OTHERS: usize = 7;

/// How many hosts are lighthouses; with the others there are fifty.
const LIGHTS: usize = 50 - OTHERS;

/// How many pages each of them has.
const PAGES: usize = 10;

/// How long one host takes to answer.
const SLOW: Duration = Duration::from_millis(600);

const WORDS: &str = "anchor beacon bell boat brass buoy calm chart clock coal cormorant current dawn deck depth drift \
    dusk eider engine fathom flash fog foghorn gale gannet glass granite gull harbour haul heron hull island jetty \
    keel keeper kelp knot lamp lantern ledge lens lichen log mast mist moon mooring mussel night north oar oil otter \
    paint pier pilot plover prism puffin quay rain reef rope rota rudder sail salt sand seal shoal signal silt skerry \
    slip sound spray squall stair star stern storm stove strait swell tar tern thrift tide tower vane voyage watch \
    wave weather west whale wick winch wind window wreck yawl";

/// What `crawler demo --pipeline` crawls, from [`DEMO_SEED`] on.
///
/// Forty-three lighthouses with ten pages each; a calendar and a maze without end; a mirror whose pages are nearly
/// those of the last lighthouse; a host that is slow, one that never answers, and one with pages that its robots.txt
/// asks to leave alone.
pub fn demo_hosts() -> Builder {
    let lights = (1..=LIGHTS).map(|number| (light(number), a_light(number)));
    let others: [_; OTHERS] = [
        (DEMO_SEED, Site::new().otherwise(harbour)),
        ("calendar.test", Site::new().otherwise(calendar)),
        ("maze.test", Site::new().otherwise(maze)),
        ("mirror.test", Site::new().otherwise(mirror)),
        ("slow.test", Site::new().otherwise(slow)),
        ("dead.test", Site::new().otherwise(|_| Answer::hostile(Hostile::CloseAtOnce))),
        ("keepers.test", keepers()),
    ];
    let others = others.into_iter().map(|(name, site)| (name.to_owned(), site));
    lights.chain(others).fold(Web::builder(), |web, (name, site)| web.host(&name, site))
}

/// The host of [`demo_hosts`] from whose front page all others can be reached.
pub const DEMO_SEED: &str = "harbour.test";

/// Host and path of the pages that every crawl of [`demo_hosts`] keeps, whatever it does with the odd ones.
pub fn demo_pages() -> Vec<(String, String)> {
    // Of the last lighthouse and its mirror, the pages that come second are dropped.
    let lights = (1..LIGHTS).flat_map(|number| (0..PAGES).map(move |page| (light(number), path(page))));
    lights.chain([(DEMO_SEED.to_owned(), "/".to_owned())]).collect()
}

/// Path of each page of `mirror.test`, which is nearly the page of that path of another host, which is named first.
pub fn demo_mirrored() -> (String, Vec<String>) {
    (light(LIGHTS), (1..PAGES).map(path).collect())
}

fn light(number: usize) -> String {
    format!("light{number:02}.test")
}

fn path(page: usize) -> String {
    if page == 0 { "/".into() } else { format!("/log/{page}.html") }
}

fn a_light(number: usize) -> Site {
    Site::new().robots("User-agent: *\nAllow: /\n").otherwise(move |request| page_of(number, request, ""))
}

/// A page of a lighthouse: what was seen that day, and where to go from there. Pages and hosts are trees, so that a
/// crawl has to go deep.
fn page_of(number: usize, request: &Request, addition: &str) -> Answer {
    let Some(page) = (0..PAGES).find(|page| path(*page) == request.path) else { return Answer::status(404) };
    let below = [2 * page + 1, 2 * page + 2].into_iter().filter(|page| *page < PAGES);
    let mut links: Vec<String> = below.map(|page| url(request, &light(number), &path(page))).collect();
    if page == 0 {
        let next = [2 * number, 2 * number + 1].into_iter().filter(|number| *number <= LIGHTS);
        links.extend(next.map(|number| url(request, &light(number), "/")));
    } else {
        links.push(url(request, DEMO_SEED, "/"));
    }
    let title = format!("Light {number}, page {page}");
    html(&title, &(seen(number as u64, &request.path) + addition), &links)
}

fn harbour(request: &Request) -> Answer {
    if request.path != "/" {
        return Answer::status(404);
    }
    let hosts = [light(1).as_str(), "calendar.test", "maze.test", "slow.test", "dead.test", "keepers.test"]
        .map(|host| url(request, host, "/"));
    let copies = (1..PAGES).map(|page| url(request, "mirror.test", &path(page)));
    let links: Vec<String> = hosts.into_iter().chain(copies).collect();
    html("The harbour", &seen(0, "/"), &links)
}

/// Every month has a next one.
fn calendar(request: &Request) -> Answer {
    let month: u64 = match request.path.strip_prefix("/month/") {
        Some(month) => month.parse().unwrap_or(0),
        None => 0,
    };
    let links = [1, 12].map(|months| url(request, "calendar.test", &format!("/month/{}", month + months)));
    html(&format!("Month {month}"), &seen(month, "calendar"), &links)
}

/// Every room has one behind it, and looks like the way in.
fn maze(request: &Request) -> Answer {
    let next = url(request, "maze.test", &format!("{}/on/", request.path.trim_end_matches('/')));
    html("A room of the maze", &seen(2, &request.path), &[next])
}

fn mirror(request: &Request) -> Answer {
    page_of(LIGHTS, request, " Copied out fair.")
}

fn slow(request: &Request) -> Answer {
    let page = match request.path.as_str() {
        "/" => {
            html("The long stairs", &seen(3, "/"), &["/1", "/2"].map(|path| url(request, "slow.test", path)))
        }
        "/1" | "/2" => html("A landing", &seen(3, &request.path), &[]),
        _ => Answer::status(404),
    };
    page.after(SLOW)
}

fn keepers() -> Site {
    Site::new().robots("User-agent: *\nDisallow: /private/\n").otherwise(|request| {
        match request.path.as_str() {
            "/" => {
                let links = ["/rota", "/private/letters"].map(|path| url(request, "keepers.test", path));
                html("The keepers", &seen(4, "/"), &links)
            }
            "/rota" => html("The rota", &seen(4, "/rota"), &[]),
            "/private/letters" => html("Letters", "These are not for you.", &[]),
            _ => Answer::status(404),
        }
    })
}

/// A hundred words, others for every number and place.
fn seen(number: u64, place: &str) -> String {
    let words: Vec<&str> = WORDS.split_whitespace().collect();
    let mut random = Random::for_decision(&[number], place);
    (0..100).map(|_| random.one_of(&words)).collect::<Vec<_>>().join(" ") + "."
}

/// A URL of another host on the port that was asked.
fn url(request: &Request, host: &str, path: &str) -> String {
    let port = request.authority.rsplit_once(':').map_or("80", |(_, port)| port);
    format!("http://{host}:{port}{path}")
}

fn html(title: &str, text: &str, links: &[String]) -> Answer {
    let links: String = links.iter().map(|link| format!("<li><a href=\"{link}\">{link}</a>\n")).collect();
    Answer::page(format!(
        "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>{title}</title></head>\n\
         <body>\n<h1>{title}</h1>\n<p>{text}\n<ul>\n{links}</ul>\n</body>\n</html>\n"
    ))
}
