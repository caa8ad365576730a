//! Tables of measurements in the documents.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};

/// Returns the part of a page from the first mark of this name to the last one, with both. Empty if it has none.
#[must_use]
pub fn part<'a>(text: &'a str, name: &str) -> &'a str {
    let (begin, end) = marks(name);
    let part = || Some(&text[text.find(&begin)?..text.find(&end)? + end.len()]);
    part().unwrap_or_default()
}

/// Returns the lines before and after a table.
fn marks(name: &str) -> (String, String) {
    (format!("<!-- {name}: begin -->\n"), format!("<!-- {name}: end -->\n"))
}

/// Replaces the table between the marks of this name on a page.
///
/// # Errors
///
/// Fails if the page has no such marks, or cannot be written.
pub fn record(page: &str, name: &str, table: &str) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("no workspace")?;
    let (begin, end) = marks(name);
    let path = root.join(page);
    let text = fs::read_to_string(&path).with_context(|| page.to_owned())?;
    let marks = text.split_once(&begin).and_then(|(before, rest)| Some((before, rest.split_once(&end)?.1)));
    let (before, after) = marks.with_context(|| format!("{page} has no place for the table"))?;
    fs::write(&path, format!("{before}{begin}\n{table}\n{end}{after}")).with_context(|| page.to_owned())
}
