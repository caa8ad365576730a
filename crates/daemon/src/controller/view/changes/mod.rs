//! Changes of rules for packets by the console: previews, changes and their way back. Each is the change that a command
//! makes, with its checks. The daemon checks everything, whatever the console has checked.

mod effect;
mod plan;
mod preview;
mod refusals;
mod remembered;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::Result;
use ratelimit_base::{
    notify::journal::{Level, say},
    text::{prefix::Prefix, service::ServiceName},
};
use ratelimit_common::identity::service::Service;
use ratelimit_dataplane::{
    Error, Instance,
    instance::read_only::View,
    readings::hour::Hour,
    rules::{batch::Change, list, target::Target},
    spared::force,
    tables::open::Tables,
};
use ratelimit_protocol::view::{Answer, Changed, Place, RefusalKind, RuleState, Visitor, Wanted};
use tokio::{sync::Notify, task::spawn_blocking, time::timeout};

use self::{
    plan::{Plan, target, terms, words},
    refusals::{BANNED, forbidden, in_words, refused},
    remembered::{Done, Remembered},
};
use crate::{
    controller::events::changes::record_of_console,
    ssh::{self, Session},
};

/// The CPU time of a look at all sources, each minute and before a preview.
const LOOK: Duration = Duration::from_millis(300);
/// Time between two looks.
const MINUTE: Duration = Duration::from_secs(60);

/// What the daemon keeps for changes by the console.
#[derive(Debug)]
pub(super) struct Desk {
    /// The session that started the daemon.
    origin: ssh::Origin,
    kept: Mutex<Kept>,
    /// Changes have become possible.
    allowed: Notify,
}

/// What is kept while changes are allowed.
#[derive(Debug, Default)]
struct Kept {
    /// None without changes.
    hour: Option<Hour>,
    remembered: Remembered,
}

