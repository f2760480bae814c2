//! A link check: the links of all pages and the outcomes of all URLs, from which a report is made at the end.

mod anchors;
mod findings;
mod html;
mod json;
mod junit;
mod markdown;
mod records;
mod report;
mod status_codes;
mod text;
mod urls;
mod verdict;

use std::borrow::Cow;
use std::io::{self, Write};
use std::iter::Peekable;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use self::records::{CheckRecord, LinkEntry, PageRecord, UrlEntry};
use self::report::{CheckCounts, Report};
pub use self::status_codes::StatusCodes;
use self::verdict::Verdict;
use super::output::finish::{Finisher, Records};
use super::output::new_file::NewFile;
use super::registry::RegisteredModule;
use super::spec::Spec;
use super::{BuiltinOutput, OutputSpec, OutputWrite, Target};
use crate::error::StorageError;
use crate::html::BadLink;
use crate::html::parts::PageParts;
use crate::media::Media;
use crate::outcome::Outcome;
use crate::page::Page;
use crate::scope::RejectReason;
use crate::task_kind::TaskKind;
use crate::url_record::UrlRecord;

/// The form of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportFormat {
    /// For people.
    Text,
    /// For programs.
    Json,
    /// JUnit XML, for continuous integration servers.
    Junit,
    /// For a comment on a change.
    Markdown,
    /// For browsers.
    Html,
}

impl ReportFormat {
    /// The formats by the names that a user gives them.
    pub const NAMES: [(&'static str, ReportFormat); 5] = [
        ("text", ReportFormat::Text),
        ("json", ReportFormat::Json),
        ("junit", ReportFormat::Junit),
        ("markdown", ReportFormat::Markdown),
        ("html", ReportFormat::Html),
    ];

    /// The format with this name.
    pub fn named(name: &str) -> Option<ReportFormat> {
        ReportFormat::NAMES.iter().find(|(known, _)| *known == name).map(|(_, format)| *format)
    }

    /// The format of a file with this name, by its extension.
    pub fn of_file(path: &Path) -> Option<ReportFormat> {
        let extension = path.extension().unwrap_or_default().to_str()?.to_ascii_lowercase();
        Some(match extension.as_str() {
            "" | "txt" => ReportFormat::Text,
            "json" => ReportFormat::Json,
            "xml" => ReportFormat::Junit,
            "md" => ReportFormat::Markdown,
            "html" | "htm" => ReportFormat::Html,
            _ => return None,
        })
    }
}

/// What a link check reports, and how.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckOptions {
    /// The form of the report. `None` if the name of its file decides.
    pub format: Option<ReportFormat>,
    /// HTTP statuses that count as fine, beyond those of success.
    pub accept: StatusCodes,
    /// Whether anchors are checked: that the page of a link `page#id` has an element with this identifier.
    pub fragments: bool,
    /// Whether links that redirect permanently are listed.
    pub redirects: bool,
}

impl CheckOptions {
    /// Parses `PATH,option,option=value`. Also returns the path.
    pub(super) fn parse(arguments: &str) -> Result<(&str, CheckOptions), String> {
        let is_option = |name: &str| ["accept", "format", "fragments", "redirects"].contains(&name);
        let Spec { path, options } = Spec::split(arguments, is_option);
        let by_name = ReportFormat::of_file(path.as_ref());
        if ["", "-"].contains(&path) {
            return Err("it needs a file".into());
        }
        let mut check = CheckOptions::default();
        for (index, &(name, value)) in options.iter().enumerate() {
            if options[..index].iter().any(|(other, _)| *other == name) {
                return Err(format!("'{name}' is given twice"));
            }
            match (name, value) {
                ("fragments", None) => check.fragments = true,
                ("redirects", None) => check.redirects = true,
                ("accept", Some(codes)) => check.accept = codes.parse()?,
                ("format", Some(name)) => {
                    let formats = ReportFormat::NAMES.map(|(name, _)| name).join(", ");
                    let unknown = || format!("there is no format {name:?}; formats are {formats}");
                    check.format = Some(ReportFormat::named(name).ok_or_else(unknown)?);
                }
                (name, None) => return Err(format!("{name} needs a value")),
                (name, Some(_)) => return Err(format!("{name} takes no value")),
            }
        }
        match check.format.is_some() || by_name.is_some() {
            true => Ok((path, check)),
            false => {
                Err("its file must end with .txt, .json, .xml, .md or .html, or have format=FORMAT".into())
            }
        }
    }

