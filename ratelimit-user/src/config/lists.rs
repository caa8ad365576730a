//! Named lists: the tables `[[list]]`, and the files that they name.

use std::{
    fs::{self, Metadata, OpenOptions},
    io::BufReader,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use ratelimit_common::rules::list::{LISTS_MAX, PATH_BYTES};

use super::{policies::Policies, problem::advice, table::Table};
use crate::{
    dataplane::lists::{
        action::Action,
        entries::{self, Entries},
        listing::is_name,
    },
    text::feed::{self, Bad},
};

/// A list of a file.
#[derive(Debug, Clone)]
pub struct PlannedList {
    /// Its name.
    pub name: String,
    /// The file with its entries.
    pub file: PathBuf,
    /// What it does.
    pub action: Action,
    /// What its file has, or why the file cannot be used.
    pub content: Result<Content, String>,
    /// The state of its file before it was read. None without a file.
    pub(crate) metadata: Option<Metadata>,
}

/// What the file of a list has.
#[derive(Debug, Clone)]
pub struct Content {
    /// The entries of the list. There is at least one.
    pub entries: Entries,
    /// The lines that cannot be used.
    pub(crate) bad: Vec<Bad>,
}

/// Keys of a list.
const KEYS: [&str; 3] = ["name", "file", "action"];

/// Reads the lists, and the files that they name.
pub(super) fn read(top: &Table<'_>, policies: &Policies) -> Vec<PlannedList> {
    let mut lists: Vec<PlannedList> = Vec::new();
    for table in top.get("list").map(|value| value.tables("list")).unwrap_or_default() {
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
    if !path.is_absolute() {
        file?.wrong("expected an absolute path, such as /etc/ratelimit/feed.txt");
        return None;
    }
    if path.as_os_str().len() > PATH_BYTES {
        file?.wrong(format!("the path is longer than {PATH_BYTES} bytes: move the file"));
        return None;
    }
    let metadata = fs::metadata(&path).ok();
    Some(PlannedList { name: name_text.to_owned(), content: content(&path), file: path, action, metadata })
}

/// Reads the file of a list.
///
/// # Errors
///
/// Fails with why it cannot be used.
fn content(path: &Path) -> Result<Content, String> {
    // Opening a pipe would wait until another process writes to it.
    let file =
        OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(|error| unread(&error))?;
    if !file.metadata().map_err(|error| unread(&error))?.is_file() {
        return Err("is not a regular file".to_owned());
    }
    let (entries, bad) =
        entries::of_feed(feed::read(BufReader::new(file)).map_err(|error| format!("cannot be read: {error}"))?);
    if entries.is_empty() {
        return Err("has no address (to delete the list, remove its table from the configuration file)".to_owned());
    }
    Ok(Content { entries, bad })
}

fn unread(error: &std::io::Error) -> String {
    format!("cannot be read: {error}{}", advice(error))
}
