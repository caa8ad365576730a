//! The files that a file names.

use std::path::PathBuf;

use toml::de::{DeTable, DeValue};

/// Keys of files that a server or the daemon writes itself. The first two belong to the user of a server. The daemon
/// refuses a state file that others may change.
const WRITTEN: [&str; 3] = ["rules", "usage", "state"];

/// Returns the absolute paths in the text of a file, each once: those of lists, secrets and certificates are among them.
/// Files that a server writes are not.
pub fn named(text: &str) -> Vec<PathBuf> {
    let (entries, _) = DeTable::parse_recoverable(text);
    let mut found = Vec::new();
    add_each(entries.get_ref(), &mut found);
    found
}

fn add(value: &DeValue<'_>, found: &mut Vec<PathBuf>) {
    match value {
        DeValue::String(text) if text.starts_with('/') => {
            let path = PathBuf::from(text.as_ref());
            if !found.contains(&path) {
                found.push(path);
            }
        }
        DeValue::Array(values) => values.iter().for_each(|value| add(value.get_ref(), found)),
        DeValue::Table(table) => add_each(table, found),
        _ => {}
    }
}

fn add_each(table: &DeTable<'_>, found: &mut Vec<PathBuf>) {
    let is_read = |key: &str| !WRITTEN.contains(&key);
    let read = table.iter().filter(|(key, _)| is_read(key.get_ref()));
    read.for_each(|(_, value)| add(value.get_ref(), found));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_absolute_path_is_found_once_wherever_it_stands() {
        let text = "a = \"/one\"\nb = [\"two\", \"/two\", {c = \"/one\"}]\n[[list]]\nfile = \"/three\"\nentries = 3\n[serve]\nrules = \"/four\"\n[state]\nfile = \"/five\"\n";
        assert_eq!(named(text), ["/one", "/two", "/three"].map(PathBuf::from));
        assert_eq!(named("a = 3"), Vec::<PathBuf>::new());
    }
}
