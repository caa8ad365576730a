//! The state of the daemon, and what it does when something happens. Nothing here waits for events.

use std::{
    cell::LazyCell,
    future::pending,
    mem,
    path::{Path, PathBuf},
    slice,
    time::Duration,
};

use anyhow::Result;
use ratelimit_base::{
    files::writers,
    notify::{
        journal::{Level, say},
        service_manager,
    },
};
use ratelimit_dataplane::{
    Error,
    attach::attachment::Attachment,
    debts::Saved,
    instance::{Instance, daemon_lock::DaemonLock, lock, read_only::View, segments},
    sys::joined_packets,
};
use tokio::time::{Instant, sleep_until};

use super::{
    in_force::InForce,
    memory,
    messages::{allowed_ssh, failure, fetched_now, fleet_change, level, skipped_lines, text},
    network::Followed,
    saver::load,
};
use crate::{
    config::{self, RequestTables, listed::Listed, outranked},
    controller::{
        change::{
            again::{can_succeed_now, is_locked},
            appear::{self, Appeared},
            applied::Applied,
            apply,
        },
        crowdsec, downloads,
        events::changes::record_of_daemon,
        fleet, metrics,
        socket::request::{Caller, FileState, Reloaded, Reply},
        state, stops, view,
    },
    ssh::{self, ProtectedSessions},
};

/// The state of the daemon.
pub(super) struct Daemon {
    pins: PathBuf,
    file: PathBuf,
    /// Whether every reload may block SSH sessions.
    force: bool,
    /// Checks what the file says about requests.
    requests: RequestTables,
    /// The session that started the daemon.
    origin: ssh::Origin,
    /// The file that is in force.
    pub(super) in_force: InForce,
    metrics: metrics::Service,
    pub(super) fleet: fleet::service::Service,
    /// Where applications ask to stop clients.
    pub(super) stops: stops::Service,
    /// Where other programs read what the daemon shows.
    view: view::Service,
    downloads: downloads::Service,
    crowdsec: crowdsec::Service,
    /// The daemon lock. With it, no other daemon applies a file to this instance.
    daemon_lock: Option<DaemonLock>,
    /// The state file of this daemon.
    state: Option<state::Owned>,
    /// What waits because another command had the lock of the instance.
    late: Late,
}

/// What follows the tables of a file, on threads of its own while the file has them.
pub(super) struct Services {
    pub(super) metrics: metrics::Service,
    pub(super) fleet: fleet::service::Service,
    pub(super) stops: stops::Service,
    pub(super) view: view::Service,
    pub(super) downloads: downloads::Service,
    pub(super) crowdsec: crowdsec::Service,
}

/// Work that was given up because another command had the lock of the instance.
#[derive(Default)]
struct Late {
    /// Whether a changed file is to be read.
    file: bool,
    /// Whether the clock was set.
    clock: bool,
    /// Interfaces that have come or gone.
    interfaces: Vec<config::Interface>,
    /// The time of the next try.
    due: Option<Instant>,
}

/// How long to wait before the next try. Each of them waits for the lock too.
const AGAIN: Duration = Duration::from_secs(5);

impl Daemon {
    /// Returns a daemon that has not applied its file yet.
    pub(super) fn new(pins: &Path, file: &Path, force: bool, requests: RequestTables, services: Services) -> Self {
        let Services { metrics, fleet, stops, view, downloads, crowdsec } = services;
        Self {
            pins: pins.to_owned(),
            file: file.to_owned(),
            force,
            requests,
            origin: ssh::Origin::of_this_process(),
            in_force: InForce::default(),
            metrics,
            fleet,
            stops,
            view,
            downloads,
            crowdsec,
            daemon_lock: None,
            state: None,
            late: Late::default(),
        }
    }

    /// Applies the file for the first time.
    pub(super) fn start(&mut self) -> Result<()> {
        let applied = self.apply(true, None)?;
        self.metrics.begin();
        let text = format!("{}: in force, {}", self.file.display(), text(&applied));
        say(level(&applied), &text);
        record_of_daemon(&self.pins, &format!("started with {text}"));
        self.crowdsec.begin();
        service_manager::ready(&self.in_force.status());
        Ok(())
    }

    fn apply(&mut self, is_first: bool, caller: Option<Caller>) -> Result<Applied> {
        let applied = self.read_and_apply(is_first, caller);
        memory::release();
        applied
    }

