//! Follows an instance.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use ratelimit_base::text::{prefix::Prefix, service::ServiceName};
use ratelimit_common::{
    buckets::bucket::Bucket,
    identity::source::Source,
    limits::limit::SECOND,
    maps::{
        control::FEATURE_BANS,
        event::{BANNED, Event, REFUSED, SHADOWED},
    },
    reason::Reason,
};
use ratelimit_dataplane::{
    Error,
    instance::read_only::View,
    readings::{
        events::{News, Reader},
        gauges,
        source_counts::SourceCounts,
    },
    rules::services::Services,
    sys::host,
    tables::open::Tables,
};

use super::{
    changes::Seen,
    cookies::{Cookies, Counts},
    episode::{Episode, Turn},
    followed::{Change, Followed},
    notice::{Notice, What, Who},
};

/// The recommended time between two calls of [`Watcher::news`].
pub const STEP: Duration = Duration::from_millis(500);

/// Nanoseconds between two looks at the maps.
const LOOK: u64 = 2 * SECOND;
/// Nanoseconds between two looks while no source is throttled or banned.
const LOOK_WHEN_IDLE: u64 = 10 * SECOND;
/// Nanoseconds between the ends of one ban that packets on several CPUs impose at the same time.
const SAME_BAN: u64 = SECOND / 10;
/// Nanoseconds between readings of two clocks that count as one moment.
const NEAR: u64 = SECOND / 10_000;
/// How often both clocks are read again if something came between.
const TRIES: usize = 8;

/// Follows an instance, also if it is removed and created again.
pub struct Watcher {
    pins: PathBuf,
    reader: Option<Reader>,
    /// The time of the last event, or of the start.
    last_event: u64,
    looked: u64,
    followed: Followed,
    /// The sources whose ban was told, or is older than the watcher, and when it ends.
    banned: HashMap<Source, u64>,
    not_admitted: NotAdmitted,
    cookies: Cookies,
    changes: Seen,
}

/// Packets dropped because no bucket could be created.
#[derive(Default)]
struct NotAdmitted {
    episode: Episode,
    /// Their number before the episode.
    before: u64,
}

impl Watcher {
    /// Follows the instance in `pins` from now on.
    #[must_use]
    pub fn new(pins: &Path) -> Self {
        let mut watcher = Self {
            pins: pins.to_owned(),
            reader: None,
            last_event: host::now(),
            looked: 0,
            followed: Followed::default(),
            banned: HashMap::new(),
            not_admitted: NotAdmitted::default(),
            cookies: Cookies::default(),
            changes: Seen::all_of(pins),
        };
        // If there is no instance yet, a later look finds it.
        if let Ok(view) = View::open(pins) {
            // A ban that begins after this reading has an event.
            watcher.banned = bans(view.tables()).unwrap_or_default();
            watcher.last_event = host::now();
            watcher.reader = Reader::of(view.tables(), watcher.last_event).ok();
            let before = gauges::packets_of(view.tables(), Reason::NotAdmitted).unwrap_or_default();
            watcher.not_admitted = NotAdmitted { episode: Episode::from(before), before };
            watcher.cookies = Cookies::from(Counts::read(view.tables()).ok().flatten().unwrap_or_default());
        }
        watcher
    }

    /// Returns what has happened since the last call.
    ///
    /// # Errors
    ///
    /// Fails with [`Error::NotAttached`] if there is no instance, and with [`Error::Bpf`] if the kernel refuses. The
    /// next call returns what this one could not.
    pub fn news(&mut self) -> Result<Vec<Notice>, Error> {
        if !self.pins.exists() {
            // The memory mapping would keep the removed maps alive.
            self.reader = None;
            return Err(Error::NotAttached(self.pins.clone()));
        }
        let moment = Moment::now();
        let now = moment.monotonic;
        let is_idle = self.followed.is_empty()
            && self.banned.is_empty()
            && self.not_admitted.episode.is_idle()
            && self.cookies.is_idle();
        let is_due = now.saturating_sub(self.looked) >= if is_idle { LOOK_WHEN_IDLE } else { LOOK };
        if !is_due && !self.reader.as_ref().is_some_and(Reader::has_news) {
            return self.changes.news(&self.pins);
        }
        let view = View::open(&self.pins)?;
        let services = Services::told_apart(view.tables())?;
        let mut notices = self.changes.news(&self.pins)?;
        // Events that were read are returned even if the rest fails.
        let News { events, missed } = self.reader.as_mut().map(Reader::read).unwrap_or_default();
        for event in &events {
            self.last_event = self.last_event.max(event.time);
            let told = self.told(event, &services).into_iter();
            notices.extend(told.map(|(time, what)| Notice { at: moment.wall(time), what }));
        }
        if missed != 0 {
            notices.push(Notice { at: Timestamp::now(), what: What::LeftOut { count: missed } });
        }
        match if is_due { self.look(view.tables(), &services, now) } else { Ok(Vec::new()) } {
            Ok(seen) => notices.extend(seen.into_iter().map(|(time, what)| Notice { at: moment.wall(time), what })),
            Err(error) if notices.is_empty() => return Err(error),
            // The next look fails too, and returns the error.
            Err(_) => {}
        }
        Ok(notices)
    }

