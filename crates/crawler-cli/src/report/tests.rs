use std::time::Duration;

use super::content::{ReportContent, StructureNode};
use super::example::{empty, hostile, usual};
use super::{html, markdown};

/// Crawls of all kinds: none, as usual, only with counts, hostile.
fn contents() -> Vec<ReportContent> {
    let mut only_counts = usual(1, 4);
    only_counts.view.statistics = empty().view.statistics;
    only_counts.urls = empty().urls;
    only_counts.view.elapsed = Duration::ZERO;
    let mut one_page = empty();
    one_page.view.snapshot.pages = 1;
    one_page.view.snapshot.outcomes.insert("page".into(), 1);
    one_page.view.limits.max_pages = 0;
    one_page.view.limits.max_time = Some(Duration::ZERO);
    one_page.view.limits.max_depth = Some(0);
    vec![empty(), usual(1, 0), usual(24, 160), only_counts, one_page, hostile()]
}

#[test]
fn numbers_are_finite_and_no_chart_or_table_is_empty() {
    for content in contents() {
        let html = html::render(&content);
        for wrong in ["NaN", "inf%", ">inf", "\"-", "<tbody>\n</tbody>", "<ul></ul>", "height=\"0\"><title>"]
        {
            assert!(!html.contains(wrong), "{wrong}: {html}");
        }
        let markdown = markdown::render(&content);
        assert!(!markdown.contains("NaN") && !markdown.contains("18,446,744,073,709,551,615"), "{markdown}");
    }
}

#[test]
fn report_without_anything_says_so() {
    let html = html::render(&empty());
    assert!(html.contains("None: no URL failed.") && html.contains("Ended: nothing is pending"), "{html}");
    assert!(!html.contains("<svg") && !html.contains("<table"), "{html}");
    assert!(html.contains("No limit was set for pages, data, time and depth."), "{html}");
}

#[test]
fn sections_have_the_numbers_of_the_summary() {
    let content = usual(24, 160);
    let html = html::render(&content);
    for text in [
        "<span class=\"name\">Pages</span> <strong>2,000</strong>",
        "HTTP 404 ×120 · timeout ×40",
        "Smallest gap 1.00 s (host-0.example.org); the delay is 1.00 s.",
        "No host got a request before its delay had passed.",
        "2,000 of 2,000",
        "404 Not Found",
        "1,203",
    ] {
        assert!(html.contains(text), "{text}");
    }
    let markdown = markdown::render(&content);
    for text in ["\n## Summary\n", "| Pages | 2,000 | 61.4 MB |", "\n## Failed URLs\n", "### Depth"] {
        assert!(markdown.contains(text), "{text}: {markdown}");
    }
}

#[test]
fn report_says_how_to_retry_only_if_the_crawl_can_be_resumed() {
    let mut content = usual(24, 160);
    for (can_resume, words) in [
        (false, "40 failed temporarily."),
        (true, "40 failed temporarily: crawler resume DIR --retry-failed fetches them again."),
    ] {
        content.can_resume = can_resume;
        for report in [html::render(&content), markdown::render(&content)] {
            assert!(report.contains(words), "{words}: {report}");
        }
    }
}

#[test]
fn text_from_the_web_stays_text_in_html() {
    let html = html::render(&hostile());
    for attack in
        ["<img", "<script>window", "href=\"javascript", "\u{202e}", "\u{2066}", "\0", "\u{1b}", "<b>"]
    {
        assert!(!html.contains(attack), "{attack}");
    }
    assert_eq!(html.matches("<script").count(), 1);
    let body = html.split_once("<body>").unwrap().1;
    let hrefs = body.split("href=\"").skip(1);
    assert!(hrefs.clone().count() > 50);
    for href in hrefs {
        assert!(["http://", "https://", "#"].iter().any(|start| href.starts_with(start)), "{href}");
    }
}