    fn read_and_apply(&mut self, is_first: bool, caller: Option<Caller>) -> Result<Applied> {
        let config = config::read(&self.file, self.requests)?;
        config.lists.iter().filter_map(skipped_lines).for_each(|text| say(Level::Warning, &text));
        // The steps for metrics and stops that can fail come before the instance changes.
        let prepared = self.metrics.prepare(&config.metrics)?;
        let stops = self.stops.prepare(config.stops.as_ref())?;
        let view = self.view.prepare(config.view.as_ref())?;
        let state =
            config.state.as_ref().map(|file| state::Owned::take(&file.path, self.state.as_ref())).transpose()?;
        let protected = self.protected(is_first, caller);
        let saved = LazyCell::new(|| config.state.as_ref().map_or_else(Saved::default, load));
        let saved = || saved.clone();
        let mut apply = || apply::apply(&self.pins, &config, is_first, &protected, &saved, &mut self.daemon_lock);
        let mut applied = match apply() {
            Err(error) if can_succeed_now(&error, &config) => apply()?,
            applied => applied?,
        };
        applied.outranked = outranked::lines(&config.rules);
        applied.fleet = fleet_change(self.in_force.fleet.as_ref(), config.fleet.as_ref()).filter(|_| !is_first);
        applied.changeable = writers::warnings(&config.files);
        self.state = state;
        let is_unusable = |name: &str| applied.unusable_lists.iter().any(|list| list.name == name);
        self.metrics.commit(prepared, Listed::of(&config, is_unusable));
        let mut changed = self.stops.commit(stops);
        changed.extend(self.view.commit(view));
        applied.settings.extend(changed.into_iter().filter(|_| !is_first));
        self.crowdsec.prepare(config.crowdsec.as_ref());
        self.fleet.join(config.fleet.clone());
        self.downloads.follow(&config.lists);
        self.in_force = InForce::new(&self.file, config, &applied);
        Ok(applied)
    }

    /// Returns the sessions that the file must not block: those of the requester, of the start of the daemon, and of
    /// systemd-logind.
    fn protected(&self, is_first: bool, caller: Option<Caller>) -> ProtectedSessions {
        let command = if is_first { "ratelimit run --force" } else { "ratelimit reload --force" };
        let requester = caller.and_then(|caller| caller.session);
        let sessions = requester.into_iter().chain(self.origin.session()).chain(ssh::sessions());
        let force = self.force || caller.is_some_and(|caller| caller.force);
        let declines = ssh::is_declined() || caller.is_some_and(|caller| caller.declines);
        let starter = self.origin.session().filter(|_| is_first);
        let own = requester.or(starter).filter(|_| !force);
        ProtectedSessions::new(sessions.filter(|_| !force), command).allowing(own).declining(declines)
    }

    /// Reads and applies the file again. If that fails, the previous rules stay in force. If another command had the
    /// lock, and nobody has asked for this reload or one was due before, it is due again later.
    pub(super) fn reload(&mut self, caller: Option<Caller>) -> Reply {
        service_manager::reloading();
        let was_late = mem::take(&mut self.late.file);
        let outcome = self.apply(false, caller);
        self.metrics.record_reload(outcome.is_ok());
        match outcome {
            Ok(applied) => {
                let fetched = caller.and_then(|_| fetched_now(&self.downloads.fetch_now())).unwrap_or_default();
                let text = format!("{}: reloaded, {}{fetched}", self.file.display(), text(&applied));
                say(level(&applied), &text);
                record_of_daemon(&self.pins, &text);
                self.crowdsec.begin();
                service_manager::ready(&self.in_force.status());
                let Applied { replaced, removed_allows, .. } = applied;
                Reply::Applied(Reloaded { message: text, replaced, removed_allows })
            }
            Err(error) => {
                let (text, status) = failure(&error);
                if (caller.is_none() || was_late) && is_locked(&error) {
                    self.late.file = true;
                    self.late.due = Some(Instant::now() + AGAIN);
                }
                say(Level::Error, &text);
                record_of_daemon(&self.pins, &format!("reload failed, {text}"));
                self.in_force.refused = Some(status.clone());
                service_manager::ready(&format!("reload failed, {status}"));
                Reply::Failed(text)
            }
        }
    }

    /// Computes the ends of rules again, because the clock was set.
    pub(super) fn renew_ends(&mut self) {
        match apply::renew_ends(&self.pins, &self.in_force.timed, &self.protected(false, None)) {
            Ok(changed) => say(Level::Info, &format!("the clock was set, rules with another end: {changed}")),
            Err(error) => {
                let text = format!("the clock was set, but the ends of rules stay: {error:#}");
                say(Level::Error, &text);
                if is_locked(&error) {
                    self.late.clock = true;
                    self.late.due = Some(Instant::now() + AGAIN);
                } else {
                    self.metrics.record_reload(false);
                    service_manager::ready(&text);
                }
            }
        }
        memory::release();
    }

    /// Looks at what changes without a report: the routes, and programs on other interfaces.
    pub(super) fn look_around(&mut self) {
        self.follow_routes();
        // A report of the kernel can be lost.
        self.follow_network();
        self.attach_free();
    }

    /// Makes answers with SYN cookies offer what the routes accept by now. The next look tries again after a failure, and
    /// does what this one cannot without waiting for a command.
    fn follow_routes(&self) {
        if View::open(&self.pins).is_ok_and(|view| view.offers_other_segments()) && !lock::is_locked(&self.pins) {
            let _ = Instance::open_in_force(&self.pins).and_then(|mut instance| segments::renew(&mut instance));
            memory::release();
        }
    }

