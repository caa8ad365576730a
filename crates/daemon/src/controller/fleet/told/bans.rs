//! Tells what this host denies, and denies what others tell.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use ratelimit_base::text::prefix::Prefix;
use ratelimit_common::rules::rule::FLEET;
use ratelimit_dataplane::{
    Error,
    debts::denied::Denied,
    instance::read_only::View,
    lists::{action::Action, change::RequestedList, entries::Entries, listing::BANS},
    sys::host,
};
use ratelimit_fleet::{
    engine::Engine,
    kept::bans::{self, Exchange},
    table::Fleet,
};
use ratelimit_protocol::fleet::{DeniedSource, Denies};
use tokio::{task::spawn_blocking, time::Instant};

use super::{again::Again, known::Known, maps::Maps, once::Once, own_name::own_name, shown::Shown};
use crate::{controller::lists_of_others as lists, ssh};

/// How long the list stays without the daemon.
const LIFE: Duration = Duration::from_secs(60);
/// The most calls in one step.
const CALLS: usize = 24;
/// One of so many seconds is what changes of the list may take.
const PART: u32 = 20;
/// Time without changes that may be made up for. So a ban and its end, which may load the program, do not wait.
const UNUSED: Duration = Duration::from_secs(20);
/// Failures in a row before the operator hears of them. A loss of the engine is told elsewhere.
const PATIENCE: u32 = 5;
/// Sources in the status.
const SHOWN: usize = 20;

/// What this host tells and hears of denied sources.
pub(super) struct Bans {
    maps: Maps,
    tells: bool,
    accepts: bool,
    exchange: Exchange,
    known: Known,
    /// The denies of this host. None while a thread reads them.
    denied: Arc<Mutex<Denied>>,
    list: InForce,
    engine: Once,
    shown: Shown,
}

/// The list in force.
struct InForce {
    /// None at the start: an earlier daemon can have left a list.
    sources: Option<Vec<Prefix>>,
    /// When it is to be set again, because it ends by itself.
    renew: Option<Instant>,
    /// When it may change next.
    next: Pace,
    /// Sources that could not be denied.
    again: Again<Vec<Prefix>>,
    puts: Once,
}

/// Keeps changes to a part of the time.
#[derive(Debug, Default)]
struct Pace(Option<Instant>);

impl Pace {
    fn allows(&self, now: Instant) -> bool {
        self.0.is_none_or(|next| next <= now)
    }

    /// Notes how long a change took that began at `now`.
    fn took(&mut self, time: Duration, now: Instant) {
        let unused = now.checked_sub(UNUSED);
        let from = self.0.max(unused).unwrap_or(now);
        self.0 = Some(from + (time * PART).min(LIFE / 6));
    }
}

impl InForce {
    fn of(pins: &Path) -> Self {
        let (again, puts) = (Again::default(), Once::after(PATIENCE, pins));
        Self { sources: None, renew: None, next: Pace::default(), again, puts }
    }

    /// Notes what became of a try that began at this time. `Ok(false)` means that the list was in force before.
    fn conclude(&mut self, outcome: Result<bool, Error>, sources: Vec<Prefix>, began: Instant) {
        match outcome {
            Ok(has_changed) => {
                self.again.succeed();
                self.puts.succeed("sources that other hosts deny are denied here again");
                if has_changed {
                    self.renew = (!sources.is_empty()).then(|| began + LIFE / 2);
                    self.sources = Some(sources);
                }
            }
            // There is no instance. The next one needs the list.
            Err(Error::NotAttached(_)) => self.sources = None,
            Err(error) => {
                self.again.fail(&sources, sources.clone(), Instant::now());
                self.puts.fail(|| format!("sources that other hosts deny are not denied here: {error}"));
            }
        }
    }
}

impl Bans {
    pub(super) fn of(maps: &Maps, fleet: &Fleet, shown: Shown) -> Self {
        let (pins, host) = (maps.pins(), own_name(&fleet.name, maps.pins()));
        Self {
            maps: maps.clone(),
            tells: fleet.tells_bans,
            accepts: fleet.accepts.bans,
            exchange: Exchange::of(host.clone()),
            known: Known::of(&host),
            denied: Arc::default(),
            list: InForce::of(pins),
            engine: Once::after(PATIENCE, pins),
            shown,
        }
    }

    /// Tells and hears once.
    pub(super) async fn step(&mut self, engine: Option<&Engine>) {
        if let Some(engine) = engine.filter(|_| self.tells || self.accepts) {
            self.exchange(engine).await;
        }
        self.known.forget(host::now());
        self.put().await;
        self.show();
    }

    async fn exchange(&mut self, engine: &Engine) {
        let (denied, mut before) = (self.read().await, Vec::new());
        for _ in 0..CALLS {
            let now = host::now();
            let tells = denied.as_ref().map(|denied| self.known.due(denied, now)).unwrap_or_default();
            let told: Vec<_> = tells.iter().map(|(source, _)| *source).collect();
            // What has no room is not told again and again.
            let (has_more_to_tell, heard) = (told != before, self.exchange.exchange(engine, &tells).await);
            before = told;
            match heard {
                Ok(news) => {
                    let has_more = news.has_more || news.is_anew || has_more_to_tell;
                    self.known.hear(news, host::now());
                    self.engine.succeed("hosts tell each other again of the sources that they deny");
                    if !has_more {
                        return;
                    }
                }
                Err(error) => {
                    return self
                        .engine
                        .fail(|| format!("hosts cannot tell each other of the sources that they deny: {error}"));
                }
            }
        }
    }

