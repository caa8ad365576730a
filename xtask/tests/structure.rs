//! The structure of this workspace: imports follow the order in `rooms.toml`, without a circle, and no file or folder
//! is too large.
//!
//! `cargo xtask structure` prints the same findings, and the imports between the rooms.

use std::path::Path;

use xtask::structure::check;

#[test]
fn the_workspace_has_no_circle_no_upward_arrow_and_no_crowded_folder() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("");
    let report = check(&root).unwrap_or_else(|error| panic!("{error:#}"));
    assert!(report.graphs.iter().all(|graph| graph.files > 0), "a crate has no file");
    let findings: Vec<_> = report.findings.iter().map(ToString::to_string).collect();
    assert!(findings.is_empty(), "{} findings:\n{}", findings.len(), findings.join("\n"));
}