    /// Has this host spare what its addresses, routes and name servers are by now. A command with the lock can have looked
    /// before the change.
    pub(super) fn follow_network(&mut self) -> Followed {
        if !View::open(&self.pins).is_ok_and(|view| view.spares_others()) {
            return Followed::Nothing;
        }
        if lock::is_locked(&self.pins) {
            return Followed::Later;
        }
        // It renews what is spared.
        let outcome = Instance::open_in_force(&self.pins);
        memory::release();
        let is_done = outcome.is_ok() || matches!(outcome, Err(Error::NotAttached(_) | Error::NotInForce));
        if is_done { Followed::Changed } else { Followed::Later }
    }

    /// Waits until work is due that was given up. Without any, waits forever.
    pub(super) async fn late(&self) {
        match self.late.due {
            Some(due) => sleep_until(due).await,
            None => pending().await,
        }
    }

    /// Tries again what was given up.
    pub(super) fn try_again(&mut self) {
        let late = mem::take(&mut self.late);
        if late.file {
            self.reload(None);
        }
        if late.clock {
            self.renew_ends();
        }
        self.attach_again(&late.interfaces);
    }

    /// Attaches to those of these interfaces of the file that have appeared, for the first time or again, and detaches what
    /// is above one of them. Then attaches what others have kept off until now. A failure is reported once.
    pub(super) fn attach_again(&mut self, changed: &[config::Interface]) {
        changed.iter().for_each(|interface| self.attach_one(interface));
        self.attach_free();
        memory::release();
    }

    /// Attaches what other interfaces have kept off until now.
    pub(super) fn attach_free(&mut self) {
        for interface in self.in_force.free(&self.pins) {
            self.attach_one(&interface);
        }
    }

    fn attach_one(&mut self, interface: &config::Interface) {
        let name = &interface.name;
        let how = match (self.in_force.is_left_off(name), self.in_force.is_awaited(name)) {
            (true, _) => "no other interface keeps it off any more",
            (false, true) => "appeared",
            (false, false) => "back again",
        };
        let is_awaited = self.in_force.is_left_off(name) || self.in_force.is_awaited(name);
        let protected = self.protected(false, None);
        let listed = &self.in_force.interfaces;
        match appear::attach_again(&self.pins, interface, listed, is_awaited, &protected, &mut self.daemon_lock) {
            Ok(Appeared::Attached { allowed, made_room }) => {
                let others = made_room.iter().map(|other| format!("{} detached: {}", other.name, other.why));
                let allowed = allowed.iter().map(|peer| allowed_ssh(peer));
                let notices = joined_packets::notices(slice::from_ref(name));
                let more: String = others.chain(allowed).chain(notices).map(|text| format!("; {text}")).collect();
                say(Level::Info, &format!("{name}: {how}, attached{more}"));
                self.in_force.stop_waiting(name);
                made_room.iter().for_each(|other| self.in_force.leave_off(&other.name));
            }
            Ok(Appeared::Already) => self.in_force.stop_waiting(name),
            Ok(Appeared::LeftOff { left_off, was_attached }) => {
                if was_attached || !self.in_force.is_left_off(name) {
                    let now = if was_attached { "detached" } else { "not attached" };
                    say(Level::Warning, &format!("{name}: {now}: {}", left_off.why));
                }
                self.in_force.leave_off(name);
            }
            Ok(Appeared::Gone) => {
                if self.in_force.record_gone(name) {
                    let text = "gone, and not limited any more: the daemon attaches to it when it is back";
                    say(Level::Warning, &format!("{name}: {text}"));
                }
            }
            Ok(Appeared::No) => {}
            Err(error) => {
                let is_on = |attachment: &Attachment| attachment.is_on(name);
                let is_attached = View::attachments_in(&self.pins).is_ok_and(|all| all.iter().any(is_on));
                let text = if is_attached {
                    format!("{name}: stays attached, but what is above and below it was not looked at: {error:#}")
                } else {
                    format!("{name}: {how}, but not limited: {error:#}")
                };
                let is_new = self.in_force.fail(name, &text);
                if is_new {
                    say(Level::Error, &text);
                }
                if is_locked(&error) {
                    self.late.interfaces.push(interface.clone());
                    self.late.due = Some(Instant::now() + AGAIN);
                } else if is_new {
                    self.metrics.record_reload(false);
                    service_manager::ready(&text);
                }
            }
        }
    }

    /// Returns the file that is in force, and what it requests. Takes no lock of the instance.
    pub(super) fn file_state(&self) -> Result<FileState> {
        let (stops, remote_lists, crowdsec) = (self.stops.state(), self.downloads.lists(), self.crowdsec.state());
        Ok(FileState { stops, remote_lists, crowdsec, ..self.in_force.state(&self.file, &self.pins)? })
    }
}
