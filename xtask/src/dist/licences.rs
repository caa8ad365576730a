//! The licence texts of the libraries in the binary.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
};

use anyhow::{Context as _, Result};

use super::materials::Part;

/// Beginnings of the names of files with licences.
const NAMES: [&str; 6] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];

/// Code in the binary that is no package of cargo.
const OTHERS: &str = "\
The program contains the libraries below. Their texts follow. It also contains:

the standard library of Rust: MIT OR Apache-2.0
SQLite, within libsqlite3-sys: public domain
compiler-rt of Zig: MIT
libunwind of LLVM: Apache-2.0 WITH LLVM-exception

";

/// Returns all texts, each once, with the libraries that it belongs to.
pub(super) fn texts(parts: &[Part]) -> Result<String> {
    let mut all = OTHERS.to_owned();
    let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for part in parts.iter().filter(|part| part.sha256.is_some()) {
        let found = found(part)?;
        let remark = if found.is_empty() { " (its package has no text)" } else { "" };
        writeln!(all, "{} {}: {}{remark}", part.name, part.version, part.license)?;
        for text in found {
            texts.entry(text).or_default().insert(part.name.clone());
        }
    }
    for (text, names) in texts {
        let names: Vec<_> = names.into_iter().collect();
        writeln!(all, "\n{}\n{}\n\n{}", "=".repeat(80), names.join(", "), text.trim_end())?;
    }
    Ok(all)
}

/// Returns the texts in the folder of a library.
fn found(part: &Part) -> Result<BTreeSet<String>> {
    let mut texts = BTreeSet::new();
    for entry in fs::read_dir(&part.folder).with_context(|| format!("no sources of {}", part.name))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_uppercase();
        if NAMES.iter().any(|begin| name.starts_with(begin)) && entry.file_type()?.is_file() {
            let text = fs::read(entry.path()).with_context(|| format!("cannot read {}", entry.path().display()))?;
            texts.insert(String::from_utf8_lossy(&text).replace('\r', ""));
        }
    }
    Ok(texts)
}
