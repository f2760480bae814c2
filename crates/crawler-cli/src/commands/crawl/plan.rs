//! What a crawl will do, in one line, which is printed before the first request.

use std::env;
use std::path::Path;

use crawler::internal::origin::without_credentials;
use url::{Position, Url};

use crate::args::{CrawlOptions, ScopeKind, output_path, writes_to_stdout};
use crate::format::{bytes, counted, limit, number};
use crate::values::{MAX_COUNT, MAX_LARGE_SIZE};

/// How many modules are named.
const MAX_MODULES: usize = 3;

/// A longer seed or module is shortened to this many characters, so that the line mostly fits into a terminal.
const MAX_CHARS: usize = 40;

/// What to say first: the seeds, the scope, the limits and the modules. If pages are only counted, also how to keep them.
pub fn lines(options: &CrawlOptions) -> Vec<String> {
    let is_named = |module: &&String| *module != "noop" && !is_printed_report(options, module);
    let modules: Vec<&String> = options.module.iter().filter(is_named).collect();
    let parts = [Some(seeds(options)), Some(scope(options)), limits(options), outputs(&modules)];
    let mut lines = vec![parts.into_iter().flatten().collect::<Vec<_>>().join("; ")];
    if modules.is_empty() && options.check.is_none() {
        lines.push("pages are only counted; to keep them: --module jsonl=FILE or --module pages=DIR".into());
    }
    lines
}

/// The line of a classic crawl.
pub fn classic(
    seed: &Url,
    prefix: Option<&Url>,
    directory: &Path,
    max_depth: u32,
    urls: Option<&Path>,
) -> String {
    let seed = without_credentials(seed);
    let scope = match prefix {
        Some(prefix) => format!("only URLs below {prefix}"),
        None => format!("only {}", &seed[..Position::BeforePath]),
    };
    let (seed, directory) = (shortened(seed.as_str()), directory.display());
    let urls = match urls.map(Path::display) {
        Some(file) => format!(", URLs to {}", shortened(&file.to_string())),
        None => String::new(),
    };
    format!("crawling {seed}; {scope}, depth {max_depth}; pages to {directory}/{urls}")
}

fn seeds(options: &CrawlOptions) -> String {
    let files = &options.sources.seed_files;
    let first = options.seeds.first().map(|seed| match Url::parse(seed) {
        Ok(url) => shortened(without_credentials(&url).as_str()),
        Err(_) => shortened(seed),
    });
    let mut seeds: Vec<String> = first.into_iter().collect();
    if let Some(more @ 1..) = options.seeds.len().checked_sub(1) {
        seeds.push(format!("{} more", number(more as u64)));
    }
    if let [first, others @ ..] = &files[..] {
        let name = if first == "-" { "standard input".into() } else { shortened(first) };
        let more = match others.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        seeds.push(format!("the URLs in {name}{more}"));
    }
    let verb = if options.check.is_some() { "checking the links of" } else { "crawling" };
    format!("{verb} {}", seeds.join(" and "))
}

fn scope(options: &CrawlOptions) -> String {
    let mut scope = match options.scope {
        ScopeKind::Any => "all hosts",
        ScopeKind::Domain => "only the domains of the seeds",
        ScopeKind::Host => "only the hosts of the seeds",
        ScopeKind::Prefix => "only URLs below the seeds",
    }
    .to_owned();
    if !options.include.is_empty() || !options.exclude.is_empty() {
        scope += ", filtered";
    }
    if let Some(depth) = options.max_depth {
        scope += &format!(", depth {depth}");
    }
    scope
}

fn limits(options: &CrawlOptions) -> Option<String> {
    let pages = (options.max_pages < MAX_COUNT).then(|| counted(options.max_pages, "page"));
    let size = (options.max_bytes < MAX_LARGE_SIZE).then(|| bytes(options.max_bytes));
    let limits: Vec<String> = [pages, size, options.max_time.map(limit)].into_iter().flatten().collect();
    (!limits.is_empty()).then(|| format!("up to {}", limits.join(", ")))
}

/// Whether a module writes the report of a check that is printed in the end.
fn is_printed_report(options: &CrawlOptions, module: &str) -> bool {
    let report = options.check.as_ref().filter(|check| check.is_printed);
    report.is_some_and(|report| output_path(module).as_ref() == Some(&report.file))
}

fn outputs(modules: &[&String]) -> Option<String> {
    let named: Vec<String> = modules.iter().take(MAX_MODULES).map(|module| named_module(module)).collect();
    let more = match modules.len().checked_sub(MAX_MODULES) {
        Some(more @ 1..) => format!(" and {more} more"),
        _ => String::new(),
    };
    (!named.is_empty()).then(|| format!("to {}{more}", named.join(", ")))
}

/// A module without its options. The path of an output is relative to the working directory, if it is below it.
fn named_module(module: &str) -> String {
    let name = module.split('=').next().unwrap_or_default();
    match output_path(module) {
        Some(path) => {
            let directory = env::current_dir().unwrap_or_default();
            let path = path.strip_prefix(directory).unwrap_or(&path).display().to_string();
            let hidden = path.chars().count().saturating_sub(MAX_CHARS);
            match hidden {
                0 => format!("{name}={path}"),
                _ => format!("{name}=…{}", path.chars().skip(hidden + 1).collect::<String>()),
            }
        }
        None if writes_to_stdout(module) => format!("{name}=-"),
        None => shortened(module),
    }
}

/// A text without its middle, if it is long.
fn shortened(text: &str) -> String {
    let length = text.chars().count();
    if length <= MAX_CHARS {
        return text.to_owned();
    }
    let half = MAX_CHARS / 2;
    let (start, end) = (text.chars().take(half), text.chars().skip(length - half + 1));
    start.chain(['…']).chain(end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::testing::parse;

    fn plan(arguments: &str) -> Vec<String> {
        lines(&parse(arguments))
    }

    #[test]
    fn plan_names_seeds_scope_limits_and_modules() {
        assert_eq!(
            plan("http://me:secret@a.test/"),
            [
                "crawling http://a.test/; all hosts; up to 10,000 pages, 50.0 MB",
                "pages are only counted; to keep them: --module jsonl=FILE or --module pages=DIR"
            ]
        );
        let all = "http://a.test/ http://b.test/ http://c.test/ --seeds - --seeds x --scope host --exclude y --max-depth 2 \
                   --max-time 90s --module jsonl=f --module words --module pages=d --module edges=e";
        assert_eq!(
            plan(all),
            [
                "crawling http://a.test/ and 2 more and the URLs in standard input and 1 more; only the hosts of the \
                 seeds, filtered, depth 2; up to 10,000 pages, 50.0 MB, 1 m 30 s; to jsonl=f, words, pages=d and 1 more"
            ]
        );
    }

    #[test]
    fn long_names_are_shortened() {
        let path = format!("/a/{}/pages.jsonl", "b".repeat(80));
        let plan = plan(&format!("http://a.test/{} --module jsonl={path}", "é".repeat(3000)));
        assert!(plan[0].chars().count() <= 140 && plan[0].ends_with("/pages.jsonl"), "{plan:?}");
    }

    #[test]
    fn modules_are_named_without_options() {
        let file = env::current_dir().unwrap().join("pages.jsonl");
        let fields = "fields=url,title,text,headers,referrer";
        let modules = format!("--module jsonl={},{fields} --module csv=-,fields=url", file.display());
        let plan = plan(&format!("http://a.test/ {modules} --module edges=/a/e.csv,distinct"));
        assert!(plan[0].ends_with("; to jsonl=pages.jsonl, csv=-, edges=/a/e.csv"), "{plan:?}");
    }
}
