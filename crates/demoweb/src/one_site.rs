//! The site that `crawler demo` crawls: the almanac of a fictional lighthouse.

use crate::request::Request;
use crate::response::Response;

const STYLE: &str =
    "body { max-width: 36rem; margin: 2rem auto; padding: 0 1rem; font: 1.1rem/1.6 Georgia, serif;
  color: #22313f; background: #fbf9f4 }
h1 { color: #1d5c83 } nav { border-bottom: 1px solid #d8cfbc; padding-bottom: .5rem } a { color: #b4552d }
";

/// Path, title and text of each page. Links are relative.
const PAGES: [(&str, &str, &str); 19] = [
    (
        "/",
        "The Lighthouse Almanac",
        "<p>Kept at Skarn Point since the lamp was first lit, and copied out fair every winter. Begin with the
        <a href=\"light/\">light</a>, the <a href=\"seasons/\">seasons</a> or the <a href=\"keepers/\">keepers</a>;
        the <a href=\"visit.html\">boat</a> goes on Thursdays, weather permitting.",
    ),
    (
        "/light/",
        "The light",
        "<p>Two white flashes every twelve seconds, seen eighteen miles off on a clear night. It takes a
        <a href=\"lens.html\">lens</a>, a <a href=\"clockwork.html\">clock</a>, and somebody awake. When there is
        fog there is the <a href=\"horn.html\">horn</a>.",
    ),
    (
        "/light/lens.html",
        "The lens",
        "<p>Taller than a keeper and made of a hundred and four prisms. One is new: it was replaced after the
        <a href=\"../seasons/winter.html#storm\">great storm</a>, and if you know where to look it is a little
        greener than the rest. <a href=\"clockwork.html\">What turns it</a>.",
    ),
    (
        "/light/clockwork.html",
        "The clockwork",
        "<p>A weight sinks down the middle of the tower and the <a href=\"lens.html\">lens</a> goes round. It wants
        winding every four hours, which is why every keeper learns to sleep in <a href=\"../keepers/rota.txt\">small
        pieces</a>.",
    ),
    (
        "/light/horn.html",
        "The horn",
        "<p>Three seconds of sound and fifty-seven of listening. The seals answer it. The
        <a href=\"../keepers/cat.html\">cat</a> does not care for it at all.",
    ),
    (
        "/seasons/",
        "The seasons",
        "<p>There are four here as elsewhere, though <a href=\"spring.html\">spring</a> comes by sea.
        <a href=\"summer.html\">Summer</a> is short and loud with birds, <a href=\"autumn.html\">autumn</a> is when
        the stores come, and <a href=\"winter.html\">winter</a> is the rest of the year.",
    ),
    (
        "/seasons/spring.html",
        "Spring",
        "<p>First the eiders, then the thrift on the ledges, then the painter with the boat. The
        <a href=\"../garden/\">garden</a> is dug on the first day that the spade goes in. <a href=\"summer.html\">On
        to summer</a>.",
    ),
    (
        "/seasons/summer.html",
        "Summer",
        "<p>The lamp is lit for four hours only, and there is time for <a href=\"../garden/potatoes.html\">potatoes
        </a> and for <a href=\"../visit.html\">visitors</a>. <a href=\"autumn.html\">On to autumn</a>.",
    ),
    (
        "/seasons/autumn.html",
        "Autumn",
        "<p>Forty sacks of coal, nine of flour, oil for the lamp, and a box of books that nobody admits to having
        chosen. Geese go over at night and are written into <a href=\"../log/birds.txt\">the bird book</a>.
        <a href=\"winter.html\">On to winter</a>.",
    ),
    (
        "/seasons/winter.html",
        "Winter",
        "<p id=\"storm\">In the great storm a wave broke a pane of the <a href=\"../light/lens.html\">lens</a>, a
        hundred feet above the rock. The light was dark for eleven minutes; the
        <a href=\"../keepers/ingrid.html\">keeper</a> counted them. <a href=\"spring.html\">On to spring</a>.",
    ),
    (
        "/keepers/",
        "The keepers",
        "<p>There have always been two and a cat: now <a href=\"ingrid.html\">Ingrid</a>, <a href=\"tomas.html\">Tomas
        </a> and <a href=\"cat.html\">Bosun</a>. The <a href=\"rota.txt\">rota</a> hangs by the stove.",
    ),
    (
        "/keepers/ingrid.html",
        "Ingrid",
        "<p>Head keeper. Can tell the wind by the sound of the stairs. Grows <a href=\"../garden/kale.html\">kale</a>
        and reads the <a href=\"../light/clockwork.html\">clockwork</a> its rights when it is slow.",
    ),
    (
        "/keepers/tomas.html",
        "Tomas",
        "<p>Came for one season and stayed for eleven. Writes the <a href=\"../log/birds.txt\">bird book</a>, bakes on
        Sundays, and has <a href=\"https://elsewhere.invalid/tomas\">a sister inland</a> who writes.",
    ),
    (
        "/keepers/cat.html",
        "Bosun",
        "<p>On the strength as <q>mouser, one</q>. Off duty in the <a href=\"../garden/\">garden</a>, under the
        <a href=\"../garden/kale.html\">kale</a>. Once went to the mainland by <a href=\"../boat\">boat</a>, and did
        not recommend it.",
    ),
    (
        "/garden/",
        "The garden",
        "<p>Nine paces by five, behind the only wall that keeps the wind off. <a href=\"kale.html\">Kale</a>,
        <a href=\"potatoes.html\">potatoes</a>, and a <a href=\"rose.html\">rose</a> that was told it would not do.",
    ),
    (
        "/garden/kale.html",
        "Kale",
        "<p>Salt does it good. Sown after the <a href=\"../seasons/spring.html\">eiders</a> have come.",
    ),
    (
        "/garden/potatoes.html",
        "Potatoes",
        "<p>Seaweed below, hope above. Lifted before the <a href=\"../seasons/autumn.html\">stores</a> come, so as to
        have something to be proud of.",
    ),
    (
        "/garden/rose.html",
        "The rose",
        "<p>It does. It flowers in the second week of July, for the <a href=\"../seasons/summer.html\">visitors</a>, and
        <a href=\"../keepers/ingrid.html\">Ingrid</a> pretends not to have watered it.",
    ),
    (
        "/visit.html",
        "Visiting",
        "<p>The boat leaves the harbour at nine. Bring bread, news and dry socks. The
        <a href=\"harbour-map.html\">map of the harbour</a> has been blown away; ask anybody. Please leave the
        <a href=\"private/letters.html\">keepers' letters</a> alone.",
    ),
];

/// Path and content of each plain text.
const TEXTS: [(&str, &str); 3] = [
    ("/robots.txt", "User-agent: *\nDisallow: /private/\nAllow: /\n"),
    ("/keepers/rota.txt", "Middle watch: Ingrid\nMorning watch: Tomas\nAll other watches: Bosun\n"),
    ("/log/birds.txt", "12 Oct  geese, 61, going south\n13 Oct  geese, 4, going back for something\n"),
];

/// Responds for a small site of some twenty pages in sections, with a redirect, a dead link, a link to another host, two plain
/// texts, and a part that its robots.txt disallows.
pub fn respond(request: &Request) -> Response {
    let requested = request.path.as_str();
    if let Some((path, title, text)) = PAGES.iter().find(|(path, ..)| *path == requested) {
        return Response::page(page(path, title, text));
    }
    if let Some((_, text)) = TEXTS.iter().find(|(path, _)| *path == requested) {
        return Response::text(*text);
    }
    match requested {
        "/boat" => Response::redirect(301, "/visit.html"),
        "/private/letters.html" => Response::page(page(requested, "Letters", "<p>These are not for you.")),
        "/almanac.css" => Response::text(STYLE).content_type("text/css"),
        _ => Response::status(404),
    }
}

fn page(path: &str, title: &str, text: &str) -> String {
    let up = "../".repeat(path.matches('/').count() - 1);
    let home = if up.is_empty() { "./" } else { &up };
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>{title}</title>\n\
         <link rel=\"stylesheet\" href=\"{up}almanac.css\"></head>\n<body>\n<nav><a href=\"{home}\">Almanac</a> · \
         <a href=\"{up}light/\">Light</a> · <a href=\"{up}seasons/\">Seasons</a> · \
         <a href=\"{up}keepers/\">Keepers</a> · <a href=\"{up}garden/\">Garden</a></nav>\n\
         <h1>{title}</h1>\n{text}\n</body>\n</html>\n"
    )
}
