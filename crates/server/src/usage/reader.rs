//! The file, as commands read it while the server writes.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::Duration,
};

use rusqlite::{Connection, OpenFlags, Row};

use super::{
    client::{Pair, Pairs},
    error::UsageError,
    row::Totals,
    schema::{self, Kind},
    store::number,
};

/// How long a read waits for another process that has locked the file.
const PATIENCE: Duration = Duration::from_secs(5);

/// The file, as commands read it.
#[derive(Debug)]
pub struct Reader<'a> {
    connection: Connection,
    path: &'a Path,
}

/// What was found about a client under a rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The rule.
    pub rule: String,
    /// The client.
    pub client: Pairs,
    /// The start of the hour or day, in seconds since the Unix epoch. None for the whole time.
    pub start: Option<u64>,
    /// What it has used.
    pub totals: Totals,
}

/// How long each row of the answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// An hour in UTC.
    Hour,
    /// A day in UTC.
    Day,
}

/// Which clients come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Those with the most refused requests.
    Refused,
    /// Those with the most admitted requests.
    Admitted,
    /// Those whose admitted requests cost the most.
    Cost,
}

impl<'a> Reader<'a> {
    /// Opens a file.
    ///
    /// # Errors
    ///
    /// Fails if the file is missing, belongs to something else, or cannot be read.
    pub fn open(path: &'a Path) -> Result<Self, UsageError> {
        match path.try_exists() {
            Ok(true) if path.is_dir() => return Err(UsageError::Foreign(path.to_owned())),
            Ok(true) => {}
            Ok(false) => return Err(UsageError::Missing(path.to_owned())),
            Err(cause) => return Err(UsageError::Io { path: path.to_owned(), cause }),
        }
        let open = || -> rusqlite::Result<_> {
            let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
            connection.busy_timeout(PATIENCE)?;
            Ok(connection)
        };
        let connection = open().map_err(|cause| schema::error(path, cause))?;
        match schema::kind(&connection, path)? {
            Kind::Own => Ok(Self { connection, path }),
            Kind::Empty => Err(UsageError::Foreign(path.to_owned())),
        }
    }

    /// Returns what clients with all of these attributes have used since the hour of this time, oldest first.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read.
    pub fn of(&self, wanted: &[Pair], rule: Option<&str>, since: u64, step: Step) -> Result<Vec<Found>, UsageError> {
        let read = || -> rusqlite::Result<_> {
            // All queries see the file at the same moment.
            let transaction = self.connection.unchecked_transaction()?;
            let query = "SELECT id, rule, name FROM client WHERE (?1 IS NULL OR rule = ?1) AND instr(name, ?2) > 0";
            let mut clients = transaction.prepare(query)?;
            let query = "SELECT hour, admitted, cost, refused, last FROM usage WHERE client = ?1 AND hour >= ?2";
            let mut hours = transaction.prepare(query)?;
            let part = wanted.first().map(Pair::part).unwrap_or_default();
            let mut clients = clients.query((rule, part))?;
            let mut found = Vec::new();
            while let Some(row) = clients.next()? {
                let (id, rule, client) = (row.get::<_, i64>(0)?, row.get::<_, String>(1)?, client(row, 2)?);
                if !wanted.iter().all(|pair| pair.is_of(&client)) {
                    continue;
                }
                let mut steps: BTreeMap<u64, Totals> = BTreeMap::new();
                let mut hours = hours.query((id, hour(since)))?;
                while let Some(row) = hours.next()? {
                    let hour = number(row, 0)?;
                    let start = if step == Step::Day { hour / 24 * 24 } else { hour };
                    steps.entry(start.saturating_mul(3_600)).or_default().add(totals(row, 1)?);
                }
                let row =
                    |(start, totals)| Found { rule: rule.clone(), client: client.clone(), start: Some(start), totals };
                found.extend(steps.into_iter().map(row));
            }
            found.sort_by(|one: &Found, other| one.start.cmp(&other.start).then_with(|| one.rule.cmp(&other.rule)));
            Ok(found)
        };
        read().map_err(|cause| schema::error(self.path, cause))
    }

    /// Returns the names of the first rules with usage, at most `most`.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read.
    pub fn rules(&self, most: u32) -> Result<Vec<String>, UsageError> {
        let read = || -> rusqlite::Result<_> {
            let mut query = self.connection.prepare("SELECT DISTINCT rule FROM client ORDER BY rule LIMIT ?1")?;
            query.query_map([most], |row| row.get(0))?.collect()
        };
        read().map_err(|cause| schema::error(self.path, cause))
    }

    /// Returns the names of the attributes of all clients, or of those under a rule.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read.
    pub fn attributes(&self, rule: Option<&str>) -> Result<BTreeSet<String>, UsageError> {
        let read = || -> rusqlite::Result<_> {
            let mut query = self.connection.prepare("SELECT name FROM client WHERE ?1 IS NULL OR rule = ?1")?;
            let mut clients = query.query([rule])?;
            let mut attributes = BTreeSet::new();
            while let Some(row) = clients.next()? {
                attributes.extend(client(row, 0)?.into_iter().map(|(name, _)| name));
            }
            Ok(attributes)
        };
        read().map_err(|cause| schema::error(self.path, cause))
    }

    /// Returns the first clients in this order, with what they have used since the hour of this time.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read.
    pub fn top(&self, most: u32, rule: Option<&str>, since: u64, order: Order) -> Result<Vec<Found>, UsageError> {
        let order = match order {
            Order::Refused => "sum(refused) DESC, sum(admitted) DESC",
            Order::Admitted => "sum(admitted) DESC, sum(refused) DESC",
            Order::Cost => "sum(cost) DESC, sum(refused) DESC",
        };
        let query = format!(
            "SELECT rule, name, sum(admitted), sum(cost), sum(refused), max(last)
            FROM usage JOIN client ON client.id = usage.client WHERE hour >= ?1 AND (?2 IS NULL OR rule = ?2)
            GROUP BY client.id ORDER BY {order}, rule, name LIMIT ?3"
        );
        let read = || -> rusqlite::Result<_> {
            let mut query = self.connection.prepare(&query)?;
            let found = query.query_map((hour(since), rule, most), |row| {
                Ok(Found { rule: row.get(0)?, client: client(row, 1)?, start: None, totals: totals(row, 2)? })
            })?;
            found.collect()
        };
        read().map_err(|cause| schema::error(self.path, cause))
    }
}

fn hour(since: u64) -> i64 {
    i64::try_from(since / 3_600).unwrap_or(i64::MAX)
}

/// Reads a client. One that cannot be read has no attributes.
fn client(row: &Row<'_>, column: usize) -> rusqlite::Result<Pairs> {
    Ok(serde_json::from_str(&row.get::<_, String>(column)?).unwrap_or_default())
}

/// Reads the numbers that begin with this column.
fn totals(row: &Row<'_>, first: usize) -> rusqlite::Result<Totals> {
    let [admitted, cost, refused, last] = [0, 1, 2, 3].map(|column| number(row, first + column));
    Ok(Totals { admitted: admitted?, cost: cost?, refused: refused?, last: last? })
}
