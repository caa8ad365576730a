//! Archives with the same bytes for the same files.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result};

use super::{source::Source, tree::Tree};
use crate::run::{self, output};

/// Packs the files of a package into one folder of an archive.
pub(super) fn build(source: &Source, tree: &Tree, archive: &Path) -> Result<()> {
    let unpacked = archive.with_extension("");
    pack(source, &tree.root, Some(&format!("ratelimit-{}", source.version)), &unpacked)?;
    compress(&unpacked)
}

/// Packs a folder. Its files get the time of the commit, and belong to root.
pub(super) fn pack(source: &Source, folder: &Path, prefix: Option<&str>, archive: &Path) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.arg("--create").arg("--file").arg(archive).arg("--directory").arg(folder);
    tar.args(["--format=gnu", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.arg(format!("--mtime=@{}", source.epoch));
    tar.args(prefix.map(|prefix| format!("--transform=s,^\\.,{prefix},")));
    run::run(tar.arg("."))
}

/// Compresses a file, which gets the ending `.gz`.
pub(super) fn compress(file: &Path) -> Result<()> {
    let _ = fs::remove_file(file.with_added_extension("gz"));
    run::run(Command::new("gzip").args(["--no-name", "--best"]).arg(file)).context("cannot compress an archive")
}

/// Returns the SHA-256 of a file.
pub(super) fn digest(file: &Path) -> Result<String> {
    let line = output(Command::new("sha256sum").arg(file))?;
    Ok(line.split(' ').next().unwrap_or_default().to_owned())
}
