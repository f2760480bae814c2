//! Writes the manual pages: `crawler man DIR`, for `make install`.

use std::fs;
use std::path::Path;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::args::definition;
use crate::printable::print_error;
use crate::{EXIT_FAILED, EXIT_USAGE};

/// The sections that follow the options, in the usual order. Other parts of the help belong to the description.
const LAST_SECTIONS: [&str; 4] = ["Exit status", ENVIRONMENT, "Examples", "Example"];

const ENVIRONMENT: &str = "Environment";

/// The variables that every configurable command has.
const VARIABLES: &str = "  CRAWLER_CONFIG  default of --config
  CRAWLER_OPTION  value of an option, such as CRAWLER_MAX_PAGES for --max-pages";

const FILES: &str =
    "  FILE of --config  options in TOML; see crawler-config(1). No file is read unless an option names it";

/// Writes a page per command to the directory, and returns the exit status.
pub fn run(directory: &Path) -> u8 {
    if !directory.is_dir() {
        print_error(&format!("cannot write to '{}': not an existing directory", directory.display()));
        return EXIT_USAGE;
    }
    let mut grammar = definition().disable_help_subcommand(true);
    grammar.build();
    let commands = grammar.get_subcommands().filter(|command| !command.is_hide_set());
    for command in std::iter::once(&grammar).chain(commands) {
        let name = file_name(&grammar, command);
        if let Err(error) = page(&grammar, command).and_then(|page| fs::write(directory.join(&name), page)) {
            print_error(&format!("cannot write {name} to '{}': {error}", directory.display()));
            return EXIT_FAILED;
        }
    }
    0
}

fn page_name(grammar: &Command, command: &Command) -> String {
    match command.get_name() == grammar.get_name() {
        true => grammar.get_name().to_owned(),
        false => format!("{}-{}", grammar.get_name(), command.get_name()),
    }
}

fn file_name(grammar: &Command, command: &Command) -> String {
    page_name(grammar, command) + ".1"
}

fn page(grammar: &Command, command: &Command) -> std::io::Result<Vec<u8>> {
    let name = page_name(grammar, command);
    let title = name.to_uppercase();
    let version = grammar.get_version().unwrap_or_default();
    let man =
        Man::new(command.clone()).title(title).source(format!("crawler {version}")).manual("User Commands");
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let (last, described): (Vec<Section>, Vec<Section>) =
        sections(&help).into_iter().partition(|section| LAST_SECTIONS.contains(&section.title));
    let mut page = Vec::new();
    // By hand, because `Roff` leaves out an argument that is empty: the date.
    let title = name.to_uppercase();
    page.extend(format!(".TH {title} 1 \"\" \"crawler {version}\" \"User Commands\"\n").into_bytes());
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    let mut text = Roff::new();
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    text.control("SH", ["DESCRIPTION"]).text([roman(format!("{about}."))]);
    described.iter().for_each(|section| section.render("SS", &mut text));
    text.to_writer(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    let mut text = Roff::new();
    let is_configurable = command.get_arguments().any(|option| option.get_id() == "config");
    for title in LAST_SECTIONS {
        let mut section = Section { title, lines: Vec::new() };
        section.lines.extend(last.iter().filter(|own| own.title == title).flat_map(|own| &own.lines));
        let is_environment = title == ENVIRONMENT && is_configurable;
        section.lines.extend(VARIABLES.lines().filter(|_| is_environment));
        if !section.lines.is_empty() {
            section.render("SH", &mut text);
        }
        if is_environment {
            Section { title: "Files", lines: FILES.lines().collect() }.render("SH", &mut text);
        }
    }
    see_also(grammar, command, &mut text);
    text.to_writer(&mut page)?;
    Ok(page)
}

fn see_also(grammar: &Command, command: &Command, text: &mut Roff) {
    let related = match command.get_name() == grammar.get_name() {
        true => vec!["crawler-crawl", "crawler-config", "crawler-demo"],
        false => vec!["crawler", "crawler-config"],
    };
    let own = page_name(grammar, command);
    let mut names = Vec::new();
    for name in related.into_iter().filter(|name| *name != own) {
        if !names.is_empty() {
            names.push(roman(", "));
        }
        names.extend([bold(name), roman("(1)")]);
    }
    text.control("SH", ["SEE ALSO"]).text(names);
}

/// A part of the text after the options.
struct Section<'a> {
    /// Empty for a paragraph.
    title: &'a str,
    lines: Vec<&'a str>,
}

/// The parts of a help text: a line that ends with a colon is the title of the indented lines below it.
fn sections(help: &str) -> Vec<Section<'_>> {
    let mut sections: Vec<Section> = Vec::new();
    let mut lines = help.lines().peekable();
    let mut is_new = true;
    while let Some(line) = lines.next() {
        let title =
            line.strip_suffix(':').filter(|_| lines.peek().is_some_and(|next| next.starts_with("  ")));
        if let Some(title) = title.filter(|title| is_new && !title.contains(". ")) {
            sections.push(Section { title, lines: Vec::new() });
            is_new = false;
            continue;
        }
        if line.is_empty() {
            is_new = true;
            continue;
        }
        match sections.last_mut() {
            Some(section) if !is_new => section.lines.push(line),
            _ => sections.push(Section { title: "", lines: vec![line] }),
        }
        is_new = false;
    }
    sections
}

impl Section<'_> {
    /// Renders a title, terms with their descriptions, examples and paragraphs.
    fn render(&self, heading: &str, text: &mut Roff) {
        match self.title {
            "" => text.control("PP", []),
            title if heading == "SH" => text.control(heading, [title.to_uppercase().as_str()]),
            title => text.control(heading, [title]),
        };
        let mut layout = Layout::Paragraph;
        for line in &self.lines {
            let indented = line.strip_prefix("  ").filter(|line| !line.starts_with(' '));
            match (indented, indented.and_then(|line| line.split_once("  "))) {
                (_, Some((term, description))) => {
                    layout.change_to(Layout::List, text);
                    text.control("TP", []).text([bold(term)]).text([roman(description.trim())]);
                }
                (Some(example), None) => {
                    layout.change_to(Layout::Example, text);
                    text.text([roman(example)]);
                }
                (None, None) => {
                    // A line that is indented more continues a description.
                    if !line.starts_with(' ') {
                        layout.change_to(Layout::Paragraph, text);
                    }
                    text.text([roman(line.trim())]);
                }
            }
        }
        if layout == Layout::Example {
            layout.change_to(Layout::Paragraph, text);
        }
    }
}

/// How lines are set.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    Paragraph,
    /// Terms with descriptions.
    List,
    /// Indented lines that are not filled.
    Example,
}

impl Layout {
    fn change_to(&mut self, next: Layout, text: &mut Roff) {
        match (*self, next) {
            (old, new) if old == new => return,
            (Layout::Example, _) => drop(text.control("fi", []).control("RE", [])),
            (Layout::List, Layout::Paragraph) => drop(text.control("PP", [])),
            _ => {}
        }
        if next == Layout::Example {
            text.control("RS", ["4"]).control("nf", []);
        }
        *self = next;
    }
}
