//! Finds circles of imports between the modules of a crate. Between crates there are none, since cargo refuses them.

mod circles;
mod module;
mod scan;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context as _, Result};

use self::module::Modules;
use crate::finding::Finding;

/// Checks every package below the folder `root`. Returns a shortest circle of each that has one, and the number of imports between modules.
///
/// # Errors
///
/// Fails if a file cannot be read.
pub fn check(root: &Path) -> Result<(Vec<Finding>, usize)> {
    let (mut findings, mut imports) = (Vec::new(), 0);
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name == "src" && folder.join("Cargo.toml").is_file() {
                imports += package(root, &path, &mut findings)?;
            } else if path.is_dir() && name != "target" && !name.starts_with('.') {
                folders.push(path);
            }
        }
    }
    findings.sort();
    Ok((findings, imports))
}

/// Checks a package by its folder `src`. Returns its number of imports.
fn package(root: &Path, src: &Path, findings: &mut Vec<Finding>) -> Result<usize> {
    let modules = Modules::read(root, src)?;
    let mut arrows = BTreeMap::new();
    for (from, module) in modules.modules.iter().enumerate() {
        for used in &module.scanned.used {
            if let Some(to) = modules.item(from, &used.segments).filter(|to| *to != from) {
                arrows.entry((from, to)).or_insert((&module.file, used));
            }
        }
    }
    if let Some(way) = circles::shortest(arrows.keys().copied()) {
        let steps = way.windows(2).filter_map(|step| arrows.get(&(step[0], step[1])));
        let steps = steps.map(|(file, used)| format!("{file}:{} uses `{}`", used.line, used.segments.join("::")));
        let problem = format!("circle: {}", steps.collect::<Vec<_>>().join("; "));
        findings.push(Finding { file: modules.modules[way[0]].file.clone(), line: 0, problem });
    }
    Ok(arrows.len())
}
