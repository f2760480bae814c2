//! The report of a link check as JUnit XML, which continuous integration servers show: a failed test for each broken URL, a
//! skipped one for each URL that was not checked, and a passed one for all others.

use std::io::{self, Write};

use super::report::{Finding, Report};
use crate::format::number;
use crate::modules::markup::escaped;

pub(super) fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let Report { broken, not_checked, counts, gaps, .. } = report;
    let errors = usize::from(!gaps.is_empty());
    let tests = broken.len() + not_checked.len() + errors + 1;
    let attributes = format!(r#"name="links" tests="{tests}" failures="{}" errors="{errors}""#, broken.len());
    writeln!(out, r#"<?xml version="1.0" encoding="UTF-8"?>"#)?;
    writeln!(out, "<testsuites {attributes}>")?;
    writeln!(out, r#"  <testsuite {attributes} skipped="{}">"#, not_checked.len())?;
    for finding in broken {
        let message = escaped(&finding.words());
        write_test(
            out,
            finding,
            &format!(r#"failure type="{}" message="{message}""#, finding.verdict),
            "failure",
        )?;
    }
    for finding in not_checked {
        let message = escaped(&finding.words());
        write_test(out, finding, &format!(r#"skipped message="{message}""#), "skipped")?;
    }
    if errors > 0 {
        writeln!(out, r#"    <testcase classname="links" name="the check is complete">"#)?;
        writeln!(out, r#"      <error type="incomplete" message="{}"/>"#, escaped(&gaps.join("; ")))?;
        writeln!(out, "    </testcase>")?;
    }
    writeln!(out, r#"    <testcase classname="links" name="all other links"/>"#)?;
    writeln!(out, "    <system-out>{}</system-out>", escaped(&counts.to_string()))?;
    writeln!(out, "  </testsuite>\n</testsuites>")
}

fn write_test(out: &mut dyn Write, finding: &Finding, element: &str, name: &str) -> io::Result<()> {
    writeln!(out, r#"    <testcase classname="links" name="{}">"#, escaped(&finding.url))?;
    write!(out, "      <{element}>{}", escaped(&finding.linked_from()))?;
    for reference in &finding.references {
        write!(out, "\n{}  {}", escaped(&reference.page), escaped(&reference.label()))?;
    }
    if finding.unlisted() > 0 {
        write!(out, "\n… and {} more", number(finding.unlisted()))?;
    }
    writeln!(out, "</{name}>\n    </testcase>")
}
