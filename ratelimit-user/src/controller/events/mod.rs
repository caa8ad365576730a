//! Follows what happens: what the program tells of, and what shows only when one looks again, such as that nothing happens any more.

mod notice;

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use ratelimit_common::{
    event::{BANNED, Event, QUIET, REFUSED},
    limit::SECOND,
    reason::Reason,
    source::Source,
};

pub use self::notice::{Notice, What, Who};
use crate::{
    dataplane::{
        Error,
        events::{News, Reader},
        host,
        services::Services,
        tables::Tables,
        view::View,
    },
    prefix::Prefix,
    service::ServiceName,
};

/// How often one should ask for news.
pub const STEP: Duration = Duration::from_millis(500);

/// Nanoseconds between two looks at what the program does not tell of.
const LOOK: u64 = 2 * SECOND;

/// Sources that are followed until they are quiet again; of others only the beginning is told.
const FOLLOWED: usize = 10_000;

/// Whoever follows an instance, also across its end and a new beginning.
pub struct Watcher {
    pins: PathBuf,
    reader: Option<Reader>,
    looked: u64,
    throttled: HashMap<Source, Throttled>,
    banned: HashSet<Source>,
    not_admitted: NotAdmitted,
}

/// A source that is over its limit.
struct Throttled {
    since: u64,
    /// Packets dropped when that began, and at the last look.
    begin: u64,
    dropped: u64,
    /// When that was seen to grow.
    grown: u64,
}

/// Packets dropped because there was no new bucket.
#[derive(Default)]
struct NotAdmitted {
    begin: u64,
    count: u64,
    grown: Option<u64>,
}

impl Watcher {
    /// Follows the instance in `pins` from now on.
    #[must_use]
    pub fn new(pins: &Path) -> Self {
        let mut watcher = Self {
            pins: pins.to_owned(),
            reader: None,
            looked: 0,
            throttled: HashMap::new(),
            banned: HashSet::new(),
            not_admitted: NotAdmitted::default(),
        };
        // Where there is none yet, the first look finds it.
        if let Ok(view) = View::open(pins) {
            watcher.reader = Reader::of(view.tables(), true).ok();
            watcher.banned = bans(view.tables()).unwrap_or_default();
            watcher.not_admitted.count = not_admitted(view.tables()).unwrap_or_default();
        }
        watcher
    }

    /// What has happened since the last time.
    ///
    /// # Errors
    ///
    /// [`Error::NotAttached`] while there is no instance, [`Error::Bpf`] where the kernel refuses.
    pub fn news(&mut self) -> Result<Vec<Notice>, Error> {
        let now = host::now();
        let News { events, missed } = self.reader.as_mut().map(Reader::read).unwrap_or_default();
        let mut notices = Vec::new();
        let is_due = now.saturating_sub(self.looked) >= LOOK;
        if is_due || !events.is_empty() {
            let view = View::open(&self.pins)?;
            let services = Services::read(view.tables())?;
            for event in &events {
                notices.extend(self.told(event, &services, now));
            }
            if is_due {
                self.looked = now;
                self.look(view.tables(), &services, now, &mut notices)?;
            }
        }
        if missed != 0 {
            notices.push(Notice { time: Timestamp::now(), what: What::LeftOut { count: missed } });
        }
        Ok(notices)
    }

    /// What an event comes to, unless it is known already.
    fn told(&mut self, event: &Event, services: &Services, now: u64) -> Option<Notice> {
        let Event { time, source, until, .. } = *event;
        let who = who(&source, services);
        let what = match event.kind {
            REFUSED => {
                let is_followed = self.throttled.contains_key(&source);
                if !is_followed && self.throttled.len() < FOLLOWED {
                    self.throttled.insert(source, Throttled { since: time, begin: 0, dropped: 0, grown: now });
                }
                let reason = Reason::ALL.get(event.reason as usize).map_or("unknown", |reason| reason.name());
                (!is_followed).then_some(What::Throttled { who, reason })?
            }
            BANNED => {
                let seconds = until.saturating_sub(time) / SECOND;
                self.banned.insert(source).then_some(What::Banned { who, seconds })?
            }
            _ => return None,
        };
        Some(Notice { time: wall(time, now), what })
    }

    /// What shows only when one looks.
    fn look(&mut self, tables: &Tables, services: &Services, now: u64, notices: &mut Vec<Notice>) -> Result<(), Error> {
        let mut add = |what| notices.push(Notice { time: Timestamp::now(), what });
        if !self.reader.as_ref().map_or(Ok(false), |reader| reader.reads(tables))? {
            // Another instance, or another version of it: all that it has told so far is news.
            self.reader = Some(Reader::of(tables, false)?);
        }
        let mut quiet = Vec::new();
        for (source, throttled) in &mut self.throttled {
            let dropped = tables.dropped(source)?.unwrap_or(throttled.dropped);
            if throttled.dropped == 0 {
                throttled.begin = dropped;
            }
            if dropped != throttled.dropped {
                (throttled.dropped, throttled.grown) = (dropped, now);
            }
            if now.saturating_sub(throttled.grown) >= QUIET {
                quiet.push(*source);
            }
        }
        for source in quiet {
            if let Some(Throttled { since, begin, dropped, grown }) = self.throttled.remove(&source) {
                let seconds = grown.saturating_sub(since) / SECOND;
                add(What::Ended { who: who(&source, services), dropped: dropped.saturating_sub(begin), seconds });
            }
        }
        let bans = bans(tables)?;
        for source in self.banned.difference(&bans) {
            add(What::Unbanned { who: who(source, services) });
        }
        self.banned = bans;
        let count = not_admitted(tables)?;
        let state = &mut self.not_admitted;
        if count > state.count {
            if state.grown.is_none() {
                state.begin = state.count;
                add(What::AdmissionTripped);
            }
            state.grown = Some(now);
        } else if state.grown.is_some_and(|grown| now.saturating_sub(grown) >= QUIET) {
            state.grown = None;
            add(What::AdmissionRecovered { dropped: count.saturating_sub(state.begin) });
        }
        state.count = count;
        Ok(())
    }
}

/// Who is banned now.
fn bans(tables: &Tables) -> Result<HashSet<Source>, Error> {
    let now = host::now();
    Ok(tables.bans()?.into_iter().filter(|(_, ban)| ban.expires > now).map(|(source, _)| source).collect())
}

fn not_admitted(tables: &Tables) -> Result<u64, Error> {
    let counts = tables.counts()?;
    Ok(counts.iter().find(|(reason, _)| *reason == Reason::NotAdmitted).map_or(0, |(_, count)| count.packets))
}

fn who(source: &Source, services: &Services) -> Who {
    let (service, _) = services.of_key(source);
    Who { source: Prefix::of(source, source.prefix).to_string(), service: ServiceName(service).to_string() }
}

/// The wall clock's time of a time of the monotonic clock.
fn wall(time: u64, now: u64) -> Timestamp {
    let ago = SignedDuration::from_nanos(i64::try_from(now.saturating_sub(time)).unwrap_or(i64::MAX));
    Timestamp::now().checked_sub(ago).unwrap_or_else(|_| Timestamp::now())
}
