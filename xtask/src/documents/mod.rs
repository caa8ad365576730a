//! Checks the documents: line length, length of sentences, links, and commands.
//!
//! The linters rumdl and lychee check only lines and links, and rumdl adds 190 crates to every build of the chores. So
//! pulldown-cmark reads the pages, and each rule is one short file.

pub mod commands;
pub mod console;
mod html;
mod lines;
mod links;
pub mod page;
mod sentences;
mod split;
#[cfg(test)]
mod tests;

use std::{fs, path::Path};

use anyhow::{Context as _, Result};

use self::{commands::Accepts, page::Page};
use crate::finding::Finding;

/// The pages beside `docs/*.md`.
const PAGES: [&str; 5] = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"];

/// Reads every document of the workspace in `root`.
///
/// # Errors
///
/// Fails if one of them cannot be read.
pub fn pages(root: &Path) -> Result<Vec<Page>> {
    let mut names: Vec<_> = PAGES.map(str::to_owned).into();
    for entry in fs::read_dir(root.join("docs")).context("cannot list docs")? {
        let name = entry?.file_name().into_string().unwrap_or_default();
        names.extend(name.ends_with(".md").then(|| format!("docs/{name}")));
    }
    names.sort();
    names.iter().map(|name| Page::read(root, name)).collect()
}

/// Finds everything that is wrong in the documents. `accepts` parses the words behind `cargo xtask`.
///
/// # Errors
///
/// Fails if a document cannot be read.
pub fn check(root: &Path, accepts: Accepts<'_>) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for page in pages(root)? {
        findings.extend(lines::check(&page));
        findings.extend(sentences::check(&page));
        findings.extend(links::check(root, &page));
        findings.extend(commands::check_prompts(&page));
        findings.extend(commands::check(&page, "cargo xtask", accepts));
    }
    findings.sort();
    Ok(findings)
}
