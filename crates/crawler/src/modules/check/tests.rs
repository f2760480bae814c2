//! Reports made from hand-written records.

use std::fs;

use super::findings::MALFORMED;
use super::records::{CheckRecord, LinkEntry, PageRecord, UrlEntry};
use super::verdict::Verdict;
use super::*;

fn options(format: ReportFormat) -> CheckOptions {
    CheckOptions { format: Some(format), accept: StatusCodes::default(), fragments: true, redirects: true }
}

fn link<'a>(url: &'a str, text: &'a str) -> LinkEntry<'a> {
    let (url, fragment) = url.split_once('#').unwrap_or((url, ""));
    LinkEntry {
        url: url.into(),
        fragment: fragment.into(),
        element: "a".into(),
        text: text.into(),
        ..LinkEntry::default()
    }
}

fn page<'a>(url: &'a str, links: Vec<LinkEntry<'a>>, ids: &[&'a str]) -> CheckRecord<'a> {
    let ids = Some(ids.iter().map(|id| (*id).into()).collect());
    CheckRecord::Page(PageRecord { url: url.into(), truncated: false, links, ids })
}

fn url(url: &str, verdict: Verdict) -> UrlEntry<'_> {
    let status = matches!(verdict, Verdict::Http).then_some(404);
    let reason = match verdict {
        Verdict::Http => "HTTP 404 Not Found".into(),
        Verdict::Fine | Verdict::Redirect => "".into(),
        verdict => verdict.to_string().into(),
    };
    UrlEntry {
        url: url.into(),
        verdict,
        crawled: true,
        status,
        reason,
        to: None,
        fragment: None,
        found_on: Some("http://a/".into()),
        options: "".into(),
    }
}

fn redirect<'a>(from: &'a str, to: &'a str, status: u16) -> UrlEntry<'a> {
    UrlEntry { status: Some(status), to: Some(to.into()), ..url(from, Verdict::Redirect) }
}

pub(super) fn records_file(records: &[CheckRecord]) -> (tempfile::TempDir, Records) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("report.json.records");
    let mut bytes = b"crawler-records-1 check,format=json\n".to_vec();
    records.iter().for_each(|record| record.push_to(&mut bytes));
    fs::write(&path, bytes).unwrap();
    let file = Records::open(&path).unwrap().unwrap();
    (directory, file)
}

fn rendered(lines: &[CheckRecord], options: &CheckOptions) -> String {
    rendered_with(lines, options, urls::MAX_KEPT)
}

fn rendered_with(lines: &[CheckRecord], options: &CheckOptions, max_kept: usize) -> String {
    let mut out = Vec::new();
    let (_directory, records) = records_file(lines);
    write(&findings::analyse(&records, options, max_kept).unwrap(), options.format.unwrap(), &mut out)
        .unwrap();
    String::from_utf8(out).unwrap()
}

fn json(lines: &[CheckRecord], options: &CheckOptions) -> serde_json::Value {
    serde_json::from_str(&rendered(lines, options)).unwrap()
}

/// The URLs of a list of findings, each with its problem.
fn found(report: &serde_json::Value, list: &str) -> Vec<String> {
    let findings = report[list].as_array().unwrap().iter();
    findings
        .map(|finding| {
            format!("{} {}", finding["url"].as_str().unwrap(), finding["problem"].as_str().unwrap())
        })
        .collect()
}

#[test]
fn broken_link_is_listed_with_every_page_that_links_to_it() {
    let lines = [
        page(
            "http://a/",
            vec![link("http://a/x", "one"), link("http://a/x", "two"), link("http://a/b", "b")],
            &[],
        ),
        CheckRecord::Url(url("http://a/x", Verdict::Http)),
        page("http://a/b", vec![link("http://a/x", ""), link("http://a/", "home")], &[]),
        CheckRecord::Url(url("http://a/b", Verdict::Fine)),
        CheckRecord::Url(UrlEntry { found_on: None, ..url("http://a/", Verdict::Fine) }),
    ];
    let report = json(&lines, &options(ReportFormat::Json));
    assert_eq!(found(&report, "broken"), ["http://a/x http"]);
    let broken = &report["broken"][0];
    assert_eq!((&broken["pages"], &broken["links"], &broken["status"]), (&2.into(), &3.into(), &404.into()));
    assert_eq!(broken["linked_from"].as_array().unwrap().len(), 3);
    assert_eq!((&report["complete"], &report["seeds"][0]), (&true.into(), &"http://a/".into()));
    assert_eq!(
        report["counts"],
        serde_json::json!({
            "pages": 2, "links": 5, "urls": 3, "broken": 1, "redirected": 0, "not_checked": 0, "anchors_not_checked": 0
        })
    );
    let text = rendered(&lines, &options(ReportFormat::Text));
    assert_eq!(
        text,
        "Broken\n\n  http://a/x\n    HTTP 404 Not Found\n    linked from 2 pages, 3 links:\n      \
        http://a/  \"one\"\n      http://a/  \"two\"\n      http://a/b  <a>\n\n\
        2 pages, 5 links, 3 URLs checked: 1 broken\n"
    );
    let accepted = CheckOptions { accept: "404".parse().unwrap(), ..options(ReportFormat::Text) };
    assert_eq!(rendered(&lines, &accepted), "2 pages, 5 links, 3 URLs checked: none broken\n");
}

