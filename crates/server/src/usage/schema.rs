//! The tables of a file, and whether a file is one of ours.

use std::{fs::File, io::Read as _, path::Path};

use rusqlite::{Connection, ErrorCode};

use super::error::UsageError;

/// Marks a file as ours: `rlus`.
const APPLICATION: i64 = 0x726c_7573;
/// The version of the tables.
const VERSION: i64 = 1;

/// The tables. `hour` counts from the Unix epoch, and `last` is in seconds since then.
const TABLES: &str = "
    CREATE TABLE client (id INTEGER PRIMARY KEY, rule TEXT NOT NULL, name TEXT NOT NULL, UNIQUE (rule, name));
    CREATE TABLE usage (
        client INTEGER NOT NULL, hour INTEGER NOT NULL, admitted INTEGER NOT NULL, cost INTEGER NOT NULL,
        refused INTEGER NOT NULL, last INTEGER NOT NULL, PRIMARY KEY (client, hour)
    ) WITHOUT ROWID;
    CREATE INDEX usage_by_hour ON usage (hour);
";

/// What a file is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// One without any tables.
    Empty,
    /// One of this version.
    Own,
}

/// Returns what a file is.
pub(super) fn kind(connection: &Connection, path: &Path) -> Result<Kind, UsageError> {
    let number = |query: &str| connection.query_row(query, [], |row| row.get::<_, i64>(0));
    let read = || -> rusqlite::Result<_> {
        Ok((
            number("PRAGMA application_id")?,
            number("PRAGMA user_version")?,
            number("SELECT count(*) FROM sqlite_schema")?,
        ))
    };
    match read() {
        Ok((0, 0, 0)) => Ok(Kind::Empty),
        Ok((APPLICATION, VERSION, _)) => Ok(Kind::Own),
        Ok((APPLICATION, version, _)) if version > VERSION => Err(UsageError::Newer(path.to_owned())),
        Ok(_) => Err(UsageError::Foreign(path.to_owned())),
        Err(cause) => Err(error(path, cause)),
    }
}

/// Creates the tables in an empty file.
pub(super) fn create(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    transaction.execute_batch(TABLES)?;
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.commit()
}

/// Bytes of the first page.
const PAGE: u64 = 4_096;
/// Where the first page has the application, as four bytes.
const PLACE: usize = 68;

/// Returns whether a damaged file is one of ours: it has our mark, or a crash has left only zeros of its first page. SQLite's
/// own mark is no reason, since other programs use SQLite too.
fn is_ours(path: &Path) -> bool {
    let mut page = Vec::new();
    let read = File::open(path).and_then(|file| file.take(PAGE).read_to_end(&mut page));
    let mark = page.get(PLACE..).and_then(|rest| rest.first_chunk()).map(|mark| i64::from(u32::from_be_bytes(*mark)));
    read.is_ok() && !page.is_empty() && (mark == Some(APPLICATION) || page.iter().all(|byte| *byte == 0))
}

/// Returns an error of SQLite with the path of the file.
pub(super) fn error(path: &Path, cause: rusqlite::Error) -> UsageError {
    match cause.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) if is_ours(path) => {
            UsageError::Damaged(path.to_owned())
        }
        // A file of something else. A server must not take it away.
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => UsageError::Foreign(path.to_owned()),
        Some(ErrorCode::CannotOpen) => UsageError::Closed(path.to_owned()),
        _ => UsageError::Database { path: path.to_owned(), cause },
    }
}
