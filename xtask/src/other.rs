//! Builds a second version of the product, whose map entries have another layout. Tests upgrade from and to it.

use std::{fs, path::Path};

use anyhow::{Context as _, Result, ensure};

use crate::{run, target};

/// Files and folders of the build.
const PARTS: [&str; 7] = [
    "Cargo.toml",
    "Cargo.lock",
    "LICENSE-GPL",
    "ratelimit-build",
    "ratelimit-common",
    "ratelimit-ebpf",
    "ratelimit-user",
];

/// Changes of the second version: the file, its text, the new text.
const CHANGES: [(&str, &str, &str); 10] = [
    // Cargo distinguishes the packages by their version.
    ("Cargo.toml", "version = \"0.1.0\"", "version = \"0.1.1\""),
    ("Cargo.toml", "    \"tests\",\n    \"tests/kernel\",\n    \"xtask\",\n", ""),
    ("ratelimit-user/Cargo.toml", "[[bin]]\nname = \"ratelimit\"", "[[bin]]\nname = \"ratelimit-other\""),
    ("ratelimit-common/src/control.rs", "pub const ABI_VERSION: u32 = ", "pub const ABI_VERSION: u32 = 1_000 + "),
    ("ratelimit-build/src/object_file.rs", ".join(\"kernel\")", ".join(\"kernel-other\")"),
    // In a rule, the expiry comes first. In a bucket, the resolution comes first.
    (
        "ratelimit-common/src/rule.rs",
        "pub struct Rule {\n",
        "pub struct Rule {\n    /// As below.\n    pub expires: u64,\n",
    ),
    (
        "ratelimit-common/src/rule.rs",
        "    pub reserved: u16,\n    /// Nanoseconds of the monotonic clock from which on the rule does not count; [`NEVER`] if it stays.\n    pub expires: u64,\n",
        "    pub reserved: u16,\n",
    ),
    (
        "ratelimit-common/src/bucket.rs",
        "    pub packets: u64,\n    /// State of the limit of bytes, or of a second one of packets.\n    pub second: u64,\n    /// The policy that was resolved. See [`Resolution`].\n    pub resolution: u64,\n",
        "    pub resolution: u64,\n    /// As above.\n    pub packets: u64,\n    /// As above.\n    pub second: u64,\n",
    ),
    (
        "ratelimit-ebpf/src/bucket.rs",
        "    pub packets: Word,\n    /// State of the second limit, of bytes or packets.\n    pub second: Word,\n    /// See [`ratelimit_common::buckets::bucket::Resolution`].\n    pub resolution: Word,\n",
        "    pub resolution: Word,\n    /// As above.\n    pub packets: Word,\n    /// As above.\n    pub second: Word,\n",
    ),
    // A control entry grows.
    (
        "ratelimit-common/src/control.rs",
        "    /// Zero.\n    pub reserved: u32,\n}\nboundary!(Control, size 216);",
        "    /// Zero.\n    pub reserved: u32,\n    /// Zero.\n    pub more: u64,\n}\nboundary!(Control, size 224);",
    ),
];

/// Builds the second version beside the product, as `ratelimit-other`. Cargo must have fetched all crates before.
pub(crate) fn build() -> Result<()> {
    let folder = target::folder("other")?;
    for part in PARTS {
        copy(Path::new(part), &folder.join(part))?;
    }
    let mut cargo = run::cargo();
    // Not locked: cargo removes from its Cargo.lock the crates that only tests need.
    cargo.args(["build", "--offline", "--quiet", "--package", "ratelimit-user"]);
    cargo.arg("--target-dir").arg(folder.with_file_name(""));
    run::run(cargo.arg("--manifest-path").arg(folder.join("Cargo.toml")))
}

/// Copies a file or a folder with the changes. Files that stay the same are not written, so that cargo does not rebuild them.
fn copy(from: &Path, to: &Path) -> Result<()> {
    if from.is_dir() {
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let name = entry?.file_name();
            copy(&from.join(&name), &to.join(&name))?;
        }
        return Ok(());
    }
    let mut text = fs::read_to_string(from).with_context(|| from.display().to_string())?;
    for (_, has, gets) in CHANGES.iter().filter(|(file, ..)| Path::new(file) == from) {
        ensure!(text.contains(has), "{} has changed: xtask/src/other.rs must follow", from.display());
        text = text.replacen(has, gets, 1);
    }
    if fs::read_to_string(to).ok().as_ref() != Some(&text) {
        fs::write(to, text)?;
    }
    Ok(())
}