#[test]
fn redirects_are_followed_to_what_is_wrong_with_their_target() {
    let links =
        ["http://a/gone", "http://a/moved", "http://a/found", "http://a/loop"].map(|url| link(url, "x"));
    let lines = [
        page("http://a/", links.to_vec(), &[]),
        CheckRecord::Url(redirect("http://a/gone", "http://b/1", 302)),
        CheckRecord::Url(redirect("http://b/1", "http://b/2", 301)),
        CheckRecord::Url(url("http://b/2", Verdict::Dns)),
        CheckRecord::Url(redirect("http://a/moved", "http://b/3", 301)),
        CheckRecord::Url(url("http://b/3", Verdict::Fine)),
        CheckRecord::Url(redirect("http://a/found", "http://b/3", 302)),
        CheckRecord::Url(redirect("http://a/loop", "http://a/pool", 302)),
        CheckRecord::Url(redirect("http://a/pool", "http://a/loop", 302)),
    ];
    let report = json(&lines, &options(ReportFormat::Json));
    assert_eq!(found(&report, "broken"), ["http://a/gone dns", "http://a/loop bad-redirect"]);
    assert_eq!(report["broken"][0]["redirects_to"], "http://b/2");
    assert_eq!(found(&report, "redirected"), ["http://a/moved redirect"]);
    let quiet = CheckOptions { redirects: false, ..options(ReportFormat::Json) };
    let report = json(&lines, &quiet);
    assert_eq!((found(&report, "redirected").len(), &report["counts"]["redirected"]), (0, &1.into()));
}

#[test]
fn anchors_are_compared_with_the_identifiers_of_the_page_that_redirects_lead_to() {
    let targets = [
        "http://a/b#here",
        "http://a/b#gone",
        "http://a/b#%C3%A4%20b",
        "http://a/b#TOP",
        "http://a/b#",
        "http://a/b#a%20%C3%A4",
        "http://a/b#:~:text=x",
        "http://a/b#gone:~:text=x",
        "http://a/b#/route",
        "http://a/old#here",
        "http://a/old#gone",
        "http://a/b#r%61w",
        "http://a/b#100%25",
        "http://a/b#50%",
    ];
    let lines = [
        page("http://a/", targets.map(|url| link(url, "x")).to_vec(), &[]),
        page("http://a/b", vec![], &["here", "ä b", "r%61w", "100%", "50%"]),
        CheckRecord::Url(redirect("http://a/old", "http://a/b", 302)),
    ];
    let report = json(&lines, &options(ReportFormat::Json));
    assert_eq!(
        found(&report, "broken"),
        [
            "http://a/b#a%20%C3%A4 anchor",
            "http://a/b#gone anchor",
            "http://a/b#gone:~:text=x anchor",
            "http://a/old#gone anchor"
        ]
    );
    let without = CheckOptions { fragments: false, ..options(ReportFormat::Json) };
    assert_eq!(json(&lines, &without)["counts"]["broken"], 0);
}

#[test]
fn what_a_page_request_showed_counts_more_than_a_probe() {
    for order in [[0, 1], [1, 0]] {
        let entries = [
            UrlEntry { crawled: false, ..url("http://a/x", Verdict::Http) },
            url("http://a/x", Verdict::Fine),
        ];
        let mut lines = vec![page("http://a/", vec![link("http://a/x", "x")], &[])];
        lines.extend(order.map(|index| CheckRecord::Url(entries[index].clone())));
        assert_eq!(json(&lines, &options(ReportFormat::Json))["counts"]["broken"], 0);
    }
}

