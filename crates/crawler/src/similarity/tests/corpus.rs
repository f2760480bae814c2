//! Generates pages to edit from frozen copies of prose and code of this project, so that the measured figures are
//! comparable between runs.

use std::fmt::Write;

/// A deterministic pseudo-random number generator.
pub struct CorpusRandom(u64);

impl CorpusRandom {
    pub fn new(seed: u64) -> Self {
        CorpusRandom(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    /// A number from 0 to 1.
    pub fn share(&mut self) -> f64 {
        self.next() as f64 / u64::MAX as f64
    }
}

const TEXTS: [(&str, &str); 14] = [
    ("callbacks", include_str!("texts/callbacks.txt")),
    ("classic", include_str!("texts/classic.txt")),
    ("media", include_str!("texts/media.txt")),
    ("scope", include_str!("texts/scope.txt")),
    ("outcome", include_str!("texts/outcome.txt")),
    ("worker", include_str!("texts/worker.txt")),
    ("pace", include_str!("texts/pace.txt")),
    ("robots", include_str!("texts/robots.txt")),
    ("rules", include_str!("texts/rules.txt")),
    ("links", include_str!("texts/links.txt")),
    ("charset", include_str!("texts/charset.txt")),
    ("join", include_str!("texts/join.txt")),
    ("download", include_str!("texts/download.txt")),
    ("decode", include_str!("texts/decode.txt")),
];

/// The pages of the site: one for each text, and many small ones, down to a few sentences.
pub fn pages() -> Vec<String> {
    let blocks: Vec<&str> = TEXTS.iter().flat_map(|(_, text)| text.split("\n\n")).collect();
    let complete = TEXTS.iter().map(|(name, text)| page(name, &text.split("\n\n").collect::<Vec<_>>()));
    let small = blocks.chunks(3).step_by(2).map(|blocks| page("part", blocks));
    complete.chain(small).collect()
}

fn page(name: &str, blocks: &[&str]) -> String {
    let mut page = format!("<!doctype html>\n<html><head><title>About {name}</title></head>\n<body><nav>\n");
    for (neighbour, _) in TEXTS.iter().step_by(5) {
        let _ = writeln!(page, "<a href=\"{neighbour}.html\">{neighbour}</a>");
    }
    page += "</nav>\n";
    for block in blocks {
        let block = htmlize::escape_text(*block);
        let first = block.split(|c: char| !c.is_alphanumeric()).find(|word| !word.is_empty()).unwrap_or("");
        let _ = writeln!(page, "<p class=\"block\">{block} <a href=\"words/{first}.html\">More</a></p>");
    }
    page + "</body></html>\n"
}

/// How a page is changed.
#[derive(Clone, Copy, Debug)]
pub enum Edit {
    /// Replaces random words and link targets.
    Scattered,
    /// Removes random words.
    Thinned,
    /// Replaces the words of one section.
    Rewritten,
    /// Removes one section.
    Cut,
    /// Inserts words into one section.
    Inserted,
}

pub const EDITS: [Edit; 5] = [Edit::Scattered, Edit::Thinned, Edit::Rewritten, Edit::Cut, Edit::Inserted];

/// The page with about this share of its shingles changed.
pub fn edited(page: &str, edit: Edit, share: f64, random: &mut CorpusRandom) -> String {
    let pieces = pieces(page);
    let count = pieces.iter().filter(|piece| piece.is_word).count();
    // How many words must change depends on the edit. A replaced word changes two shingles in both sets, a removed word
    // two in one set and one in the other, a removed section only those in one set.
    let (each, section) = match edit {
        Edit::Scattered => (share * 0.6, 0.0),
        Edit::Thinned => (share * 0.75, 0.0),
        Edit::Rewritten | Edit::Inserted => (0.0, share * 1.1),
        Edit::Cut => (0.0, share * 2.0),
    };
    let section = (section * count as f64).round() as usize;
    let start = random.below(count.saturating_sub(section));
    let mut at = 0;
    let mut result = String::with_capacity(page.len() * 2);
    for piece in pieces {
        let within = (start..start + section).contains(&at);
        at += usize::from(piece.is_word);
        let other = |random: &mut CorpusRandom| format!("n{:x}", random.next() >> 40);
        match edit {
            _ if !(piece.is_word || piece.is_target && matches!(edit, Edit::Scattered)) => {
                result += piece.text
            }
            Edit::Scattered if random.share() < each => result += &other(random),
            Edit::Thinned if random.share() < each => {}
            Edit::Rewritten if within => result += &other(random),
            Edit::Cut if within => {}
            Edit::Inserted if within => {
                result += &format!("{} {} {}", piece.text, other(random), other(random))
            }
            _ => result += piece.text,
        }
    }
    result
}

struct Piece<'p> {
    text: &'p str,
    is_word: bool,
    is_target: bool,
}

/// Splits a page into words, link targets and everything between them. Supports only the HTML of these pages.
fn pieces(page: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = page;
    while let Some(first) = rest.chars().next() {
        let (length, is_word, is_target) = match first {
            '<' => (tag_length(rest), false, false),
            '&' => (rest.find(';').map_or(rest.len(), |end| end + 1), false, false),
            _ if rest.len() < page.len() && page[..page.len() - rest.len()].ends_with("href=\"") => {
                (rest.find('"').unwrap_or(rest.len()), false, true)
            }
            _ if first == '"' => (rest.find('>').map_or(rest.len(), |end| end + 1), false, false),
            _ if first.is_alphanumeric() => {
                (rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len()), true, false)
            }
            _ => (first.len_utf8(), false, false),
        };
        pieces.push(Piece { text: &rest[..length], is_word, is_target });
        rest = &rest[length..];
    }
    pieces
}

/// The length of a tag up to its link target, if it has one.
fn tag_length(rest: &str) -> usize {
    let end = rest.find('>').map_or(rest.len(), |end| end + 1);
    rest[..end].find("href=\"").map_or(end, |target| target + "href=\"".len())
}
