//! The rule for sentences: none has more words than can be read at once.

use crate::finding::Finding;

use super::page::Page;

/// The most words of a sentence.
pub(super) const MOST_WORDS: usize = 30;
/// Words that a finding shows.
const SHOWN: usize = 6;

/// Finds the sentences that are too long.
pub(super) fn check(page: &Page) -> Vec<Finding> {
    let mut findings = Vec::new();
    for sentence in &page.sentences {
        let words = words(&sentence.text);
        if words > MOST_WORDS {
            let begin: Vec<_> = sentence.text.split(' ').take(SHOWN).collect();
            findings.push(Finding {
                file: page.name.clone(),
                line: sentence.line,
                problem: format!(
                    "{words} words in a sentence; at most {MOST_WORDS} are allowed: {} …",
                    begin.join(" ")
                ),
            });
        }
    }
    findings
}

/// Number of words; marks such as a dash are none.
fn words(text: &str) -> usize {
    text.split(' ').filter(|word| word.contains(char::is_alphanumeric)).count()
}