#[test]
fn later_request_of_the_same_kind_counts() {
    use Verdict::{Connection, Fine, Http, NotChecked, NotReached, Timeout};
    for (verdicts, expected) in [
        (&[Timeout, Fine][..], None),
        (&[Timeout, Http], Some("http")),
        (&[Timeout, Connection, Timeout, Fine], None),
        (&[Fine, Http], Some("http")),
        (&[Timeout, NotReached], Some("timeout")),
        (&[NotChecked, Fine], None),
    ] {
        for (crawled, max_kept) in [(true, 100), (false, 100), (true, 0), (false, 0)] {
            let mut lines = vec![page("http://a/", vec![link("http://a/x", "x")], &[])];
            let entry =
                |verdict: &Verdict| UrlEntry { crawled, found_on: None, ..url("http://a/x", *verdict) };
            lines.extend(verdicts.iter().map(|verdict| CheckRecord::Url(entry(verdict))));
            let report = rendered_with(&lines, &options(ReportFormat::Json), max_kept);
            let report: serde_json::Value = serde_json::from_str(&report).unwrap();
            assert_eq!(report["counts"]["broken"], u64::from(expected.is_some()), "{verdicts:?} {max_kept}");
            let found = found(&report, "broken");
            if let (Some(expected), 1..) = (expected, max_kept) {
                assert_eq!(found, [format!("http://a/x {expected}")], "{verdicts:?}");
            }
            assert!(report["seeds"].as_array().unwrap().len() <= 1, "{}", report["seeds"]);
        }
    }
    // An accepted status, which is requested again.
    let accepted = CheckOptions { accept: "503".parse().unwrap(), ..options(ReportFormat::Json) };
    let lines = [
        page("http://a/", vec![link("http://a/x", "x")], &[]),
        CheckRecord::Url(UrlEntry { status: Some(503), ..url("http://a/x", Http) }),
        CheckRecord::Url(url("http://a/x", Http)),
    ];
    assert_eq!(json(&lines, &accepted)["counts"]["broken"], 1);
}

#[test]
fn broken_urls_are_counted_when_there_is_no_room_for_more() {
    let names: Vec<String> = (0..30).map(|number| format!("http://a/{number:02}")).collect();
    let mut lines = vec![page("http://a/", names[..20].iter().map(|url| link(url, "x")).collect(), &[])];
    lines.push(CheckRecord::Url(UrlEntry { found_on: None, ..url("http://a/", Verdict::Fine) }));
    // The last ten are in a sitemap, and no page links to them. Each list has ten of all three kinds.
    for (number, name) in names.iter().enumerate() {
        lines.push(CheckRecord::Url(match number % 3 {
            0 => url(name, Verdict::NotChecked),
            1 => redirect(name, "http://b/gone", 301),
            _ => url(name, Verdict::Http),
        }));
    }
    lines.push(CheckRecord::Url(url("http://b/gone", Verdict::Dns)));
    let report_with = |max_kept| -> serde_json::Value {
        serde_json::from_str(&rendered_with(&lines, &options(ReportFormat::Json), max_kept)).unwrap()
    };
    let complete = report_with(100);
    assert_eq!((&complete["counts"]["broken"], &complete["counts"]["not_checked"]), (&20.into(), &10.into()));
    assert_eq!(complete["gaps"], serde_json::json!([]));
    for max_kept in [0, 1, 5, 12] {
        let report = report_with(max_kept);
        assert_eq!(report["counts"], complete["counts"], "{max_kept}");
        let listed = report["broken"].as_array().unwrap().len();
        assert!(listed <= max_kept && (max_kept == 0 || listed > 0), "{listed} of {max_kept}");
        assert_eq!(report["gaps"], serde_json::json!([format!("{} broken URLs not listed", 20 - listed)]));
    }
    // What was not checked takes no room from what is broken.
    let report = report_with(20);
    assert_eq!(report["broken"], complete["broken"]);
}

#[test]
fn redirect_loop_that_no_page_links_to_is_reported() {
    let lead = |from, to, found_on: Option<&'static str>| {
        CheckRecord::Url(UrlEntry { found_on: found_on.map(Cow::from), ..redirect(from, to, 302) })
    };
    let map = Some("http://a/map.xml");
    // The target of a redirect was found where its source was found.
    for (found_on, max_kept) in [(None, 100), (map, 100), (None, 0)] {
        let mut lines = vec![
            CheckRecord::Url(url("http://a/map.xml", Verdict::Sitemap)),
            lead("http://a/1", "http://a/2", found_on),
            lead("http://a/2", "http://a/1", found_on),
        ];
        let report = |lines: &[CheckRecord]| -> serde_json::Value {
            serde_json::from_str(&rendered_with(lines, &options(ReportFormat::Json), max_kept)).unwrap()
        };
        assert_eq!(report(&lines)["counts"]["broken"], 1);
        if max_kept == 0 {
            continue;
        }
        assert_eq!(found(&report(&lines), "broken"), ["http://a/1 bad-redirect"]);
        assert_eq!(report(&lines)["broken"][0]["reason"], "too many redirects");
        // A URL that leads to the loop, and a page that links to it.
        lines.push(lead("http://a/0", "http://a/1", found_on));
        assert_eq!(found(&report(&lines), "broken"), ["http://a/0 bad-redirect"]);
        lines.pop();
        lines.push(page("http://a/", vec![link("http://a/2", "x")], &[]));
        assert_eq!(found(&report(&lines), "broken"), ["http://a/2 bad-redirect"]);
    }
}

