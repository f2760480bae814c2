//! The hosts of a crawl: the largest, the slowest, and the delays between their requests.

use std::time::Duration;

use crawler::internal::statistics::host_table::MAX_HOSTS;
use crawler::internal::statistics::{HostStatistics, RobotsState};

use super::{milliseconds, percent};
use crate::dashboard::robots_name;
use crate::format::{bytes, counted, limit, number};
use crate::report::content::ReportContent;
use crate::report::document::{Bar, Block, Cell, Chart, Heading, Numbers, Section, Table, Tone};

/// The most bars of a chart.
const MAX_BARS: usize = 10;

/// The largest and the slowest hosts, and the table of all.
pub fn hosts(content: &ReportContent) -> Option<Section<'static>> {
    let hosts = &content.view.statistics.hosts;
    if hosts.is_empty() {
        return None;
    }
    let mut section = Section::new("hosts", "Hosts");
    let mut sentence = format!("{} got requests.", counted(hosts.len() as u64, "host"));
    if hosts.len() >= MAX_HOSTS {
        let kept = number(hosts.len() as u64);
        sentence = format!("The {kept} hosts with the most requests; those with fewer are left out.");
    }
    section.say(
        sentence
            + " Failed are requests without a complete response, or with the status 429 or 5xx; an HTTP 404 is a response as others are.",
    );
    if hosts.len() > 1 {
        section.draw(charts(content));
    }
    let rows = hosts.top(usize::MAX, |host| (host.requests, host.pages));
    section.blocks.push(Block::Table(Table {
        id: "host-table",
        noun: "host",
        columns: vec![
            Heading::wide("Host"),
            Heading::number("Requests"),
            Heading::number("Pages"),
            Heading::number("Data"),
            Heading::number("Failed"),
            Heading::number("Mean time"),
            Heading::number("Longest"),
            Heading::number("Delay"),
            Heading::number("Smallest gap"),
            Heading::text("robots.txt"),
        ],
        rows: rows.into_iter().map(|(name, host)| row(name, host)).collect(),
        total: hosts.len() as u64,
        choice: None,
    }));
    Some(section)
}

fn charts(content: &ReportContent) -> Vec<Chart> {
    let hosts = &content.view.statistics.hosts;
    let pages = |(name, host): (&str, &HostStatistics)| Bar {
        label: name.into(),
        value: host.pages as f64,
        text: number(host.pages),
        tone: Tone::Good,
        mark: None,
        full: None,
    };
    let largest = hosts.top(MAX_BARS, |host| host.pages).into_iter().filter(|(_, host)| host.pages > 0);
    let largest: Vec<Bar> = largest.map(pages).collect();
    let mean = |host: &HostStatistics| host.mean_latency_ms().unwrap_or(0);
    let slow = |(name, host): (&str, &HostStatistics)| Bar {
        label: name.into(),
        value: mean(host) as f64,
        text: milliseconds(mean(host) as f64),
        tone: Tone::Warn,
        mark: None,
        full: None,
    };
    let slowest = hosts.top(MAX_BARS, mean).into_iter().filter(|(_, host)| mean(host) > 0);
    let slowest: Vec<Bar> = slowest.map(slow).collect();
    [
        ("Largest hosts", "Pages of each host.", largest),
        ("Slowest hosts", "Mean time from a request to the end of its response.", slowest),
    ]
    .into_iter()
    .filter(|(_, _, bars)| !bars.is_empty())
    .map(|(title, note, bars)| Chart { title: title.into(), note: note.into(), numbers: Numbers::Bars(bars) })
    .collect()
}

fn row(name: &str, host: &HostStatistics) -> Vec<Cell> {
    let count = |count: u64| Cell::Number(count as f64, number(count));
    let time = |time: u32| Cell::Number(time.into(), milliseconds(time.into()));
    let robots = match host.crawl_delay_ms {
        Some(delay) => format!("{}, delay {}", robots_name(host.robots), limit(from_ms(delay))),
        None => robots_name(host.robots).into(),
    };
    vec![
        Cell::Foreign(name.into()),
        count(host.requests),
        count(host.pages),
        Cell::Number(host.bytes as f64, bytes(host.bytes)),
        count(host.failures),
        host.mean_latency_ms()
            .map_or(Cell::None, |mean| Cell::Number(mean as f64, milliseconds(mean as f64))),
        if host.requests > 0 { time(host.latency_max_ms) } else { Cell::None },
        time(host.delay_ms),
        host.smallest_gap_ms.map_or(Cell::None, time),
        Cell::Text(robots),
    ]
}

