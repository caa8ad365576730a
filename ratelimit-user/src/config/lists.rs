//! Named lists: the tables `[[list]]`, and the files that they name.

use std::{
    fs::{Metadata, OpenOptions},
    io::BufReader,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use ratelimit_common::rules::list::{LISTS_MAX, PATH_BYTES};

use super::{
    policies::Policies,
    table::{Table, Value},
};
use crate::{
    dataplane::lists::{
        action::Action,
        entries::{self, Entries},
        listing::is_name,
    },
    text::feed::{self, Bad},
};

/// A list of a file, with its entries.
#[derive(Debug, Clone)]
pub struct PlannedList {
    /// Its name.
    pub name: String,
    /// The file with its entries.
    pub file: PathBuf,
    /// What it does.
    pub action: Action,
    /// Its entries.
    pub entries: Entries,
    /// The number of lines of its file that cannot be used.
    pub skipped: usize,
    /// The state of its file before it was read.
    pub(crate) metadata: Metadata,
}

/// Keys of a list.
const KEYS: [&str; 3] = ["name", "file", "action"];

/// Reads the lists, and the files that they name.
pub(super) fn read(top: &Table<'_>, policies: &Policies) -> Vec<PlannedList> {
    let mut lists: Vec<PlannedList> = Vec::new();
    for table in top.get("list").map(Value::tables).unwrap_or_default() {
        let Some(list) = of_table(&table, policies) else { continue };
        if lists.iter().any(|other| other.name == list.name) {
            table.wrong(format!("{} is listed twice: choose another name", list.name));
        } else if lists.len() == LISTS_MAX as usize {
            table.wrong(format!("at most {LISTS_MAX} lists are possible"));
        } else {
            lists.push(list);
        }
    }
    lists
}

fn of_table(table: &Table<'_>, policies: &Policies) -> Option<PlannedList> {
    let is_good = table.expect_keys(&KEYS, &[]);
    let missing = |key: &str| {
        let value = table.get(key);
        if value.is_none() {
            table.wrong(format!("{key} is missing"));
        }
        value
    };
    let (name, file) = (missing("name"), missing("file"));
    let action = match table.get("action") {
        None => Some(Action::Deny),
        Some(action) => policies.of_list(action),
    };
    let (name_text, file_text) = (name?.text()?, file?.text()?);
    if !is_name(name_text) {
        name?.wrong("expected up to 32 letters, digits, `.`, `_` and `-`, beginning with none of `.` and `-`");
        return None;
    }
    let (action, path) = (action.filter(|_| is_good)?, PathBuf::from(file_text));
    match of_file(&path) {
        Ok((entries, bad, metadata)) => {
            Some(PlannedList { name: name_text.to_owned(), file: path, action, entries, skipped: bad.len(), metadata })
        }
        Err(problem) => {
            file?.wrong(problem);
            None
        }
    }
}

/// Reads the file of a list: its entries, the lines that cannot be used, and its state before.
///
/// # Errors
///
/// Fails with what is wrong.
pub(crate) fn of_file(path: &Path) -> Result<(Entries, Vec<Bad>, Metadata), String> {
    if !path.is_absolute() {
        return Err("expected an absolute path, such as /etc/ratelimit/feed.txt".to_owned());
    }
    if path.as_os_str().len() > PATH_BYTES {
        return Err(format!("the path is longer than {PATH_BYTES} bytes: move the file"));
    }
    let refused = |error: &dyn std::fmt::Display| format!("the list cannot be read: {error}");
    // Opening a pipe would wait until another process writes to it.
    let file =
        OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(|error| refused(&error))?;
    let metadata = file.metadata().map_err(|error| refused(&error))?;
    if !metadata.is_file() {
        return Err("not a regular file".to_owned());
    }
    let feed = feed::read(BufReader::new(file)).map_err(|error| refused(&error))?;
    let (entries, bad) = entries::of_feed(feed);
    if entries.is_empty() {
        return Err("the list has no address: remove the table to delete it".to_owned());
    }
    Ok((entries, bad, metadata))
}