#[test]
fn recorded_options_make_the_report_unless_others_are_given() {
    let record = |arguments: &str, outcome: Outcome| {
        let check = Check::new(CheckOptions::parse(arguments).unwrap().1);
        check.render_url(&crate::modules::example::url_record("http://a/x", outcome, 403))
    };
    let forbidden = || Outcome::HttpStatus { code: 403, retry_after: None };
    let directory = tempfile::tempdir().unwrap();
    let (path, target) = (directory.path().join("r.log.records"), directory.path().join("r.log"));
    let finish = |mut check: Check, is_given: bool| {
        if !is_given {
            check.use_recorded_options();
        }
        check.finish(&Records::open(&path).unwrap().unwrap(), &target).unwrap();
        (check.broken_links().unwrap(), fs::read_to_string(&target).unwrap())
    };
    let mut bytes = b"crawler-records-1 check\n".to_vec();
    bytes.extend(record("r.txt", forbidden()));
    bytes.extend(record("r.log,format=junit,accept=403,500-599,redirects", forbidden()));
    fs::write(&path, &bytes).unwrap();
    let (broken, text) = finish(Check::new(CheckOptions::default()), false);
    assert!(broken == 0 && text.starts_with("<?xml "), "{text}");
    // The status is no longer accepted.
    let (broken, text) = finish(Check::new(CheckOptions::default()), true);
    assert!(broken == 1 && text.contains("HTTP 403 Forbidden"), "{text}");
    bytes.extend(record("r.txt", forbidden()));
    fs::write(&path, &bytes).unwrap();
    assert_eq!(finish(Check::new(CheckOptions::default()), false).0, 1);
}

#[test]
fn report_says_what_was_not_checked_and_why() {
    let rejected = LinkEntry { rejected: "excluded".into(), ..link("http://a/no", "x") };
    let truncated = PageRecord { url: "http://a/long".into(), truncated: true, links: vec![], ids: None };
    let lines = [
        page(
            "http://a/",
            vec![
                rejected,
                link("http://a/far", "x"),
                link("http://a/unknown", "x"),
                link("http://a/bots", "x"),
            ],
            &[],
        ),
        CheckRecord::Url(url("http://a/far", Verdict::NotReached)),
        CheckRecord::Url(UrlEntry {
            reason: "robots.txt disallows it".into(),
            ..url("http://a/bots", Verdict::NotChecked)
        }),
        CheckRecord::Page(truncated),
    ];
    let report = json(&lines, &options(ReportFormat::Json));
    assert_eq!(
        found(&report, "not_checked"),
        [
            "http://a/bots not-checked",
            "http://a/far not-reached",
            "http://a/no not-checked",
            "http://a/unknown not-reached"
        ]
    );
    assert_eq!(report["complete"], false);
    assert_eq!(
        report["gaps"],
        serde_json::json!([
            "2 URLs not reached",
            "1 page was too large, or had too many links, to be read to the end"
        ])
    );
    // The page and the truncated one.
    assert_eq!(report["counts"]["urls"], 2);
    let text = rendered(&lines, &options(ReportFormat::Text));
    assert!(text.contains("\nNot complete: 2 URLs not reached; 1 page was"), "{text}");
    let listed =
        "  http://a/bots\n    robots.txt disallows it\n    linked from 1 page:\n      http://a/  \"x\"\n";
    assert!(text.contains(listed), "{text}");
}

#[test]
fn unlinked_urls_are_named_with_where_they_come_from() {
    let lines = [
        CheckRecord::Url(UrlEntry { found_on: None, ..url("http://a/", Verdict::Tls) }),
        CheckRecord::Url(UrlEntry {
            found_on: Some("http://a/map.xml".into()),
            ..url("http://a/x", Verdict::Http)
        }),
    ];
    let text = rendered(&lines, &options(ReportFormat::Text));
    assert!(text.contains("  http://a/\n    tls\n    the check starts from it\n"), "{text}");
    assert!(text.contains("  http://a/x\n    HTTP 404 Not Found\n    found in http://a/map.xml\n"), "{text}");
}

