//! Builds a second version of the product: its map entries have another layout, and its maps and fields have old names.
//! Tests upgrade from and to it.

use std::{fs, path::Path};

use anyhow::{Context as _, Result, ensure};
use ratelimit_common::maps::renamed::{RENAMED_FIELDS, RENAMED_MAPS};

use crate::{run, target};

/// The file of exact versions, on which the build of the kernel side depends.
const LOCK: &str = "Cargo.lock";

/// Files and folders of the build.
const PARTS: [&str; 8] = [
    "Cargo.toml",
    LOCK,
    "LICENSE-GPL",
    "crates",
    "ratelimit-build",
    "ratelimit-common",
    "ratelimit-ebpf",
    "ratelimit-user",
];

/// Packages that the build needs no sources of. With their dependencies, and with a test, cargo chooses the same features for
/// libraries as for the tests of the product, and builds no library twice.
const WITHOUT_SOURCES: [&str; 6] = ["tests", "tests/bench", "tests/demo", "tests/kernel", "tests/sandbox", "xtask"];

/// A test program without tests.
const NO_TESTS: &str = "no-tests";

/// Changes of text: the file or folder, its text, the new text. Each must apply to one file.
const TEXTS: [(&str, &str, &str); 6] = [
    // Cargo distinguishes the packages by their version.
    ("Cargo.toml", "version = \"0.1.0\"", "version = \"0.1.1\""),
    ("ratelimit-user/Cargo.toml", "[[bin]]\nname = \"ratelimit\"", "[[bin]]\nname = \"ratelimit-other\""),
    ("ratelimit-common/src", "pub const ABI_VERSION: u32 = ", "pub const ABI_VERSION: u32 = 1_000 + "),
    ("ratelimit-build/src/object_file.rs", ".join(\"kernel\")", ".join(\"kernel-other\")"),
    // A control entry grows.
    ("ratelimit-common/src", "    pub seal: u32,\n", "    pub seal: u32,\n    /// Zero.\n    pub more: u64,\n"),
    ("ratelimit-common/src", "boundary!(Control, size 304)", "boundary!(Control, size 312)"),
];

/// Fields that come first in their structure: the file or folder, and the field.
const FIRST: [(&str, &str); 3] = [
    ("ratelimit-common/src/rules/rule.rs", "    pub expires: u64,"),
    ("ratelimit-common/src", "    pub resolution: u64,"),
    ("ratelimit-ebpf/src", "    pub resolution: Word,"),
];

/// Fields that have their old names. These words mean nothing else in the sources.
const OLD_FIELDS: [&str; 4] = ["unknown_batch", "unknown_left", "unknown_until", "unknown_passed"];

/// The file that says which names are old.
const NAMES: &str = "renamed.rs";

/// Builds the second version beside the product, as `ratelimit-other`. Cargo must have fetched all crates before.
pub(crate) fn build() -> Result<()> {
    let folder = target::folder("other")?;
    let mut files = Vec::new();
    for part in PARTS {
        read(Path::new(part), &mut files)?;
    }
    change(&mut files)?;
    for package in WITHOUT_SOURCES {
        let manifest = format!("{package}/Cargo.toml");
        let text = fs::read_to_string(&manifest).context(manifest.clone())?;
        files.extend([(manifest, without_programs(&text)), (format!("{package}/src/lib.rs"), String::new())]);
    }
    files.push((format!("tests/tests/{NO_TESTS}.rs"), String::new()));
    remove_others(&folder, &files)?;
    for (path, text) in &files {
        let to = folder.join(path);
        fs::create_dir_all(to.parent().context("no folder")?)?;
        // Cargo removes from its Cargo.lock what only tests need, so a copy tells whether ours has changed.
        let copy = if path == LOCK { to.with_extension("copy") } else { to.clone() };
        // Files that stay the same are not written, so that cargo does not rebuild them.
        if fs::read_to_string(&copy).ok().as_ref() != Some(text) {
            fs::write(to, text)?;
            fs::write(copy, text)?;
        }
    }
    let mut cargo = run::cargo();
    // Nobody needs lints of these sources.
    cargo.env_remove(run::WRAPPER);
    // Not locked, as it changes its Cargo.lock.
    cargo.args(["build", "--offline", "--quiet", "--workspace", "--bin", "ratelimit-other", "--test", NO_TESTS]);
    cargo.arg("--target-dir").arg(folder.with_file_name(""));
    run::run(cargo.arg("--manifest-path").arg(folder.join("Cargo.toml")))
}

/// Removes the files of an earlier build that the product has no more.
fn remove_others(folder: &Path, files: &Files) -> Result<()> {
    let mut found = Vec::new();
    for part in PARTS.map(|part| folder.join(part)).iter().filter(|part| part.exists()) {
        read(part, &mut found)?;
    }
    let stays = |path: &Path| files.iter().any(|(file, _)| path == folder.join(file));
    found.iter().map(|(path, _)| Path::new(path)).filter(|path| !stays(path)).try_for_each(fs::remove_file)?;
    Ok(())
}

/// Removes the programs from a manifest.
fn without_programs(manifest: &str) -> String {
    let (before, after) = manifest.split_once("[[bin]]").unwrap_or((manifest, ""));
    let rest = after.find("[dependencies]").map_or("", |end| &after[end..]);
    format!("{before}{rest}")
}

