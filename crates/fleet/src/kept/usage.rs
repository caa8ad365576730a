//! What clients of requests have used, in the engine: totals for each client and hour.

use redis::Value;

use crate::{
    engine::Engine,
    error::Error,
    key::fnv,
    script::{Script, text},
};

/// Parts of all rows. Each has keys of one partition, so that a cluster spreads them.
pub const PARTS: u8 = 16;
/// Partitions of the engine between two parts.
const STEP: u8 = 4;
/// The most rows of a batch.
pub const BATCH: usize = 200;
/// About how many rows one call reads.
const READ: usize = 1_000;
/// The most hours of a part: those of ten years, and those by which clocks may be early.
const HOURS: usize = 3_650 * 24 + 26;
/// The most bytes of the rows of one answer.
const ANSWER: usize = 16 << 20;
/// The highest number that both sides can count.
const MOST: u64 = 1 << 53;

/// What a client has used in an hour: its name, and four numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Hours since 1970.
    pub hour: u64,
    /// The client, with its rule.
    pub client: String,
    /// Admitted, cost, refused and the time of the last request.
    pub numbers: [u64; 4],
}

/// How much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Hours after which a row is deleted.
    pub hours: u64,
    /// The most rows of all parts.
    pub rows: u64,
    /// The most rows of an hour.
    pub rows_of_hour: u64,
}

/// Rows of one part that are written together.
#[derive(Debug)]
pub struct Batch {
    /// The part.
    pub part: u8,
    /// A number that grows with each batch of a server.
    pub number: u64,
    /// The rows.
    pub rows: Vec<Row>,
}

/// Some rows of an hour.
#[derive(Debug)]
pub struct Page {
    /// Where to go on. Zero is the end.
    pub next: u64,
    /// The rows. One can come twice.
    pub rows: Vec<Row>,
    /// Rows that make no sense.
    pub left_out: usize,
}

/// The script that keeps rows.
#[derive(Debug, Clone)]
pub struct Store(Script);

impl Default for Store {
    fn default() -> Self {
        Self(Script::new(include_str!("usage.lua")))
    }
}

/// Returns the part of a client.
#[must_use]
pub fn part(client: &str) -> u8 {
    (fnv(client) % u64::from(PARTS)) as u8
}

impl Store {
    /// Adds rows of a server. Returns how many requests found no room. The same batch can be sent again after a failure: it
    /// is added once.
    ///
    /// # Errors
    ///
    /// Any [`Error`] but that of the URL.
    pub async fn add(&self, engine: &Engine, server: &str, batch: &Batch, bounds: &Bounds) -> Result<u64, Error> {
        let Bounds { hours, rows, rows_of_hour } = *bounds;
        let each = |all: u64| (all / u64::from(PARTS)).max(1);
        let fixed = [batch.number, hours, each(rows), each(rows_of_hour)].map(|number| number.to_string());
        let mut arguments = vec![b"add".to_vec()];
        arguments.extend(fixed.into_iter().map(String::into_bytes));
        for Row { hour, client, numbers } in &batch.rows {
            arguments.extend([hour.to_string().into_bytes(), client.clone().into_bytes()]);
            arguments.extend(numbers.iter().map(|number| number.to_string().into_bytes()));
        }
        let [all, seen] = keys(batch.part, server);
        let values: Vec<Value> = engine.run(&self.0, &[&all, &seen], &arguments).await?;
        let lost = number(values.first().ok_or(Error::Garbage("it is empty"))?)?;
        let requests = batch.rows.iter().flat_map(|row| [row.numbers[0], row.numbers[2]]).fold(0, u64::saturating_add);
        if lost > requests { Err(Error::Garbage("it has lost more requests than it got")) } else { Ok(lost) }
    }

    /// Returns the hours of a part.
    ///
    /// # Errors
    ///
    /// Any [`Error`] but that of the URL.
    pub async fn hours(&self, engine: &Engine, part: u8) -> Result<Vec<u64>, Error> {
        let values = self.ask(engine, part, &["hours"]).await?;
        if values.len() > HOURS {
            return Err(Error::Garbage("there are too many hours"));
        }
        values.iter().map(number).collect()
    }

    /// Returns some rows of an hour whose clients match a pattern. Zero is the beginning.
    ///
    /// # Errors
    ///
    /// Any [`Error`] but that of the URL.
    pub async fn rows(
        &self,
        engine: &Engine,
        part: u8,
        (hour, cursor_before): (u64, u64),
        pattern: &str,
    ) -> Result<Page, Error> {
        let words = ["rows", &hour.to_string(), &cursor_before.to_string(), pattern, &READ.to_string()];
        let values = self.ask(engine, part, &words).await?;
        let [cursor, rows @ ..] = &values[..] else { return Err(Error::Garbage("it is empty")) };
        let (rows, rest) = rows.as_chunks::<2>();
        let bytes = |value: &Value| if let Value::BulkString(bytes) = value { bytes.len() } else { 0 };
        if !rest.is_empty() || values.iter().map(bytes).sum::<usize>() > ANSWER {
            return Err(Error::Garbage("the rows are too long"));
        }
        let next = text(cursor)?.parse().map_err(|_| Error::Garbage("a cursor is not a number"))?;
        if next == cursor_before && next != 0 {
            return Err(Error::Garbage("a cursor stands still"));
        }
        let row = |[client, numbers]: &[Value; 2]| {
            let number = |number: &str| number.parse().ok().filter(|number| *number <= MOST);
            let mut each = text(numbers).ok()?.split(' ').map(number);
            let numbers = [each.next()??, each.next()??, each.next()??, each.next()??];
            Some(Row { hour, client: text(client).ok()?.to_owned(), numbers })
        };
        let good: Vec<_> = rows.iter().filter_map(row).collect();
        Ok(Page { next, left_out: rows.len() - good.len(), rows: good })
    }

    async fn ask(&self, engine: &Engine, part: u8, words: &[&str]) -> Result<Vec<Value>, Error> {
        let [all, seen] = keys(part, "");
        let arguments: Vec<_> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        engine.run(&self.0, &[&all, &seen], &arguments).await
    }
}

/// Returns the key of a part, and that of the last batch of a server.
fn keys(part: u8, server: &str) -> [String; 2] {
    let all = format!("{{rl:{:02x}}}:usage", part * STEP);
    let seen = format!("{all}:seen:{server}");
    [all, seen]
}

fn number(value: &Value) -> Result<u64, Error> {
    text(value)?.parse().map_err(|_| Error::Garbage("a value is not a number"))
}
