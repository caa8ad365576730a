//! The structure of this workspace: no circle of imports between the modules of a crate.

use std::path::Path;

use xtask::structure::check;

#[test]
fn the_workspace_has_no_circle() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("");
    let (findings, imports) = check(&root).unwrap();
    assert!(imports > 1_000, "only {imports} imports were found");
    let findings: Vec<_> = findings.iter().map(ToString::to_string).collect();
    assert!(findings.is_empty(), "{} findings:\n{}", findings.len(), findings.join("\n"));
}
