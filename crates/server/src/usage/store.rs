//! The file, as the server writes it.

use std::{
    collections::{BTreeMap, HashMap},
    ffi::OsString,
    fs::{self, OpenOptions, Permissions},
    io,
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use ratelimit_base::files::damaged;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, Transaction, TransactionBehavior};

use super::{
    error::UsageError,
    row::{Key, Row, Totals},
    schema::{self, Kind},
    settings::UsageFile,
};

/// How long a write waits for another process that has locked the file.
const PATIENCE: Duration = Duration::from_secs(1);
/// Bytes of a row beside the name of its client and of its rule.
const ROW: u64 = 64;
/// Hours that a server remembers. Requests of others are rare.
const HOURS: u64 = 2;
/// The mode of a new file: names of clients are not for all users.
const MODE: u32 = 0o640;

/// The file, as the server writes it.
#[derive(Debug)]
pub(super) struct Store {
    connection: Connection,
    path: PathBuf,
    /// Device and number of the file.
    id: (u64, u64),
    /// Rows of the file.
    rows: u64,
    /// The first hour that was kept at the last write.
    first_hour: u64,
    /// The last hours that got rows.
    hours: HashMap<u64, Hour>,
}

/// What an hour has in the file.
#[derive(Debug, Clone, Copy)]
struct Hour {
    rows: u64,
    /// Bytes of its rows, and of their clients.
    bytes: u64,
}

impl Store {
    /// Opens the file, or creates it.
    pub(super) fn open(settings: &UsageFile) -> Result<Self, UsageError> {
        let path = &settings.path;
        create(path).map_err(|cause| match cause.kind() {
            io::ErrorKind::NotFound => UsageError::NoFolder(path.clone()),
            _ => UsageError::Io { path: path.clone(), cause },
        })?;
        let id = id(path).map_err(|cause| UsageError::Io { path: path.clone(), cause })?;
        let open = || -> rusqlite::Result<_> {
            let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
            connection.busy_timeout(PATIENCE)?;
            Ok(connection)
        };
        let mut connection = open().map_err(|cause| schema::error(path, cause))?;
        let kind = schema::kind(&connection, path)?;
        let mut prepare = || -> rusqlite::Result<u64> {
            connection.pragma_update(None, "journal_mode", "WAL")?;
            connection.pragma_update(None, "synchronous", "NORMAL")?;
            // What is deleted leaves no names behind.
            connection.pragma_update(None, "secure_delete", "ON")?;
            connection.pragma_update(None, "journal_size_limit", 16 << 20)?;
            if kind == Kind::Empty {
                schema::create(&mut connection)?;
            }
            connection.query_row("SELECT count(*) FROM usage", [], |row| number(row, 0))
        };
        let rows = prepare().map_err(|cause| schema::error(path, cause))?;
        Ok(Self { connection, path: path.clone(), id, rows, first_hour: 0, hours: HashMap::new() })
    }

    /// Returns whether the path still leads to this file.
    pub(super) fn is_in_place(&self) -> bool {
        id(&self.path).is_ok_and(|id| id == self.id)
    }

    /// Adds rows, and deletes the oldest ones. All of this is done, or nothing. Returns what found no room.
    pub(super) fn write(
        &mut self,
        settings: &UsageFile,
        rows: &HashMap<Key, Row>,
        now: u64,
    ) -> Result<Totals, UsageError> {
        let first_hour = settings.first_hour(now);
        if rows.is_empty() && first_hour == self.first_hour {
            return Ok(Totals::default());
        }
        let mut hours = self.hours.clone();
        let mut write = || -> rusqlite::Result<_> {
            let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let (mut count, mut deleted, mut lost) = (self.rows, 0, Totals::default());
            // After a time in which nothing could be written, there are many hours. Each finds the room of the oldest ones.
            for rows in by_hour(rows) {
                let (added, without_room) = add(&transaction, &rows, settings, &mut hours)?;
                lost.add(without_room);
                let left = prune(&transaction, count + added, 0, settings)?;
                if left < count + added {
                    hours.clear();
                }
                (count, deleted) = (left, deleted + (count + added).saturating_sub(left));
            }
            let first_hour = first_hour.min(second_hour(&transaction)?);
            let left = prune(&transaction, count, first_hour, settings)?;
            transaction.commit()?;
            Ok((deleted + count.saturating_sub(left), left, first_hour, lost))
        };
        let (deleted, count, first_hour, lost) = write().map_err(|cause| schema::error(&self.path, cause))?;
        (self.rows, self.first_hour) = (count, first_hour);
        // Others are counted again.
        hours.retain(|hour, _| deleted == 0 && *hour + HOURS > now / 3_600);
        self.hours = hours;
        Ok(lost)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // Without the files of a log, those who may only read the file can still read it.
        let _ = self.connection.pragma_update(None, "journal_mode", "DELETE");
    }
}

