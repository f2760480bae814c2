//! The scanner finds the same links, text and titles as html5ever: in nested SVG, MathML and templates, and in documents
//! of pieces of markup.
#![no_main]

#[path = "../../crates/crawler/tests/html5ever/comparison.rs"]
mod comparison;
#[path = "../../crates/crawler/tests/html5ever/documents.rs"]
mod documents;

use documents::PIECES;
use libfuzzer_sys::fuzz_target;

// The first byte selects the kind of document, the others determine its content.
fuzz_target!(|input: &[u8]| match input {
    [] => {}
    [kind, bytes @ ..] if kind % 2 == 0 => {
        comparison::assert_same_if_guessed_right(&documents::nested_document(bytes));
    }
    [_, bytes @ ..] => {
        let pieces = bytes.iter().map(|byte| PIECES[usize::from(*byte) % PIECES.len()]);
        comparison::assert_same(&pieces.collect::<String>());
    }
});