/// Paths with their texts.
type Files = Vec<(String, String)>;

/// Reads a file, or all files in a folder.
fn read(from: &Path, files: &mut Files) -> Result<()> {
    if !from.is_dir() {
        let path = from.display().to_string();
        let text = fs::read_to_string(from).context(path.clone())?;
        files.push((path, text));
        return Ok(());
    }
    for entry in fs::read_dir(from)? {
        read(&from.join(entry?.file_name()), files)?;
    }
    Ok(())
}

/// Makes the second version of the product's files.
fn change(files: &mut Files) -> Result<()> {
    for (place, has, gets) in TEXTS {
        once(files, place, has, |text| text.replacen(has, gets, 1))?;
    }
    for (place, field) in FIRST {
        once(files, place, &format!("{field}\n"), |text| with_first(text, field))?;
    }
    for (old, new) in RENAMED_MAPS {
        let (has, gets) = (format!(": &str = \"{new}\";"), format!(": &str = \"{old}\";"));
        once(files, "ratelimit-common/src", &has, |text| text.replacen(&has, &gets, 1))?;
    }
    for (_, text) in files.iter_mut().filter(|(path, _)| path.starts_with("ratelimit-ebpf/src")) {
        *text = with_old_maps(text);
    }
    for new in OLD_FIELDS {
        let old = RENAMED_FIELDS.iter().find(|(_, present)| *present == new).context(new)?.0;
        for (_, text) in files.iter_mut().filter(|(path, _)| path.ends_with(".rs") && !path.ends_with(NAMES)) {
            *text = with_word(text, new, old);
        }
    }
    Ok(())
}

/// Changes the only file in a place that has a text.
fn once(files: &mut Files, place: &str, has: &str, change: impl Fn(&str) -> String) -> Result<()> {
    let found: Vec<_> = files.iter_mut().filter(|(path, text)| path.starts_with(place) && text.contains(has)).collect();
    ensure!(found.len() == 1, "{} files of {place} have {has:?}: xtask/src/other.rs must follow", found.len());
    for (_, text) in found {
        *text = change(text);
    }
    Ok(())
}

/// Moves a field with its comment to the beginning of its structure.
fn with_first(text: &str, field: &str) -> String {
    let mut lines: Vec<&str> = text.split('\n').collect();
    let Some(place) = lines.iter().position(|line| *line == field) else { return text.to_owned() };
    let is_comment = |line: &&str| line.trim_start().starts_with("///");
    let begin = place - lines[..place].iter().rev().take_while(|line| is_comment(line)).count();
    let head = lines[..begin].iter().rposition(|line| line.ends_with('{')).map_or(0, |line| line + 1);
    lines[head..=place].rotate_right(place + 1 - begin);
    lines.join("\n")
}

/// Gives maps of the kernel side their old names.
fn with_old_maps(text: &str) -> String {
    let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
    for number in 1..lines.len() {
        let name = lines[number].split_once("static ").and_then(|(_, rest)| rest.split_once(':'));
        let old = name.and_then(|(name, _)| RENAMED_MAPS.iter().find(|(_, new)| *new == name));
        if let Some((old, _)) = old.filter(|_| lines[number - 1] == "#[btf_map]") {
            lines[number - 1] = format!("#[btf_map(name = \"{old}\")]");
        }
    }
    lines.join("\n")
}

/// Replaces a whole word.
fn with_word(text: &str, word: &str, by: &str) -> String {
    let is_part = |character: Option<char>| character.is_some_and(|found| found.is_alphanumeric() || found == '_');
    let mut parts = text.split(word).peekable();
    let mut all = String::new();
    while let Some(part) = parts.next() {
        all += part;
        if let Some(next) = parts.peek() {
            let is_whole = !is_part(part.chars().next_back()) && !is_part(next.chars().next());
            all += if is_whole { by } else { word };
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_move_with_their_comments() {
        let text = "pub struct A {\n    /// One.\n    pub a: u8,\n    /// Two,\n    /// three.\n    pub b: u8,\n}\n";
        let moved = "pub struct A {\n    /// Two,\n    /// three.\n    pub b: u8,\n    /// One.\n    pub a: u8,\n}\n";
        assert_eq!(with_first(text, "    pub b: u8,"), moved);
    }

    #[test]
    fn manifests_lose_their_programs_only() {
        let manifest = "[package]\n\n[[bin]]\nname = \"a\"\n\n[[bin]]\nname = \"b\"\n\n[dependencies]\nc = \"1\"\n";
        assert_eq!(without_programs(manifest), "[package]\n\n[dependencies]\nc = \"1\"\n");
        assert_eq!(without_programs("[package]\n"), "[package]\n");
    }

    #[test]
    fn only_whole_words_and_renamed_maps_change() {
        assert_eq!(with_word("a.left b_left left(left)", "left", "right"), "a.right b_left right(right)");
        let maps = "#[btf_map]\npub static UNKNOWN: A\n#[btf_map]\nstatic FRONT: B";
        assert_eq!(
            with_old_maps(maps),
            "#[btf_map(name = \"STRANGERS\")]\npub static UNKNOWN: A\n#[btf_map]\nstatic FRONT: B"
        );
    }
}