#[test]
fn cells_of_markdown_tables_stay_cells() {
    let markdown = markdown::render(&hostile());
    for attack in ["\n# heading", "<img src", "\u{202e}", "\0"] {
        let outside = markdown.match_indices(attack).filter(|(at, _)| {
            let line = markdown[..*at].rsplit('\n').next().unwrap_or_default();
            let is_code = line.replace("\\`", "").matches('`').count() % 2 == 1;
            !is_code && !line.ends_with('\\')
        });
        assert_eq!(outside.count(), 0, "{attack}");
    }
    let rows = markdown.split_once("| URL | Redirects to | Followed |\n").unwrap().1;
    let rows = rows.lines().skip(1).take_while(|line| line.starts_with('|'));
    for row in rows {
        assert_eq!(row.replace("\\|", "").matches('|').count(), 4, "{row}");
    }
}

#[test]
fn reports_of_large_crawls_are_bounded() {
    let html = html::render(&usual(1_000, 10_000));
    assert!(html.len() < 6_000_000, "{}", html.len());
    assert_eq!(html.matches("/missing-9999?").count(), 2, "the last row is there");
    assert!(html.contains("10,000 failed URLs"), "the total is exact");
    let markdown = markdown::render(&usual(1_000, 10_000));
    assert!(markdown.len() < 4_000_000, "{}", markdown.len());
}

#[test]
fn pages_with_broken_links_are_not_counted_as_all_if_not_all_failed_urls_are_listed() {
    let mut content = usual(24, 160);
    let sentence = "with links to URLs that failed.";
    assert!(html::render(&content).contains(sentence) && markdown::render(&content).contains(sentence));
    content.urls.failed.total += 1;
    let sentence = "with links to the failed URLs that are listed below.";
    assert!(html::render(&content).contains(sentence) && markdown::render(&content).contains(sentence));
}

#[test]
fn values_of_axes_are_above_what_is_drawn() {
    let html = html::render(&usual(24, 160));
    let pictures: Vec<&str> =
        html.split("<svg role=\"img\"").filter(|svg| svg.contains("\"axis\"")).collect();
    assert!(pictures.len() >= 6, "charts over time and histograms");
    for picture in pictures {
        let (_, above) = picture.split_once("class=\"axis\"").unwrap();
        let (above, _) = above.split_once("</figure>").unwrap();
        assert!(!above.contains("<rect") && !above.contains("<path") && !above.contains("<line"), "{above}");
    }
}

#[test]
fn policy_allows_only_the_style_sheet_and_the_script_of_the_report() {
    let html = html::render(&empty());
    let policy =
        html.split_once("Content-Security-Policy\" content=\"").unwrap().1.split_once('"').unwrap().0;
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    assert!(!html.contains(" style=\"") && !html.contains(" onclick"), "{html}");
}

#[test]
fn structure_of_a_broad_crawl_has_a_named_box_for_the_small_hosts_and_a_folded_list() {
    let mut content = usual(1, 0);
    let host = |index: usize, urls| StructureNode {
        name: format!("host-{index}.test"),
        pages: urls,
        urls,
        ..StructureNode::default()
    };
    let small = |content: &mut ReportContent, large: u64, count: usize| {
        let mut hosts: Vec<StructureNode> = (0..count).map(|index| host(index, 1)).collect();
        hosts.splice(0..0, (large > 0).then(|| host(count, large)));
        let urls = large + count as u64 + 1_300;
        content.urls.structure = StructureNode {
            urls,
            pages: urls,
            children: hosts,
            omitted: (1_300, 1_300),
            ..StructureNode::default()
        };
        html::render(content)
    };
    let html = small(&mut content, 0, 200);
    assert!(
        html.contains("<text x=\"7\" y=\"17\">1,500 hosts</text>")
            && html.contains("height=\"28\"><title>Str")
    );
    assert!(html.contains("<summary class=\"count\">170 more</summary>"), "the first 30 are shown");
    let html = small(&mut content, 1_000, 200);
    assert!(html.contains("<text x=\"7\" y=\"17\">and 1,500 more hosts</text>"), "{html}");
}
