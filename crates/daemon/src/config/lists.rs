//! Named lists: the tables `[[list]]`, and the files that they name.

use std::{
    fs::{self, Metadata, OpenOptions},
    io::{BufRead, BufReader},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use ratelimit_base::{
    tables::{problem::advice, table::Table},
    text::feed::{self, Bad, FeedError},
};
use ratelimit_common::rules::list::{LISTS_MAX, PATH_BYTES};
use ratelimit_dataplane::lists::{
    action::Action,
    entries::{self, Entries},
    listing::is_name,
};

use super::{
    daemon::{
        kept::Kept,
        remote::{self, Remote},
    },
    policies::Policies,
};

/// A list of a file.
#[derive(Debug, Clone)]
pub struct PlannedList {
    /// Its name.
    pub name: String,
    /// The file with its entries. For a list on a server, it is the copy of the daemon.
    pub file: PathBuf,
    /// The server that it comes from. None for a file of the operator.
    pub remote: Option<Remote>,
    /// What it does.
    pub action: Action,
    /// Whether it may lose more than half of its entries.
    pub may_shrink: bool,
    /// What its file has, or why the file cannot be used.
    pub content: Result<Content, String>,
    /// The state of its file before it was read. None without a file.
    pub metadata: Option<Metadata>,
}

/// What the file of a list has.
#[derive(Debug, Clone)]
pub struct Content {
    /// The entries of the list. There is at least one.
    pub entries: Entries,
    /// The lines that cannot be used.
    pub bad: Vec<Bad>,
}

/// Keys of each list.
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
        } else if lists.iter().any(|other| is_shared(other, &list)) {
            table.wrong("another list has this copy: write another path into copy".to_owned());
        } else {
            lists.push(list);
        }
    }
    lists
}

/// Returns whether the daemon would write a file of one list for another one.
fn is_shared(one: &PlannedList, other: &PlannedList) -> bool {
    let files = |list: &PlannedList| match &list.remote {
        Some(_) => Kept::files(&list.file).to_vec(),
        None => vec![list.file.clone()],
    };
    let of_one = files(one);
    (one.remote.is_some() || other.remote.is_some()) && files(other).iter().any(|file| of_one.contains(file))
}

fn of_table(table: &Table<'_>, policies: &Policies) -> Option<PlannedList> {
    let Some(name) = table.get("name") else {
        table.wrong("name is missing");
        return None;
    };
    let action = match table.get("action") {
        None => Some(Action::Deny),
        Some(action) => policies.of_list(action),
    };
    let name_text = name.text()?;
    if !is_name(name_text) {
        name.wrong("expected up to 32 letters, digits, `.`, `_` and `-`, beginning with none of `.` and `-`");
        return None;
    }
    let (path, remote, may_shrink) = match (table.get("file"), table.get("url")) {
        (Some(_), Some(url)) => {
            url.wrong("the list has a file already: remove file or url");
            return None;
        }
        (None, None) => {
            table.wrong("file or url is missing");
            return None;
        }
        (Some(file), None) => {
            let may_shrink = remote::none(table, &KEYS)?;
            let path = PathBuf::from(file.text()?);
            if !path.is_absolute() {
                file.wrong("expected an absolute path, such as /etc/ratelimit/feed.txt");
                return None;
            }
            (path, None, may_shrink)
        }
        (None, Some(_)) => {
            let (remote, copy, may_shrink) = remote::read(table, &KEYS, name_text)?;
            (copy, Some(remote), may_shrink)
        }
    };
    if path.as_os_str().len() > PATH_BYTES
        && let Some(value) = table.get("file").or(table.get("copy"))
    {
        value.wrong(format!("the path is longer than {PATH_BYTES} bytes: move the file"));
        return None;
    }
    let metadata = fs::metadata(&path).ok();
    let content = match &remote {
        Some(remote) => {
            Kept::with_copy(&path, remote.address.as_str(), remote.entries).and_then(|(_, list)| entries_of(&*list))
        }
        None => content(&path),
    };
    Some(PlannedList { name: name_text.to_owned(), content, file: path, remote, action: action?, may_shrink, metadata })
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
    entries_of(BufReader::new(file))
}

fn entries_of(list: impl BufRead) -> Result<Content, String> {
    let feed = feed::read(list).map_err(|error| match error {
        error @ (FeedError::Io(_) | FeedError::Page) => error.to_string(),
        error => format!("{error}: {}", error.advice()),
    })?;
    let (entries, bad) = entries::of_feed(feed).map_err(|error| format!("is no list: {error}"))?;
    if entries.is_empty() {
        return Err("has no address (to delete the list, remove its table from the configuration file)".to_owned());
    }
    Ok(Content { entries, bad })
}

fn unread(error: &std::io::Error) -> String {
    format!("cannot be read: {error}{}", advice(error))
}
