//! The engine, as commands read it while servers write.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ratelimit_fleet::{
    engine::Engine,
    error::Error,
    kept::usage::{PARTS, Page, Row, Store},
};
use tokio::task::JoinSet;

use super::name;
use crate::usage::{
    client::Pair,
    reader::{Found, Order, Step},
    row::Totals,
};

/// The most rows that one command reads of a part.
const MOST: usize = 1 << 17;
/// The most calls for the rows of a part, besides one for each hour.
const CALLS: usize = 1 << 14;
/// The latest time that people can read, in seconds since the Unix epoch: the end of the year 9999.
const LATEST: u64 = 253_402_207_200;

/// The engine, as commands read it.
pub struct SharedReader<'a> {
    engine: &'a Engine,
}

/// What was found.
#[derive(Debug, Default)]
pub struct SharedFound {
    /// What clients have used.
    pub found: Vec<Found>,
    /// Rows that make no sense.
    pub left_out: usize,
}

/// Rows by their hour and client, and how many make no sense.
#[derive(Default)]
struct Rows {
    rows: HashMap<(u64, String), Totals>,
    left_out: usize,
}

impl<'a> SharedReader<'a> {
    /// Reads this engine.
    #[must_use]
    pub fn of(engine: &'a Engine) -> Self {
        Self { engine }
    }

    /// Returns what clients with all of these attributes have used since the hour of this time, oldest first.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    ///
    /// # Errors
    ///
    /// Any [`Error`] but that of the URL, also for more rows than fit.
    pub async fn of_clients(
        &self,
        wanted: &[Pair],
        rule: Option<&str>,
        since: u64,
        step: Step,
    ) -> Result<SharedFound, Error> {
        let mut steps: BTreeMap<(u64, String), Totals> = BTreeMap::new();
        let Rows { rows, left_out } = self.rows(name::pattern(wanted, rule), since / 3_600).await?;
        for ((hour, client), totals) in rows {
            let start = if step == Step::Day { hour / 24 * 24 } else { hour };
            steps.entry((start.saturating_mul(3_600), client)).or_default().add(totals);
        }
        let found = steps.into_iter().filter_map(|((start, client), totals)| {
            let (of, client) = name::read(&client)?;
            let is_wanted = rule.is_none_or(|rule| rule == of) && wanted.iter().all(|pair| pair.is_of(&client));
            is_wanted.then_some(Found { rule: of, client, start: Some(start), totals })
        });
        Ok(SharedFound { found: found.collect(), left_out })
    }

    /// Returns the first clients in this order, with what they have used since the hour of this time.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    ///
    /// # Errors
    ///
    /// Any [`Error`] but that of the URL, also for more rows than fit.
    pub async fn top(&self, most: u32, rule: Option<&str>, since: u64, order: Order) -> Result<SharedFound, Error> {
        let mut clients: BTreeMap<String, Totals> = BTreeMap::new();
        let Rows { rows, left_out } = self.rows(name::pattern(&[], rule), since / 3_600).await?;
        for ((_, client), totals) in rows {
            clients.entry(client).or_default().add(totals);
        }
        let found = clients.into_iter().filter_map(|(client, totals)| {
            let (rule, client) = name::read(&client)?;
            Some(Found { rule, client, start: None, totals })
        });
        let mut found: Vec<_> = found.collect();
        found.sort_by_key(|Found { totals, .. }| {
            let (first, second) = match order {
                Order::Refused => (totals.refused, totals.admitted),
                Order::Admitted => (totals.admitted, totals.refused),
                Order::Cost => (totals.cost, totals.refused),
            };
            std::cmp::Reverse((first, second))
        });
        found.truncate(usize::try_from(most).unwrap_or(usize::MAX));
        Ok(SharedFound { found, left_out })
    }

    /// Returns the names of all rules with usage since the hour of this time, each with those of its clients' attributes.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    ///
    /// # Errors
    ///
    /// Any [`Error`] but that of the URL, also for more rows than fit.
    pub async fn names(&self, since: u64) -> Result<BTreeMap<String, BTreeSet<String>>, Error> {
        let rows = self.rows(name::pattern(&[], None), since / 3_600).await?;
        let mut names: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for (rule, client) in rows.rows.keys().filter_map(|(_, client)| name::read(client)) {
            names.entry(rule).or_default().extend(client.into_iter().map(|(name, _)| name));
        }
        Ok(names)
    }

    /// Returns all rows that match a pattern.
    async fn rows(&self, pattern: String, first: u64) -> Result<Rows, Error> {
        let mut parts = JoinSet::new();
        for part in 0..PARTS {
            let (engine, pattern) = (self.engine.clone(), pattern.clone());
            parts.spawn(async move { of_part(&engine, part, &pattern, first).await });
        }
        let mut all = Rows::default();
        while let Some(part) = parts.join_next().await {
            let Rows { rows, left_out } = part.unwrap_or(Err(Error::Garbage("a call has failed")))?;
            all.rows.extend(rows);
            all.left_out += left_out;
        }
        Ok(all)
    }
}

async fn of_part(engine: &Engine, part: u8, pattern: &str, first: u64) -> Result<Rows, Error> {
    let (store, mut all) = (Store::default(), Rows::default());
    let hours: BTreeSet<_> = store.hours(engine, part).await?.into_iter().collect();
    let mut calls = 0;
    for hour in hours.range(first..=(LATEST / 3_600).max(first)) {
        let mut cursor = 0;
        loop {
            let Page { next, rows, left_out } = store.rows(engine, part, (*hour, cursor), pattern).await?;
            all.left_out += left_out;
            for Row { hour, client, numbers: [admitted, cost, refused, last] } in rows {
                if last < LATEST && name::read(&client).is_some() {
                    all.rows.insert((hour, client), Totals { admitted, cost, refused, last });
                } else {
                    all.left_out += 1;
                }
            }
            calls += usize::from(cursor != 0);
            cursor = next;
            if all.rows.len() > MOST || all.left_out > MOST || calls > CALLS {
                return Err(Error::Excess("the engine".to_owned()));
            }
            if cursor == 0 {
                break;
            }
        }
    }
    Ok(all)
}