    /// Returns what this host denies. None if it does not tell, or cannot know.
    async fn read(&self) -> Option<HashMap<Prefix, u64>> {
        if !self.tells {
            // What an earlier daemon of this host has told is not so any more.
            return Some(HashMap::new());
        }
        let (pins, denied) = (self.maps.pins().to_owned(), Arc::clone(&self.denied));
        let read = move || {
            let view = View::open(&pins)?;
            denied.lock().unwrap_or_else(PoisonError::into_inner).read(view.tables())
        };
        spawn_blocking(read).await.ok()?.ok()
    }

    /// Puts the list in force if it has changed, would end, or is not there any more.
    async fn put(&mut self) {
        let now = Instant::now();
        if !self.list.next.allows(now) {
            return;
        }
        let sessions: Vec<_> = ssh::sessions().iter().map(|session| session.peer).collect();
        let sources = if self.accepts { self.known.denied(&sessions) } else { Vec::new() };
        let is_due = self.list.renew.is_some_and(|renew| now >= renew);
        if self.list.again.resting(now) == Some(&sources) {
            return;
        }
        let is_known = self.list.sources.as_ref() == Some(&sources) && !is_due;
        let wanted = sources.clone();
        let put = move |pins: &Path| {
            if is_known && lists::is_there(pins, BANS)? != wanted.is_empty() {
                return Ok(false);
            }
            let entries = Entries::of(wanted);
            let expires = host::now().saturating_add(LIFE.as_nanos() as u64);
            let list = RequestedList {
                name: BANS.to_owned(),
                entries,
                action: Action::Deny,
                expires,
                origin: FLEET,
                file: None,
            };
            let set = if list.entries.is_empty() { Vec::new() } else { vec![list] };
            let is_empty = set.is_empty();
            lists::put(pins, FLEET, set, &|list| is_empty && list.name == BANS).map(|()| true)
        };
        let outcome = self.maps.with(put).await.unwrap_or_else(|| Err(self.maps.gone()));
        if !matches!(outcome, Ok(false)) {
            self.list.next.took(now.elapsed(), now);
        }
        self.list.conclude(outcome, sources, now);
    }

    fn show(&self) {
        let now = host::now();
        let mut sources: Vec<_> = self.known.of_others().filter(|_| self.accepts).collect();
        let in_force = self.list.sources.as_ref().map_or(0, Vec::len);
        sources.sort_unstable_by(|one, other| (other.2, one.0).cmp(&(one.2, other.0)));
        let source = |(source, host, end): &(Prefix, &str, u64)| DeniedSource {
            source: source.to_string(),
            host: bans::name(host).to_owned(),
            left_seconds: end.saturating_sub(now) / 1_000_000_000,
        };
        let denies = (self.tells || self.accepts).then(|| Denies {
            told: self.known.told(),
            in_force,
            left_out: self.known.left_out,
            problem: self.engine.problem().or(self.list.puts.problem()).map(ToOwned::to_owned),
            sources: sources.iter().take(SHOWN).map(source).collect(),
        });
        self.shown.change(|told| told.denies = denies);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_take_a_part_of_the_time_and_make_up_for_time_without_any() {
        let begin = Instant::now() + Duration::from_secs(60);
        let (mut pace, slow, second) = (Pace::default(), Duration::from_millis(450), Duration::from_secs(1));
        for _ in 0..2 {
            assert!(pace.allows(begin));
            pace.took(slow, begin);
        }
        assert!(pace.allows(begin));
        pace.took(slow, begin);
        assert!(!pace.allows(begin) && pace.allows(begin + 7 * second));
        // A minute later, the same is possible, and not more.
        let later = begin + 60 * second;
        for _ in 0..3 {
            assert!(pace.allows(later));
            pace.took(slow, later);
        }
        assert!(!pace.allows(later + 6 * second) && pace.allows(later + 8 * second));
    }

    #[test]
    fn a_problem_ends_when_the_list_is_found_in_force() {
        let mut list = InForce::of(Path::new("/nowhere"));
        let (sources, now) = (vec!["192.0.2.1".parse().unwrap()], Instant::now());
        list.conclude(Ok(true), sources.clone(), now);
        for _ in 0..PATIENCE {
            list.conclude(Err(Error::TooManyPolicies(1)), sources.clone(), now);
        }
        assert!(list.puts.problem().is_some());
        assert_eq!(list.again.resting(Instant::now()), Some(&sources));
        list.conclude(Ok(false), sources.clone(), now);
        assert_eq!((list.puts.problem(), list.again.resting(Instant::now())), (None, None));
        // The list still ends by itself, unless it is renewed in time.
        assert_eq!((list.sources, list.renew), (Some(sources), Some(now + LIFE / 2)));
    }
}