#[test]
fn hostile_text_is_escaped_in_every_format() {
    let nasty = "\u{9b}\u{1b}[2J</li><script>alert(1)</script>`@octocat` \"'&amp;\u{FFFE}\u{202E}";
    let lines = [
        page(
            "http://a/?q=<x>'\"&",
            vec![
                link("http://a/x", nasty),
                LinkEntry { rejected: MALFORMED.into(), ..link("http://[<b>", nasty) },
            ],
            &[],
        ),
        CheckRecord::Url(UrlEntry { reason: nasty.into(), ..url("http://a/x", Verdict::InvalidResponse) }),
    ];
    for format in [
        ReportFormat::Text,
        ReportFormat::Json,
        ReportFormat::Junit,
        ReportFormat::Markdown,
        ReportFormat::Html,
    ] {
        let text = rendered(&lines, &options(format));
        assert!(
            !text
                .chars()
                .any(|c| c != '\n' && c.is_control() || c == '\u{202E}' && format != ReportFormat::Json),
            "{format:?}: {text}"
        );
        match format {
            ReportFormat::Html => assert!(
                !text.contains("<script") && !text.contains("<b>") && !text.contains("'\"&"),
                "{text}"
            ),
            ReportFormat::Junit => assert!(!text.contains("<script") && !text.contains('\u{FFFE}'), "{text}"),
            ReportFormat::Markdown => {
                let is_code = |line: &str| line.matches('`').count().is_multiple_of(2);
                assert!(text.lines().all(is_code), "{text}");
            }
            _ => {}
        }
    }
    let report = json(&lines, &options(ReportFormat::Json));
    assert_eq!(found(&report, "broken"), ["http://[<b> malformed", "http://a/x invalid-response"]);
    assert_eq!(report["broken"][1]["linked_from"][0]["text"], nasty);
}

#[test]
fn many_links_to_a_url_and_many_broken_urls_are_counted_and_not_all_listed() {
    let mut lines = Vec::new();
    for number in 0..300 {
        let links = vec![link("http://a/x", "x"); 10];
        lines.push(page(Box::leak(format!("http://a/{number}").into_boxed_str()), links, &[]));
    }
    lines.push(CheckRecord::Url(url("http://a/x", Verdict::Http)));
    let report = json(&lines, &options(ReportFormat::Json));
    let broken = &report["broken"][0];
    assert_eq!((&broken["pages"], &broken["links"]), (&300.into(), &3_000.into()));
    assert_eq!(broken["linked_from"].as_array().unwrap().len(), 100);
    assert!(rendered(&lines, &options(ReportFormat::Text)).contains("… and 2,980 more"));

    let urls: Vec<String> = (0..5_000).map(|number| format!("http://a/{number:04}")).collect();
    let mut lines = vec![page("http://a/", urls.iter().map(|url| link(url, "x")).collect(), &[])];
    lines.extend(urls.iter().map(|target| CheckRecord::Url(url(target, Verdict::Http))));
    let comment = rendered(&lines, &options(ReportFormat::Markdown));
    assert!(comment.len() < 65_000 && comment.contains("5,000 broken"), "{}", comment.len());
    assert!(comment.lines().last().unwrap().starts_with("- … and "), "{comment}");
}

#[test]
fn format_is_that_of_the_extension_or_the_option() {
    let parse =
        |arguments: &str| CheckOptions::parse(arguments).map(|(path, check)| (path.to_owned(), check));
    let (path, check) = parse("a,b.JSON,fragments,accept=403,500-599,redirects").unwrap();
    assert_eq!(
        (path.as_str(), check.format, check.fragments, check.redirects),
        ("a,b.JSON", None, true, true)
    );
    assert_eq!(check.accept.to_string(), "403,500-599");
    assert_eq!(parse("report,format=junit").unwrap().1.format, Some(ReportFormat::Junit));
    assert_eq!(parse("report").unwrap().1.format, None);
    for (bad, error) in [
        ("report.pdf", "its file must end with"),
        ("r.txt,format=pdf", "there is no format \"pdf\"; formats are text, json"),
        ("r.txt,accept=x", "must be HTTP statuses"),
        ("r.txt,accept", "accept needs a value"),
        ("r.txt,fragments=1", "fragments takes no value"),
        ("r.txt,redirects,fragments,redirects", "'redirects' is given twice"),
        ("-,format=json", "it needs a file"),
        (",format=json", "it needs a file"),
    ] {
        assert!(parse(bad).unwrap_err().starts_with(error), "{bad}");
    }
}
