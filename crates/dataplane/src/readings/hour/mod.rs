//! What the busiest sources have sent in each minute of the last hour. Its memory has a fixed size, whatever sources there
//! are: in each minute, the busiest sources stay.

pub mod counts;
mod places;

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use ratelimit_common::{
    identity::{service::Service, source::Source},
    limits::limit::SECOND,
    maps::control::{FEATURE_FRONT, FEATURE_SAMPLE, SAMPLE_RATE},
};

use self::{counts::Counts, places::Places};
use super::tracked;
use crate::{
    Error,
    rules::{resolve, services::Services},
    sys::host,
    tables::open::Tables,
};

/// Sources of a minute. With all minutes, they take up to 6 MB.
pub const MOST: usize = 1_024;
/// Sources of a minute that is not over. The busiest of them stay.
const MOST_NOW: usize = 4 * MOST;
/// The shortest minute, in nanoseconds.
const MINUTE: u64 = 60 * SECOND;
/// The time that is kept, in nanoseconds.
const HOUR: u64 = 60 * MINUTE;

/// The last hour.
#[derive(Debug, Default)]
pub struct Hour {
    places: Places,
    minutes: VecDeque<Minute>,
    now: Option<Now>,
    /// Whether a look has not read all sources, so that some may be missing.
    is_part: bool,
    /// The most packets that one sample stands for.
    sample: u64,
}

/// A minute that is over.
#[derive(Debug)]
struct Minute {
    time: Span,
    sources: Vec<((Source, Service), Counts)>,
}

/// A minute that is not over.
#[derive(Debug, Default)]
struct Now {
    begin: u64,
    /// The last look.
    end: u64,
    sources: HashMap<(Source, Service), Counts>,
}

/// When something was counted, in nanoseconds of the monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Its begin.
    pub begin: u64,
    /// Its end.
    pub end: u64,
}

/// What one source has sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// The source.
    pub source: Source,
    /// The service of these packets, if rules tell it apart.
    pub service: Service,
    /// All of it.
    pub all: Counts,
    /// The same by minutes, the oldest first.
    pub minutes: Vec<(Span, Counts)>,
}

impl Hour {
    /// Looks at as many buckets as this much CPU time allows.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses.
    pub fn look(&mut self, tables: &Tables, budget: Duration) -> Result<(), Error> {
        let (control, services) = (tables.control()?, Services::read(tables)?);
        let is_sampled = control.features & FEATURE_FRONT != 0 && control.features & FEATURE_SAMPLE != 0;
        self.sample = if is_sampled { SAMPLE_RATE } else { 1 };
        self.begin(host::now());
        let part = tracked::within(tables, budget, |source, bucket| {
            if resolve::is_source(&source, &bucket) {
                let key = (source, services.of_key(&source).0);
                self.note(source.hash(&control.seed), key, Counts::of(&bucket));
            }
        })?;
        self.end(host::now(), part >= 1.0);
        Ok(())
    }

    fn begin(&mut self, now: u64) {
        self.places.begin();
        self.now.get_or_insert_with(|| Now { begin: now, end: now, ..Now::default() });
    }

    fn note(&mut self, hash: u64, key: (Source, Service), total: Counts) {
        let Some(since) = self.places.note(hash, total).filter(|since| since.packets > 0) else { return };
        if let Some(Now { sources, .. }) = &mut self.now {
            sources.entry(key).or_default().add(since);
            if sources.len() >= MOST_NOW {
                *sources = busiest(std::mem::take(sources)).into_iter().collect();
            }
        }
    }

    fn end(&mut self, now: u64, is_whole: bool) {
        self.places.end(is_whole);
        self.is_part |= !is_whole;
        let is_over = |minute: &mut Now| now.saturating_sub(minute.begin) >= MINUTE;
        if let Some(Now { begin, sources, .. }) = self.now.take_if(is_over) {
            self.minutes.push_back(Minute { time: Span { begin, end: now }, sources: busiest(sources) });
            self.now = Some(Now { begin: now, end: now, ..Now::default() });
        } else if let Some(minute) = &mut self.now {
            minute.end = now;
        }
        while self.minutes.front().is_some_and(|minute| now.saturating_sub(minute.time.end) > HOUR) {
            self.minutes.pop_front();
        }
        if self.minutes.is_empty() {
            self.is_part = !is_whole;
        }
    }

    /// Returns what was counted of each source, those with the most packets first.
    #[must_use]
    pub fn sent(&self) -> Vec<Sent> {
        let mut all: HashMap<(Source, Service), Sent> = HashMap::new();
        let now = self.now.iter().flat_map(|Now { begin, end, sources }| {
            let time = Span { begin: *begin, end: *end };
            sources.iter().map(move |(key, counts)| (time, *key, *counts))
        });
        let before = self
            .minutes
            .iter()
            .flat_map(|Minute { time, sources }| sources.iter().map(move |(key, counts)| (*time, *key, *counts)));
        for (time, (source, service), counts) in before.chain(now) {
            let begin = || Sent { source, service, all: Counts::default(), minutes: Vec::new() };
            let sent = all.entry((source, service)).or_insert_with(begin);
            sent.all.add(counts);
            sent.minutes.push((time, counts));
        }
        let mut all: Vec<Sent> = all.into_values().collect();
        all.sort_unstable_by_key(|sent| (std::cmp::Reverse(sent.all.packets), sent.source.address()));
        all
    }

    /// Returns the time that was watched.
    #[must_use]
    pub fn watched(&self) -> Duration {
        let begin = self.minutes.front().map(|minute| minute.time.begin).or(self.now.as_ref().map(|now| now.begin));
        let end = self.now.as_ref().map(|now| now.end);
        Duration::from_nanos(end.zip(begin).map_or(0, |(end, begin)| end.saturating_sub(begin)))
    }

    /// Returns whether sources may be missing, because a look did not read all of them.
    #[must_use]
    pub const fn is_part(&self) -> bool {
        self.is_part
    }

    /// Returns the packets that one count may stand for.
    #[must_use]
    pub const fn sample(&self) -> u64 {
        self.sample
    }
}

/// Returns the busiest sources.
fn busiest(sources: HashMap<(Source, Service), Counts>) -> Vec<((Source, Service), Counts)> {
    let mut all: Vec<_> = sources.into_iter().collect();
    if all.len() > MOST {
        all.select_nth_unstable_by_key(MOST, |(_, counts)| std::cmp::Reverse(counts.packets));
        all.truncate(MOST);
    }
    all.shrink_to_fit();
    all
}

#[cfg(test)]
mod tests;
