//! The licence texts of the libraries in the binary.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};

use super::{binary, materials::Part, source::Source};
use crate::{run::output, target};

/// Beginnings of the names of files and folders with licences.
const NAMES: [&str; 6] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];
/// Endings of files that only begin like a licence.
const CODE: [&str; 5] = ["rs", "toml", "json", "py", "sh"];

/// Libraries whose packages have no text, and a library of the same repository that has it.
const WITHOUT: [(&str, &str); 4] =
    [("aya-ebpf", "aya"), ("aya-ebpf-bindings", "aya"), ("aya-log-ebpf", "aya"), ("tonic-prost", "tonic")];

/// Libraries under Apache-2.0, among others, without a text in any package of their repository.
const APACHE: [&str; 1] = ["maud"];
/// The text of that licence in this repository.
const APACHE_TEXT: &str = "LICENSE-APACHE";

/// Code in the binary that is no package of cargo.
const OTHERS: &str = "\
The program contains the libraries below. Their texts follow. It also contains:

the standard library of Rust and its libraries: the texts are in LICENSES-RUST.html
SQLite, within libsqlite3-sys: public domain
compiler-rt of Zig: MIT
libunwind of LLVM: Apache-2.0 WITH LLVM-exception
start files of the GNU C library: LGPL-2.1-or-later, with an exception for linked programs

";

/// Texts of the linker, from its folder.
const LINKER: [(&str, &str); 3] = [
    ("compiler-rt of Zig", "LICENSE"),
    ("libunwind of LLVM", "lib/libunwind/LICENSE.TXT"),
    ("start files of the GNU C library", "lib/libc/glibc/LICENSES"),
];

/// Returns all texts, each once, with the libraries that it belongs to.
pub(super) fn texts(parts: &[Part]) -> Result<String> {
    let mut all = OTHERS.to_owned();
    let mut texts: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for part in parts.iter().filter(|part| part.sha256.is_some()) {
        ensure!(!part.license.is_empty(), "{} names no licence in its manifest: name it here", part.name);
        let sibling = WITHOUT.iter().find(|(name, _)| *name == part.name).map(|(_, sibling)| *sibling);
        let with_text = parts.iter().find(|other| other.name == sibling.unwrap_or(&part.name));
        let folder = &with_text.with_context(|| format!("{} is not linked any more", part.name))?.folder;
        let mut found = found(folder)?;
        if APACHE.contains(&part.name.as_str()) && part.license.contains("Apache-2.0") {
            found.insert(text(&target::workspace().join(APACHE_TEXT))?);
        }
        ensure!(!found.is_empty(), "{} has no licence text: name a library of its repository that has it", part.name);
        writeln!(all, "{} {}: {}", part.name, part.version, part.license)?;
        for text in found {
            texts.entry(text).or_default().insert(&part.name);
        }
    }
    let linker = binary::linker()?;
    for (name, file) in LINKER {
        texts.entry(text(&linker.join(file))?).or_default().insert(name);
    }
    for (text, names) in texts {
        let names: Vec<_> = names.into_iter().collect();
        writeln!(all, "\n{}\n{}\n\n{}", "=".repeat(80), names.join(", "), text.trim_end())?;
    }
    Ok(all)
}

/// Returns the file with the texts of the standard library of Rust and of the libraries in it.
pub(super) fn of_rust(source: &Source) -> Result<PathBuf> {
    let sysroot = output(Command::new("rustc").current_dir(&source.root).args(["--print", "sysroot"]))?;
    Ok(Path::new(sysroot.trim()).join("share/doc/rust/COPYRIGHT-library.html"))
}

/// Returns the texts in the folder of a library, and in folders in it.
fn found(folder: &Path) -> Result<BTreeSet<String>> {
    let mut texts = BTreeSet::new();
    for entry in fs::read_dir(folder).with_context(|| format!("no sources in {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            texts.extend(found(&path)?);
        } else if is_licence(&path) {
            texts.insert(text(&path)?);
        }
    }
    Ok(texts)
}

/// Returns whether a file has the name of a licence, or is in such a folder.
fn is_licence(path: &Path) -> bool {
    let names = |part: Option<&OsStr>| {
        let name = part.unwrap_or_default().to_string_lossy().to_uppercase();
        NAMES.iter().any(|begin| name.starts_with(begin))
    };
    let is_code = path.extension().is_some_and(|ending| CODE.iter().any(|code| ending == *code));
    !is_code && (names(path.file_name()) || path.parent().is_some_and(|folder| folder.ends_with("LICENSES")))
}

fn text(path: &Path) -> Result<String> {
    let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(String::from_utf8_lossy(&text).replace('\r', ""))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::is_licence;

    #[test]
    fn licences_have_names_or_folders() {
        for path in ["a/LICENSE", "a/license-mit.txt", "a/COPYING.md", "a/LICENSES/MIT.txt"] {
            assert!(is_licence(Path::new(path)), "{path}");
        }
        for path in ["a/src/license.rs", "a/README.md", "a/licenses.toml"] {
            assert!(!is_licence(Path::new(path)), "{path}");
        }
    }
}