/// Returns the rows of each hour, the oldest one first.
fn by_hour(rows: &HashMap<Key, Row>) -> impl Iterator<Item = Vec<(&Key, &Row)>> {
    let mut hours: BTreeMap<u64, Vec<_>> = BTreeMap::new();
    for (key, row) in rows {
        hours.entry(key.hour).or_default().push((key, row));
    }
    hours.into_values()
}

/// Adds rows. Returns how many are new, and what found no room.
fn add(
    transaction: &Transaction<'_>,
    rows: &[(&Key, &Row)],
    settings: &UsageFile,
    hours: &mut HashMap<u64, Hour>,
) -> rusqlite::Result<(u64, Totals)> {
    let mut find = transaction.prepare("SELECT id FROM client WHERE rule = ?1 AND name = ?2")?;
    let mut create = transaction.prepare("INSERT INTO client (rule, name) VALUES (?1, ?2)")?;
    // Texts with their bytes, and not with their characters.
    let mut count = transaction.prepare(
        "SELECT count(*), coalesce(sum(octet_length(rule) + octet_length(name)), 0)
        FROM usage JOIN client ON client.id = usage.client WHERE hour = ?1",
    )?;
    let mut count = |hour: u64| {
        count.query_row([whole(hour)], |row| {
            let rows = number(row, 0)?;
            Ok(Hour { rows, bytes: 2 * number(row, 1)? + rows * ROW })
        })
    };
    let mut update = transaction.prepare(
        "UPDATE usage SET admitted = admitted + ?3, cost = cost + ?4, refused = refused + ?5, last = max(last, ?6)
        WHERE client = ?1 AND hour = ?2",
    )?;
    let mut insert = transaction.prepare("INSERT INTO usage VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?;
    let (mut added, mut lost) = (0, Totals::default());
    for (Key { hour, .. }, Row { rule, client, totals }) in rows.iter().copied() {
        let values = |client: i64| {
            let Totals { admitted, cost, refused, last } = *totals;
            let [hour, admitted, cost, refused, last] = [*hour, admitted, cost, refused, last].map(whole);
            (client, hour, admitted, cost, refused, last)
        };
        let known: Option<i64> = find.query_row((rule, client), |row| row.get(0)).optional()?;
        if let Some(id) = known
            && update.execute(values(id))? > 0
        {
            continue;
        }
        let of_hour = match hours.get_mut(hour) {
            Some(of_hour) => of_hour,
            None => hours.entry(*hour).or_insert(count(*hour)?),
        };
        let bytes = 2 * (rule.len() + client.len()) as u64 + ROW;
        if of_hour.rows >= settings.most_of_hour() || of_hour.bytes + bytes > settings.bytes_of_hour() {
            lost.add(*totals);
            continue;
        }
        let id = match known {
            Some(id) => id,
            None => create.insert((rule, client))?,
        };
        insert.execute(values(id))?;
        (of_hour.rows, of_hour.bytes) = (of_hour.rows + 1, of_hour.bytes + bytes);
        added += 1;
    }
    Ok((added, lost))
}

/// Returns the hour after the oldest one. A write deletes no more than that because of its age, so that a clock that is
/// wrong for a moment does not delete everything.
fn second_hour(transaction: &Transaction<'_>) -> rusqlite::Result<u64> {
    let oldest = transaction.query_row("SELECT min(hour) FROM usage", [], |row| row.get::<_, Option<i64>>(0))?;
    Ok(oldest.and_then(|hour| u64::try_from(hour).ok()).map_or(u64::MAX, |hour| hour.saturating_add(1)))
}

/// Deletes hours before the first one that is kept, and the oldest ones if there are too many rows or bytes. Returns how many
/// rows remain.
fn prune(transaction: &Transaction<'_>, count: u64, first_hour: u64, settings: &UsageFile) -> rusqlite::Result<u64> {
    let delete = |before: u64| {
        let deleted = transaction.execute("DELETE FROM usage WHERE hour < ?1", [whole(before)])?;
        Ok::<_, rusqlite::Error>(u64::try_from(deleted).unwrap_or(u64::MAX))
    };
    let mut left = count.saturating_sub(delete(first_hour)?);
    let most = u64::from(settings.rows);
    let is_larger = |left: u64, room: u64| left > 0 && (left > most || room > settings.bytes());
    let mut room = bytes(transaction)?;
    if is_larger(left, room) && left < count {
        delete_unused(transaction)?;
        room = bytes(transaction)?;
    }
    if is_larger(left, room) {
        // A part more, so that this is rare. Of a file from before there was a bound of bytes, a write deletes only a part.
        let part = |most: u64| most - most / 20;
        let fit = u128::from(left) * u128::from(part(settings.bytes())) / u128::from(room.max(1));
        let of_bytes = left.saturating_sub(u64::try_from(fit).unwrap_or(u64::MAX)).min(most / 10);
        let of_rows = if left > most { left - part(most) } else { 0 };
        let query = "SELECT hour + 1 FROM usage ORDER BY hour LIMIT 1 OFFSET ?1";
        let more = whole(of_bytes.max(of_rows).min(left - 1));
        let before = transaction.query_row(query, [more], |row| number(row, 0))?;
        left = left.saturating_sub(delete(before)?);
    }
    if left < count {
        delete_unused(transaction)?;
    }
    Ok(left)
}

/// Deletes clients without an hour.
fn delete_unused(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    let unused = "DELETE FROM client WHERE NOT EXISTS (SELECT 1 FROM usage WHERE usage.client = client.id)";
    transaction.execute(unused, []).map(drop)
}

/// Returns the bytes of the file that are in use. Free pages are used again.
fn bytes(transaction: &Transaction<'_>) -> rusqlite::Result<u64> {
    let number = |query: &str| transaction.query_row(query, [], |row| number(row, 0));
    let used = number("PRAGMA page_count")?.saturating_sub(number("PRAGMA freelist_count")?);
    Ok(used * number("PRAGMA page_size")?)
}

/// Gives a damaged file another name, with the log that belongs to it. One of before goes. Returns the name.
pub(super) fn set_aside(path: &Path) -> Result<PathBuf, UsageError> {
    let failed = |cause| UsageError::Io { path: path.to_owned(), cause };
    // They come first: a new file must not get what belongs to this one.
    for ending in ["-wal", "-shm"] {
        let mut name: OsString = path.as_os_str().to_owned();
        name.push(ending);
        match damaged::set_aside(Path::new(&name)) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(failed(cause)),
            _ => {}
        }
    }
    damaged::set_aside(path).map_err(failed)
}

/// Creates the file if there is none.
fn create(path: &Path) -> io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(MODE).open(path) {
        // Whatever the umask is.
        Ok(file) => file.set_permissions(Permissions::from_mode(MODE)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

fn id(path: &Path) -> io::Result<(u64, u64)> {
    let file = fs::metadata(path)?;
    Ok((file.dev(), file.ino()))
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Returns a number that is not negative.
pub(super) fn number(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(|number| u64::try_from(number).unwrap_or(0))
}
