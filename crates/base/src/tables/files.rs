//! The files that a file names.

use std::path::PathBuf;

use toml::de::{DeTable, DeValue};

/// Keys of files that are only read, besides those that end in `-file`.
const READ: [&str; 4] = ["file", "copy", "tls-cert", "tls-key"];

/// A table that names a file which the daemon writes. It refuses one that others may change.
const WRITTEN: &str = "state";

/// Returns the absolute paths of the files that the text of a file names, each once: lists, secrets and certificates.
/// Files that a server writes belong to its user, so they are left out.
pub fn named(text: &str) -> Vec<PathBuf> {
    let (entries, _) = DeTable::parse_recoverable(text);
    let mut found = Vec::new();
    let read = entries.get_ref().iter().filter(|(name, _)| name.get_ref() != WRITTEN);
    for table in read.flat_map(|(_, value)| tables(value.get_ref())) {
        for (key, value) in table {
            let (key, value) = (key.get_ref(), value.get_ref().as_str());
            let is_file = READ.contains(&key.as_ref()) || key.ends_with("-file");
            let path = value.filter(|value| is_file && value.starts_with('/')).map(PathBuf::from);
            found.extend(path.filter(|path| !found.contains(path)));
        }
    }
    found
}

/// Returns a table, or those of an array. What is deeper are rules and their texts.
fn tables<'a, 'b>(value: &'a DeValue<'b>) -> Vec<&'a DeTable<'b>> {
    match value {
        DeValue::Table(table) => vec![table],
        DeValue::Array(values) => values.iter().filter_map(|value| value.get_ref().as_table()).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_keys_of_files_name_files_each_once() {
        let text = "interfaces = [\"/no\"]\n\
                    list = [{name = \"a\", file = \"/list\"}, {url = \"/no\", copy = \"/copy\", token-file = \"/token\"}]\n\
                    [serve]\nrules = \"/no\"\ntls-cert = \"/certificate\"\ntls-key = \"/key\"\n\
                    [[check]]\nname = \"/no\"\nmatch = {path = \"/no\", file = \"/no\"}\nexcept = [{x-file = \"/no\"}]\n\
                    [fleet]\nkey-file = \"/key\"\nca-file = \"relative\"\n[state]\nfile = \"/no\"\n";
        let mut found = named(text);
        found.sort();
        assert_eq!(found, ["/certificate", "/copy", "/key", "/list", "/token"].map(PathBuf::from));
        assert_eq!(named("a = 3"), Vec::<PathBuf>::new());
    }
}
