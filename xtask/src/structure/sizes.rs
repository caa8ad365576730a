//! Checks the sizes of files and folders, and that each folder says what it is for.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use crate::finding::Finding;

/// The most `.rs` files that are directly in one folder.
pub(super) const MOST_FILES: usize = 15;
/// The most lines of a file.
pub(super) const MOST_LINES: usize = 300;
/// The most lines of a file that runs in the kernel.
pub(super) const MOST_KERNEL_LINES: usize = 150;

/// Checks all `.rs` files below `folder`, which `root` has.
pub(super) fn check(root: &Path, folder: &str, most_lines: usize) -> Result<Vec<Finding>> {
    let mut folders: BTreeMap<PathBuf, Vec<PathBuf>> = BTreeMap::new();
    collect(&root.join(folder), &mut folders)?;
    let mut findings = Vec::new();
    for (folder, files) in &folders {
        if files.len() > MOST_FILES {
            let problem = format!("{} files directly in this folder; at most {MOST_FILES} are allowed", files.len());
            findings.push(finding(root, folder, 0, problem));
        }
        if let Some(owner) = owner(folder)
            && !first_line(&owner)?.starts_with("//!")
        {
            let problem =
                "the file of a folder must begin with a `//!` comment that says what belongs there".to_owned();
            findings.push(finding(root, &owner, 1, problem));
        }
        for file in files {
            let lines = read(file)?.lines().count();
            if lines > most_lines {
                findings.push(finding(root, file, lines, format!("{lines} lines; at most {most_lines} are allowed")));
            }
        }
    }
    Ok(findings)
}

/// Groups the `.rs` files by their folder. Nested packages are checked by themselves.
pub(super) fn collect(folder: &Path, folders: &mut BTreeMap<PathBuf, Vec<PathBuf>>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") && !path.join("Cargo.toml").is_file() {
                collect(&path, folders)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            folders.entry(folder.to_owned()).or_default().push(path);
        }
    }
    folders.values_mut().for_each(|files| files.sort());
    Ok(())
}

/// The file that stands for a folder: in it, or beside it with its name. A folder of several crates has none.
fn owner(folder: &Path) -> Option<PathBuf> {
    let inside = ["mod.rs", "lib.rs", "main.rs"].map(|name| folder.join(name));
    inside.into_iter().chain([folder.with_extension("rs")]).find(|path| path.is_file())
}

fn first_line(path: &Path) -> Result<String> {
    Ok(read(path)?.lines().next().unwrap_or_default().to_owned())
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn finding(root: &Path, path: &Path, line: usize, problem: String) -> Finding {
    let file = path.strip_prefix(root).unwrap_or(path).display().to_string();
    Finding { file, line, problem }
}