    /// Returns what an event says that is not known yet, and when it happened.
    fn told(&mut self, event: &Event, services: &Services) -> Vec<(u64, What)> {
        let Event { time, source, until, .. } = *event;
        let of = || who(&source, services);
        match event.kind {
            REFUSED | SHADOWED => {
                let change = self.followed.refused(event);
                change.map(|change| (time, changed(&source, change, services))).into_iter().collect()
            }
            BANNED => {
                let seconds = (until.saturating_sub(time) + SECOND / 2) / SECOND;
                let begun = (time, What::Banned { who: of(), seconds });
                match self.banned.insert(source, until) {
                    Some(end) if until < end.saturating_add(SAME_BAN) => Vec::new(),
                    // The last ban has ended, or was lifted, since the last look.
                    Some(end) => vec![(end.min(time), What::Unbanned { who: of() }), begun],
                    None => vec![begun],
                }
            }
            _ => Vec::new(),
        }
    }

    /// Looks at the maps for what the program does not report, and returns when it happened. If this fails, nothing has
    /// changed.
    fn look(&mut self, tables: &Tables, services: &Services, now: u64) -> Result<Vec<(u64, What)>, Error> {
        let is_same = self.reader.as_ref().map_or(Ok(false), |reader| reader.reads(tables))?;
        // The instance was replaced, or its maps were.
        let reader = if is_same { None } else { Some(Reader::of(tables, self.last_event)?) };
        let (counts, bans) = (self.counts(tables)?, bans(tables)?);
        let (not_admitted, cookies) = (gauges::packets_of(tables, Reason::NotAdmitted)?, Counts::read(tables)?);
        let mut seen = Vec::new();
        for (source, count) in counts {
            let change = self.followed.counted(source, count, now);
            seen.extend(change.map(|change| (now, changed(&source, change, services))));
        }
        // A ban that has begun since the events were read is told by the next reading.
        self.banned.retain(|source, end| {
            let is_banned = bans.contains_key(source);
            if !is_banned {
                // One that was lifted has no known time.
                seen.push(((*end).min(now), What::Unbanned { who: who(source, services) }));
            }
            is_banned
        });
        let others = self.not_admitted.counted(not_admitted, now).into_iter().chain(self.cookies.counted(cookies, now));
        seen.extend(others.map(|what| (now, what)));
        self.looked = now;
        self.reader = reader.or_else(|| self.reader.take());
        Ok(seen)
    }

    /// Returns the counters of all followed sources.
    fn counts(&self, tables: &Tables) -> Result<Vec<(Source, Option<Bucket>)>, Error> {
        if self.followed.is_empty() {
            return Ok(Vec::new());
        }
        let counts = SourceCounts::of(tables)?;
        self.followed.sources().map(|source| Ok((source, counts.tracked(&source)?))).collect()
    }
}

impl NotAdmitted {
    /// Takes the number of dropped packets at `now`.
    fn counted(&mut self, count: u64, now: u64) -> Option<What> {
        let (turn, before) = (self.episode.counted(count, now), self.before);
        if self.episode.is_idle() {
            self.before = count;
        }
        Some(match turn? {
            Turn::Begun => What::AdmissionTripped,
            Turn::Ended(_) => What::AdmissionRecovered { dropped: count.saturating_sub(before) },
        })
    }
}

fn changed(source: &Source, change: Change, services: &Services) -> What {
    let who = who(source, services);
    match change {
        Change::Throttled { reason, shadow } => What::Throttled { who, reason, shadow },
        Change::Ended { dropped, estimated, seconds, shadow } => {
            What::Ended { who, dropped, estimated, seconds, shadow }
        }
    }
}

/// Returns the sources that are banned now, and when the ban ends.
fn bans(tables: &Tables) -> Result<HashMap<Source, u64>, Error> {
    // Reading the table takes memory, which the daemon would keep.
    if tables.control()?.features & FEATURE_BANS == 0 {
        return Ok(HashMap::new());
    }
    let now = host::now();
    let bans = tables.bans()?.all().into_iter();
    Ok(bans.filter(|(_, ban)| ban.expires > now).map(|(source, ban)| (source, ban.expires)).collect())
}

fn who(source: &Source, services: &Services) -> Who {
    let (service, _) = services.of_key(source);
    Who { source: Prefix::of(source, source.prefix).to_string(), service: ServiceName(service).to_string() }
}

/// One moment on both clocks.
#[derive(Debug, Clone, Copy)]
struct Moment {
    monotonic: u64,
    wall: Timestamp,
}

impl Moment {
    /// Reads both clocks. They must be read at once: on a busy machine, whatever lies between them takes its time, and
    /// each time that is told would be late by that.
    fn now() -> Self {
        let read = || {
            let (before, wall, after) = (host::now(), Timestamp::now(), host::now());
            (after.saturating_sub(before), Self { monotonic: after, wall })
        };
        let mut best = read();
        for _ in 0..TRIES {
            if best.0 <= NEAR {
                break;
            }
            let next = read();
            if next.0 < best.0 {
                best = next;
            }
        }
        best.1
    }

    /// Converts a time of the monotonic clock to the wall clock. It can be later than the moment.
    fn wall(&self, time: u64) -> Timestamp {
        let later = i64::try_from(i128::from(time) - i128::from(self.monotonic)).unwrap_or_default();
        self.wall.checked_add(SignedDuration::from_nanos(later)).unwrap_or(self.wall)
    }
}
