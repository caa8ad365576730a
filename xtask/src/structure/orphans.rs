//! Finds files below `src` that no module declares, so that cargo never compiles them.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context as _, Result};

use super::{load, module::Package, sizes};
use crate::finding::Finding;

/// Compares the `.rs` files below `src` of the package in `folder` with those that its modules declare.
pub(super) fn of(root: &Path, folder: &str, package: &Package) -> Result<Vec<Finding>> {
    let folder = root.join(folder);
    let script = load::shown(root, &folder.join(build_script(&folder)?));
    let mut folders = BTreeMap::new();
    sizes::collect(&folder.join("src"), &mut folders)?;
    let files = folders.values().flatten().map(|file| load::shown(root, file));
    let orphans = files
        .filter(|file| *file != script && !package.files.contains(file) && !package.test_files.contains(file))
        .map(|file| Finding { file, line: 0, problem: "no module declares this file".to_owned() });
    Ok(orphans.collect())
}

/// The package's build script, from its folder.
fn build_script(folder: &Path) -> Result<String> {
    let path = folder.join("Cargo.toml");
    let manifest = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let manifest: toml::Table = manifest.parse().with_context(|| format!("cannot parse {}", path.display()))?;
    let script = manifest.get("package").and_then(|package| package.get("build")?.as_str());
    Ok(script.unwrap_or("build.rs").to_owned())
}