    /// Those that change the report and not what is recorded, as they follow the path on the command line.
    fn of_report(&self) -> String {
        let mut options = String::new();
        if let Some((name, _)) = ReportFormat::NAMES.iter().find(|(_, format)| Some(*format) == self.format) {
            options += &format!(",format={name}");
        }
        if self.accept != StatusCodes::default() {
            options += &format!(",accept={}", self.accept);
        }
        if self.redirects {
            options += ",redirects";
        }
        options
    }
}

/// The output that checks links.
#[derive(Debug)]
pub struct Check {
    options: CheckOptions,
    /// The options that are recorded, because a resumed check may have others.
    recorded: String,
    /// Whether the report has the recorded options instead.
    uses_recorded: bool,
    /// What the report says.
    counts: Mutex<Option<CheckCounts>>,
}

impl Check {
    /// A check with these options.
    pub fn new(options: CheckOptions) -> Check {
        let recorded = options.of_report();
        Check { options, recorded, uses_recorded: false, counts: Mutex::default() }
    }

    /// The output of the arguments `PATH[,OPTION…]`.
    pub(super) fn parse(arguments: &str) -> Result<RegisteredModule, String> {
        let (path, options) = CheckOptions::parse(arguments)?;
        let (output, target) = (Box::new(Check::new(options)), Target::File(path.into()));
        Ok(RegisteredModule::Output(OutputSpec { output, target }))
    }
}

impl BuiltinOutput for Check {
    fn name(&self) -> &str {
        "check"
    }

    fn format(&self) -> String {
        // The other options are recorded.
        if self.options.fragments { "check,fragments".into() } else { "check".into() }
    }

    fn finisher(&self) -> Option<&dyn Finisher> {
        Some(self)
    }

    fn render(&self, page: &Page) -> OutputWrite {
        let mut bytes = Vec::new();
        self.page_record(page).push_to(&mut bytes);
        OutputWrite::Append(bytes)
    }

    fn wants(&self) -> PageParts {
        PageParts { link_details: true, requisites: true, ids: self.options.fragments }
    }

    fn checks_links(&self) -> bool {
        true
    }

    fn wants_urls(&self) -> bool {
        true
    }

    fn render_url(&self, record: &UrlRecord) -> Vec<u8> {
        let mut bytes = Vec::new();
        CheckRecord::Url(self.url_entry(record)).push_to(&mut bytes);
        bytes
    }

    fn wants_found_on(&self) -> bool {
        true
    }

    fn use_recorded_options(&mut self) {
        self.uses_recorded = true;
    }

    fn broken_links(&self) -> Option<u64> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).map(|counts| counts.broken)
    }

    fn summary(&self) -> Option<String> {
        self.counts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .map(|counts| format!("Link check: {counts}"))
    }
}

impl Finisher for Check {
    fn finish(&self, records: &Records, target: &Path) -> Result<(), StorageError> {
        let options = match self.uses_recorded {
            true => &self.recorded_options(records)?,
            false => &self.options,
        };
        let report = findings::analyse(records, options, urls::MAX_KEPT)?;
        let format = options.format.or(ReportFormat::of_file(target)).unwrap_or(ReportFormat::Text);
        let mut file = NewFile::create(target)?;
        write(&report, format, &mut file).map_err(|error| file.error(error))?;
        file.finish()?;
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner) = Some(report.counts);
        Ok(())
    }
}

