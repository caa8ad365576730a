//! The rule for lines: what can be wrapped is wrapped.

use crate::finding::Finding;

use super::page::Page;

/// The most columns of a line.
pub(super) const MOST_COLUMNS: usize = 120;

/// Finds the lines that are too long. Tables, code blocks and link definitions cannot be wrapped.
pub(super) fn check(page: &Page) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, text) in (1..).zip(page.text.lines()) {
        let columns = text.chars().count();
        if columns > MOST_COLUMNS && !page.fixed_lines.contains(&line) {
            let problem = format!("{columns} columns; at most {MOST_COLUMNS} are allowed");
            findings.push(Finding { file: page.name.clone(), line, problem });
        }
    }
    findings
}