fn from_ms(milliseconds: u32) -> Duration {
    Duration::from_millis(milliseconds.into())
}

/// The smallest gap between two requests to each host, compared with the delay.
pub fn politeness(content: &ReportContent) -> Option<Section<'static>> {
    let statistics = &content.view.statistics;
    let mut gaps: Vec<(&str, &HostStatistics, u32)> = statistics
        .hosts
        .iter()
        .filter_map(|(name, host)| Some((name, host, host.smallest_gap_ms?)))
        .collect();
    gaps.sort_by_key(|(name, _, gap)| (*gap, *name));
    let robots = &statistics.robots_txt;
    let failing =
        statistics.hosts.iter().filter(|(_, host)| host.robots == RobotsState::Failing).count() as u64;
    let requested = robots.fetched + robots.missing + robots.unavailable + failing;
    if gaps.is_empty() && requested == 0 {
        return None;
    }
    let mut section = Section::new("politeness", "Politeness");
    if let Some((name, _, gap)) = gaps.first() {
        section.say(smallest_gap(content, name, *gap, &gaps));
    }
    if requested > 0 {
        section.say(format!(
            "robots.txt: {} with rules, {} missing, {} given up after failures, {} still failing; {} disallowed. The file of a host is \
             fetched and counted again when the crawl is resumed, and when another worker takes the host over.",
            counted(robots.fetched, "file"),
            number(robots.missing),
            number(robots.unavailable),
            number(failing),
            counted(robots.disallowed, "URL")
        ));
    }
    let is_delayed = !content.view.limits.delay.is_zero();
    let bar = |(name, host, gap): &(&str, &HostStatistics, u32)| Bar {
        label: (*name).into(),
        value: f64::from(*gap),
        text: milliseconds(f64::from(*gap)),
        tone: if host.early_requests > 0 { Tone::Bad } else { Tone::Good },
        mark: is_delayed.then_some(content.view.limits.delay.as_secs_f64() * 1_000.0),
        full: None,
    };
    let bars: Vec<Bar> = gaps.iter().take(MAX_BARS).map(bar).collect();
    if !bars.is_empty() {
        let mark = if is_delayed { " The mark is the delay at the end of the crawl." } else { "" };
        let note = format!(
            "From the end of a response to the start of the next request; with --per-host, from start to start.{mark}"
        );
        let title =
            if gaps.len() > MAX_BARS { "Hosts with the smallest gaps" } else { "Smallest gap per host" };
        section.draw(vec![Chart { title: title.into(), note, numbers: Numbers::Bars(bars) }]);
    }
    Some(section)
}

fn smallest_gap(
    content: &ReportContent,
    name: &str,
    gap: u32,
    gaps: &[(&str, &HostStatistics, u32)],
) -> String {
    let delay = content.view.limits.delay;
    let of_delay = if delay.is_zero() {
        "no delay is set".into()
    } else {
        format!("the delay is {}", milliseconds(delay.as_secs_f64() * 1_000.0))
    };
    // Each request was judged by the delay when it started, which may have been another one.
    let early = gaps.iter().filter(|(_, host, _)| host.early_requests > 0);
    let (hosts, requests) =
        early.fold((0, 0), |(hosts, requests), (_, host, _)| (hosts + 1, requests + host.early_requests));
    let verdict = match hosts {
        0 if delay.is_zero() => String::new(),
        0 => " No host got a request before its delay had passed.".into(),
        hosts => format!(
            " {} ({}) got {} before the delay had passed.",
            counted(hosts, "host"),
            percent(hosts, gaps.len() as u64),
            counted(requests, "request")
        ),
    };
    format!("Smallest gap {} ({name}); {of_delay}.{verdict}", milliseconds(f64::from(gap)))
}