impl Check {
    /// The options that the last process of the crawl had.
    fn recorded_options(&self, records: &Records) -> Result<CheckOptions, StorageError> {
        let mut recorded = String::new();
        CheckRecord::for_each(records, |record| {
            if let CheckRecord::Url(UrlEntry { options, .. }) = record
                && options != recorded
            {
                recorded = options.into_owned();
            }
        })?;
        let arguments = format!("report{recorded}");
        let (_, options) = CheckOptions::parse(&arguments).map_err(|_| records.damaged())?;
        Ok(CheckOptions { fragments: self.options.fragments, ..options })
    }

    fn page_record<'p>(&self, page: &'p Page) -> CheckRecord<'p> {
        let mut rejected = page.not_requested.links.iter().peekable();
        let mut details = page.link_details.iter();
        let link = |(index, url): (usize, &'p str)| {
            let detail = details.next();
            LinkEntry {
                url: url.into(),
                fragment: detail.and_then(|detail| detail.fragment.as_deref()).unwrap_or_default().into(),
                element: detail.map_or("a", |detail| detail.kind.name()).into(),
                text: detail.map_or("", |detail| &detail.text).into(),
                rejected: rejection(&mut rejected, index),
            }
        };
        let mut links: Vec<LinkEntry> = page.links.iter().enumerate().map(link).collect();
        let mut rejected = page.not_requested.requisites.iter().peekable();
        links.extend(page.requisites.iter().enumerate().map(|(index, (kind, url))| LinkEntry {
            url: url.into(),
            element: kind.name().into(),
            text: page.requisites.label(index).unwrap_or_default().into(),
            rejected: rejection(&mut rejected, index),
            ..LinkEntry::default()
        }));
        links.extend(page.not_requested.bad_links.iter().map(|(why, target, detail)| LinkEntry {
            url: if target.is_empty() { "a malformed URL" } else { target.as_str() }.into(),
            element: detail.kind.name().into(),
            text: detail.text.as_str().into(),
            rejected: match why {
                BadLink::Malformed => findings::MALFORMED.into(),
                why => why.to_string().into(),
            },
            ..LinkEntry::default()
        }));
        let truncated = page.truncated || page.not_requested.is_incomplete;
        let has_ids = self.options.fragments && page.media == Media::Html && !page.ids.is_incomplete;
        let ids = has_ids.then(|| page.ids.iter().map(Cow::Borrowed).collect());
        CheckRecord::Page(PageRecord { url: page.url.as_str().into(), truncated, links, ids })
    }

    /// What is recorded of the outcome of a URL.
    fn url_entry<'r>(&'r self, record: &'r UrlRecord) -> UrlEntry<'r> {
        let status = match record.outcome {
            Outcome::HttpStatus { code, .. } => Some(code),
            _ => record.request.status,
        };
        let verdict = Verdict::from_outcome(&record.outcome);
        UrlEntry {
            url: record.url().into(),
            verdict,
            crawled: record.kind() == TaskKind::Page.name(),
            status,
            reason: match (verdict, &record.outcome) {
                (Verdict::Fine | Verdict::Redirect, _) | (_, Outcome::Sitemap { .. }) => "".into(),
                (_, outcome) => verdict::reason(outcome).into(),
            },
            to: record.redirect_target().map(Cow::Borrowed),
            fragment: record.request.redirect_fragment.as_deref().map(Cow::Borrowed),
            found_on: record.found_on().map(Cow::Borrowed),
            options: self.recorded.as_str().into(),
        }
    }
}

/// Why the link with this index is not requested. Empty if it is.
fn rejection<'r>(
    rejected: &mut Peekable<impl Iterator<Item = &'r (usize, RejectReason)>>,
    index: usize,
) -> Cow<'static, str> {
    rejected.next_if(|(other, _)| *other == index).map_or("", |(_, why)| why.label()).into()
}

fn write(report: &Report, format: ReportFormat, out: &mut dyn Write) -> io::Result<()> {
    match format {
        ReportFormat::Text => text::write(report, out),
        ReportFormat::Json => json::write(report, out),
        ReportFormat::Junit => junit::write(report, out),
        ReportFormat::Markdown => markdown::write(report, out),
        ReportFormat::Html => html::write(report, out),
    }
}

#[cfg(test)]
mod tests;
