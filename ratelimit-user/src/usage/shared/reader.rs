//! The engine, as commands read it while servers write.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tokio::task::JoinSet;

use super::name;
use crate::{
    fleet::{
        engine::Engine,
        error::Error,
        kept::usage::{PARTS, Row, Store},
    },
    usage::{
        client::Pair,
        reader::{Found, Order, Step},
        row::Totals,
    },
};

/// The most rows that one command reads of a part.
const MOST: usize = 1 << 17;
/// The latest time that people can read, in seconds since the Unix epoch: the end of the year 9999.
const LATEST: u64 = 253_402_207_200;

/// The engine, as commands read it.
pub struct SharedReader<'a> {
    engine: &'a Engine,
}

/// A row: its hour, its client, and its rule.
type Rows = HashMap<(u64, String), Totals>;

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
    ) -> Result<Vec<Found>, Error> {
        let mut steps: BTreeMap<(u64, String), Totals> = BTreeMap::new();
        for ((hour, client), totals) in self.rows(name::pattern(wanted, rule), since / 3_600).await? {
            let start = if step == Step::Day { hour / 24 * 24 } else { hour };
            steps.entry((start.saturating_mul(3_600), client)).or_default().add(totals);
        }
        let found = steps.into_iter().filter_map(|((start, client), totals)| {
            let (of, client) = name::read(&client)?;
            let is_wanted = rule.is_none_or(|rule| rule == of) && wanted.iter().all(|pair| pair.is_of(&client));
            is_wanted.then_some(Found { rule: of, client, start: Some(start), totals })
        });
        Ok(found.collect())
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
    pub async fn top(&self, most: u32, rule: Option<&str>, since: u64, order: Order) -> Result<Vec<Found>, Error> {
        let mut clients: BTreeMap<String, Totals> = BTreeMap::new();
        for ((_, client), totals) in self.rows(name::pattern(&[], rule), since / 3_600).await? {
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
        Ok(found)
    }

    /// Returns the names of all rules with usage.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    ///
    /// # Errors
    ///
    /// Any [`Error`] but that of the URL, also for more rows than fit.
    pub async fn rules(&self) -> Result<Vec<String>, Error> {
        let rows = self.rows(name::pattern(&[], None), 0).await?;
        let rules: BTreeSet<_> = rows.keys().filter_map(|(_, client)| Some(name::read(client)?.0)).collect();
        Ok(rules.into_iter().collect())
    }

    /// Returns all rows that match a pattern.
    async fn rows(&self, pattern: String, first: u64) -> Result<Rows, Error> {
        let mut parts = JoinSet::new();
        for part in 0..PARTS {
            let (engine, pattern) = (self.engine.clone(), pattern.clone());
            parts.spawn(async move { of_part(&engine, part, &pattern, first).await });
        }
        let mut rows = Rows::new();
        while let Some(part) = parts.join_next().await {
            rows.extend(part.unwrap_or(Err(Error::Garbage("a call has failed")))?);
        }
        Ok(rows)
    }
}

async fn of_part(engine: &Engine, part: u8, pattern: &str, first: u64) -> Result<Rows, Error> {
    let (store, mut rows) = (Store::default(), Rows::new());
    for hour in store.hours(engine, part).await?.into_iter().filter(|hour| *hour >= first) {
        let mut cursor = 0;
        loop {
            let (next, some) = store.rows(engine, part, (hour, cursor), pattern).await?;
            rows.extend(some.into_iter().filter_map(|Row { hour, client, numbers }| {
                let [admitted, cost, refused, last] = numbers;
                (last < LATEST).then_some(((hour, client), Totals { admitted, cost, refused, last }))
            }));
            if rows.len() > MOST {
                return Err(Error::Excess("the engine".to_owned()));
            }
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
    }
    Ok(rows)
}
