//! A report as sections of figures, charts and tables, before it is written as HTML or Markdown.

use super::content::StructureNode;

/// The report.
pub struct Document<'c> {
    pub title: String,
    /// What it is about, in one line.
    pub subject: Vec<Cell>,
    pub facts: Vec<(&'static str, String)>,
    pub sections: Vec<Section<'c>>,
    /// Who wrote it, and when.
    pub footer: String,
}

/// A section with a heading.
pub struct Section<'c> {
    pub id: &'static str,
    pub title: &'static str,
    pub blocks: Vec<Block<'c>>,
}

/// A part of a section.
pub enum Block<'c> {
    /// A sentence or two.
    Text(String),
    /// A sentence that the reader must not miss.
    Warning(String),
    /// The numbers that matter most.
    Figures(Vec<Figure>),
    /// Parts of a whole.
    Shares(Vec<Share>),
    /// Names and values.
    Pairs(Vec<(String, Vec<Cell>)>),
    /// Charts that stand next to each other.
    Charts(Vec<Chart>),
    Table(Table),
    Structure(&'c StructureNode),
}

/// What a value means, as a colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Plain,
    Good,
    Info,
    Warn,
    Bad,
    Rest,
}

/// A number that matters.
pub struct Figure {
    pub name: &'static str,
    pub value: String,
    pub detail: String,
    pub tone: Tone,
}

/// A part of a whole.
pub struct Share {
    pub name: &'static str,
    pub count: u64,
    pub tone: Tone,
}

/// A picture of numbers.
pub struct Chart {
    pub title: String,
    /// What the numbers say, in one sentence; may be empty.
    pub note: String,
    pub numbers: Numbers,
}

/// What a chart shows.
pub enum Numbers {
    Series(Series),
    Bars(Vec<Bar>),
    Columns(Columns),
}

/// A quantity over time.
pub struct Series {
    /// Seconds since the start, and values.
    pub points: Vec<(f64, f64)>,
    /// The length of the time axis in seconds.
    pub seconds: f64,
    pub format: fn(f64) -> String,
    pub tone: Tone,
}

/// A row of a bar chart.
pub struct Bar {
    pub label: String,
    pub value: f64,
    pub text: String,
    pub tone: Tone,
    /// A value to compare with, which is drawn as a mark.
    pub mark: Option<f64>,
    /// The value of a full bar, if that is not the largest value.
    pub full: Option<f64>,
}

/// A histogram, or counts by a number.
pub struct Columns {
    pub columns: Vec<Column>,
    /// What the labels below the columns are.
    pub axis: &'static str,
}

/// A column of a histogram.
pub struct Column {
    /// Below the column.
    pub label: String,
    /// What it counts.
    pub range: String,
    pub count: u64,
}

/// A table, of which browsers can sort and filter the rows.
pub struct Table {
    pub id: &'static str,
    /// What its rows are, as a noun: `failed URL`.
    pub noun: &'static str,
    pub columns: Vec<Heading>,
    pub rows: Vec<Vec<Cell>>,
    /// How many rows there would be.
    pub total: u64,
    /// The column whose values a reader can choose from.
    pub choice: Option<usize>,
}

/// The head of a column.
pub struct Heading {
    pub name: &'static str,
    pub is_numeric: bool,
    pub width: Width,
}

/// How much of a table a column takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    Wide,
    Medium,
    Narrow,
    /// As much as a date and a time need in two lines.
    Time,
}

/// A value in a table.
pub enum Cell {
    None,
    /// Words of this program.
    Text(String),
    /// Words that may be from the web.
    Foreign(String),
    /// A number, and the text that shows it.
    Number(f64, String),
    /// A URL, which becomes a link.
    Url(String),
    /// The first of several URLs, and how many there are.
    Urls(Vec<String>, u64),
}

impl Heading {
    pub fn wide(name: &'static str) -> Heading {
        Heading { name, is_numeric: false, width: Width::Wide }
    }

    pub fn text(name: &'static str) -> Heading {
        Heading { name, is_numeric: false, width: Width::Medium }
    }

    pub fn short(name: &'static str) -> Heading {
        Heading { name, is_numeric: false, width: Width::Narrow }
    }

    pub fn time(name: &'static str) -> Heading {
        Heading { name, is_numeric: false, width: Width::Time }
    }

    pub fn number(name: &'static str) -> Heading {
        Heading { name, is_numeric: true, width: Width::Narrow }
    }
}

impl Section<'_> {
    /// A section without content.
    pub fn new(id: &'static str, title: &'static str) -> Self {
        Section { id, title, blocks: Vec::new() }
    }

    /// Adds a sentence.
    pub fn say(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Text(text.into()));
    }

    /// Adds charts, if there are any.
    pub fn draw(&mut self, charts: Vec<Chart>) {
        if !charts.is_empty() {
            self.blocks.push(Block::Charts(charts));
        }
    }
}