impl Desk {
    pub(super) fn new(origin: ssh::Origin) -> Self {
        Self { origin, kept: Mutex::default(), allowed: Notify::new() }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Allows changes, or no longer. Without them, nothing is kept.
    pub(super) fn allow(&self, is_on: bool) {
        let mut kept = self.kept();
        if kept.hour.is_some() != is_on {
            *kept = Kept { hour: is_on.then(Hour::default), ..Kept::default() };
            self.allowed.notify_one();
        }
    }

    /// Looks at all sources in each minute, and at once when changes become possible.
    pub(super) async fn watch(self: Arc<Self>, pins: PathBuf) {
        loop {
            let _ = timeout(MINUTE, self.allowed.notified()).await;
            let (desk, pins) = (Arc::clone(&self), pins.clone());
            // Without an instance, there is nothing to see. The next minute tries again.
            let _ = spawn_blocking(move || desk.look(&pins)).await;
        }
    }

    /// Looks at all sources, if changes are allowed.
    pub(super) fn look(&self, pins: &Path) -> Result<()> {
        let mut kept = self.kept();
        if let Some(hour) = &mut kept.hour {
            hour.look(View::open(pins)?.tables(), LOOK)?;
        }
        Ok(())
    }

    /// Returns the reason why nothing may change.
    fn forbidden(&self) -> Option<Answer> {
        self.kept().hour.is_none().then(forbidden)
    }

    /// Answers with one rule.
    pub(super) fn rule(&self, tables: &Tables, place: &Place) -> Result<Answer> {
        if let Some(forbidden) = self.forbidden() {
            return Ok(forbidden);
        }
        let target = match target(place) {
            Ok(target) => target,
            Err(text) => return Ok(refused(RefusalKind::Wrong, text)),
        };
        let ban = list::ban(tables, target)?;
        let rule = if ban.is_some() { ban } else { list::get(tables, target)? };
        let (terms, problem) =
            rule.as_ref().map(terms).transpose().map_or_else(|why| (None, Some(why)), |terms| (terms, None));
        let words = rule.as_ref().map(words);
        let last = self.kept().remembered.last_of(target).filter(|last| last.after == words).map(Done::shown);
        Ok(Answer::Rule(Box::new(RuleState { packets: target.to_string(), words, terms, problem, last })))
    }

    /// Answers with what a change would have done.
    pub(super) fn preview(&self, pins: &Path, tables: &Tables, wanted: &Wanted, visitor: &Visitor) -> Result<Answer> {
        if let Some(forbidden) = self.forbidden() {
            return Ok(forbidden);
        }
        // The minute that is not over counts too.
        self.look(pins)?;
        let planned = target(&wanted.place).and_then(|target| {
            if list::ban(tables, target).map_err(|error| error.to_string())?.is_some() {
                return Err(BANNED.to_owned());
            }
            let existing = list::get(tables, target).map_err(|error| error.to_string())?;
            let plan = Plan::of(wanted, target, existing.as_ref())?;
            force::check(tables, &plan.change, &self.peers(visitor)).map_err(|error| error.to_string())?;
            Ok((plan, existing))
        });
        match planned {
            Ok((plan, existing)) => {
                let sessions = self.sessions().collect::<Vec<_>>();
                let sessions = (&sessions[..], connection(visitor));
                let kept = self.kept();
                // The file may have changed meanwhile.
                let Some(hour) = &kept.hour else { return Ok(forbidden()) };
                let preview = preview::preview(tables, &plan, existing.as_ref(), hour, sessions)?;
                Ok(Answer::Preview(Box::new(preview)))
            }
            Err(text) => Ok(refused(RefusalKind::Wrong, text)),
        }
    }

    /// Makes a change, if the rule has still these words.
    pub(super) fn change(
        &self,
        pins: &Path,
        wanted: &Wanted,
        before: Option<&str>,
        visitor: &Visitor,
    ) -> Result<Answer> {
        if let Some(forbidden) = self.forbidden() {
            return Ok(forbidden);
        }
        let target = match target(&wanted.place) {
            Ok(target) => target,
            Err(text) => return Ok(refused(RefusalKind::Wrong, text)),
        };
        let mut instance = Instance::open_in_force(pins)?;
        if let Some(answer) = self.changes_nothing(&instance.tables, target)? {
            return Ok(answer);
        }
        let existing = list::get(&instance.tables, target)?;
        let now = existing.as_ref().map(words);
        if now.as_deref() != before {
            let text = format!(
                "Nothing was changed: the rule has changed since the preview. It was {}, and is {} now. Make a new preview.",
                in_words(before),
                in_words(now.as_deref())
            );
            return Ok(refused(RefusalKind::Conflict, text));
        }
        let plan = match Plan::of(wanted, target, existing.as_ref()) {
            Ok(plan) => plan,
            Err(text) => return Ok(refused(RefusalKind::Wrong, text)),
        };
        let mut done = Done::begin(target, existing, &visitor.name, plan.command);
        Ok(match self.make(&mut instance, plan.change, visitor, &mut done)? {
            Ok(()) => self.remember(done, &wanted.place),
            Err(answer) => answer,
        })
    }

    /// Takes back a change, if its rule has not changed since.
    pub(super) fn undo(&self, pins: &Path, number: u64, of: &Place, visitor: &Visitor) -> Result<Answer> {
        if let Some(forbidden) = self.forbidden() {
            return Ok(forbidden);
        }
        let mut instance = Instance::open_in_force(pins)?;
        let conflict = |text: &str| Ok(refused(RefusalKind::Conflict, format!("Nothing was changed: {text}")));
        let found = self.kept().remembered.get(number).map(|last| (last.target, last.after.clone(), last.back()));
        let found = found.filter(|(found, ..)| target(of).as_ref() == Ok(found));
        let Some((target, after, (back, what))) = found else {
            return conflict("the daemon remembers no such change. Read the rule again.");
        };
        if let Some(answer) = self.changes_nothing(&instance.tables, target)? {
            return Ok(answer);
        }
        let existing = list::get(&instance.tables, target)?;
        let now = existing.as_ref().map(words);
        if now != after {
            let [after, now] = [after.as_deref(), now.as_deref()].map(in_words);
            return conflict(&format!("the rule has changed since. It was {after}, and is {now} now."));
        }
        let change = match back {
            Ok(change) => change,
            Err(text) => return conflict(text),
        };
        let mut done = Done::begin(target, existing, &visitor.name, what);
        Ok(match self.make(&mut instance, change, visitor, &mut done)? {
            Ok(()) => self.remember(done, &place(target)),
            Err(answer) => answer,
        })
    }

    /// Returns why nothing may change under the lock: a reload may have come before, or a ban.
    fn changes_nothing(&self, tables: &Tables, target: Target) -> Result<Option<Answer>> {
        let is_banned = list::ban(tables, target)?.is_some();
        let banned = || refused(RefusalKind::Conflict, format!("Nothing was changed: {BANNED}"));
        Ok(self.forbidden().or_else(|| is_banned.then(banned)))
    }

    /// Makes a change of rules, unless it shuts out a session or the visitor.
    fn make(
        &self,
        instance: &mut Instance,
        change: Change,
        visitor: &Visitor,
        done: &mut Done,
    ) -> Result<Result<(), Answer>> {
        // A ban that has come meanwhile stays too.
        let change = Change { keeps_bans: true, ..change };
        let record = |done: &Done, instance: &Instance| {
            if let Err(error) = record_of_console(instance.pins(), &done.by, &done.what) {
                say(Level::Warning, &format!("view: a change is not in the log: {error}"));
            }
        };
        let guard = ssh::Guard::of_visitor(&instance.tables, self.sessions(), connection(visitor))?;
        let spared = force::check(&instance.tables, &change, &self.peers(visitor));
        match spared.and_then(|()| instance.change(&change, &mut |_| {}, &|tables| guard.check(tables))) {
            Ok(_) => record(done, instance),
            // The next command puts it in force.
            Err(error @ Error::Written { .. }) => {
                record(done, instance);
                return Err(error.into());
            }
            Err(error @ (Error::ShutOut { .. } | Error::Spared { .. } | Error::Allowed(_))) => {
                return Ok(Err(refused(RefusalKind::Conflict, format!("{error}."))));
            }
            Err(error) => return Ok(Err(refused(RefusalKind::Wrong, format!("Nothing was changed: {error}.")))),
        }
        // A rule that cannot be read has no way back, but it is in force.
        done.end(list::get(&instance.tables, done.target).ok().flatten().as_ref().map(words));
        Ok(Ok(()))
    }

    fn remember(&self, done: Done, place: &Place) -> Answer {
        let number = self.kept().remembered.add(done);
        Answer::Changed(Changed { number, place: place.clone() })
    }

    /// Returns the sessions that no change shuts out.
    fn sessions(&self) -> impl Iterator<Item = Session> + use<> {
        self.origin.session().into_iter().chain(ssh::sessions())
    }

    /// Returns the addresses of these sessions, and of the visitor.
    fn peers(&self, visitor: &Visitor) -> Vec<Prefix> {
        connection(visitor).into_iter().chain(self.sessions()).map(Session::prefix).collect()
    }
}

/// Returns the connection of a visitor. One within this host passes no interface.
fn connection(visitor: &Visitor) -> Option<Session> {
    let (peer, port) = visitor.connection?;
    let peer = peer.to_canonical();
    (!peer.is_loopback()).then_some(Session { peer, port })
}

/// Returns a target in words.
pub(super) fn place(target: Target) -> Place {
    let service = match target.service {
        Service::Any => String::new(),
        service => ServiceName(service).to_string(),
    };
    Place { sources: target.sources.to_string(), service }
}
