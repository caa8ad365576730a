//! The examples in the documents: each command is accepted, each configuration file is good, and what can run here
//! runs.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod commands;
mod configuration;
mod examples;
mod under_attack;

use std::path::{Path, PathBuf};

use xtask::documents::{self, page::Page};

/// Root of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("")
}

/// All documents.
fn pages() -> Vec<Page> {
    documents::pages(&root()).unwrap()
}

/// Fails with all findings, one in each line.
fn assert_none(findings: &[String]) {
    assert!(findings.is_empty(), "{} findings:\n{}", findings.len(), findings.join("\n"));
}
