//! Splits a paragraph into sentences.

/// Words whose full stop ends no sentence.
const ABBREVIATIONS: [&str; 5] = ["e.g.", "i.e.", "etc.", "cf.", "vs."];

/// The sentences of a paragraph, each with the place where it begins.
pub(super) fn sentences(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut begin = 0;
    let ends = text.match_indices(' ').filter(|(at, _)| is_end(text, *at)).map(|(at, _)| at);
    let ends: Vec<_> = ends.chain([text.len()]).collect();
    let parts = ends.into_iter().map(move |end| {
        let part = (begin, &text[begin..end]);
        begin = end;
        part
    });
    parts
        .map(|(begin, part)| (begin + part.len() - part.trim_start().len(), part.trim()))
        .filter(|(_, part)| !part.is_empty())
}

/// Whether a sentence ends before the space at `at`: behind a full stop that is not part of an abbreviation.
fn is_end(text: &str, at: usize) -> bool {
    let before = text[..at].trim_end_matches([')', '"', '”', '\'', '*', '_']);
    let word = before.rsplit(' ').next().unwrap_or_default().trim_start_matches('(');
    before.ends_with(['.', '!', '?']) && !ABBREVIATIONS.contains(&word)
}
