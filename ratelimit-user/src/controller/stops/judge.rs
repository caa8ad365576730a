//! Decides about one request: its proof, whom it spares, and whether there is room.

use std::{
    collections::HashMap,
    net::IpAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::sync::{
    mpsc::UnboundedSender,
    oneshot::{self, Receiver},
};

use super::{
    counts::Shown,
    in_force::{Begin, InForce, refused, whole_seconds},
    spared::{self, Host, Spared},
};
use crate::{
    config::daemon::stops::Mode,
    controller::notify::journal::{Level, say},
    dataplane::{
        Error,
        instance::read_only::View,
        sys::{host, netlink::connection},
    },
    fleet::kept::stops::Stopped,
    ssh,
    stops::{Answer, Asker, Connection, Outcome, Place, Reason, Request, around},
    text::{prefix::Prefix, units},
};

/// How long the addresses of this host are known, and those of SSH clients.
const KNOWN: Duration = Duration::from_secs(5);
/// How long a failure to look at this host is known, and that a network may not be limited as a whole. The applications and
/// commands that wait for the judge must not wait for the same failure each time.
const PAUSE: Duration = Duration::from_secs(2);
/// The most networks that are remembered.
const NETWORKS: usize = 1_024;
/// Requests in a second. Each asks the kernel several times.
const REQUESTS: u32 = 1_000;
/// Limits of other hosts in a second that are checked.
const HEARD: u32 = 200;
/// A second.
const SECOND: Duration = Duration::from_secs(1);

/// Decides about requests.
pub(super) struct Judge {
    pins: PathBuf,
    proxies: Vec<Prefix>,
    begins: UnboundedSender<Begin>,
    known: Option<Known>,
    /// The last failure to know it, and when that was.
    failed: Option<(Duration, String)>,
    /// Networks that may not be limited as a whole, and since when that is known.
    narrow: HashMap<Place, Duration>,
    /// How often it has changed whom this host spares.
    changes: u64,
    asked: Second,
    heard: Second,
    pub(super) in_force: InForce,
}

/// The beginning of a second, and what has happened in it.
#[derive(Default)]
struct Second(Duration, u32);

impl Second {
    /// Counts one more, unless there were so many.
    fn admits(&mut self, most: u32, now: Duration) -> bool {
        if now.saturating_sub(self.0) >= SECOND {
            *self = Self(now, 0);
        }
        let admits = self.1 < most;
        self.1 += u32::from(admits);
        admits
    }
}

/// What the daemon knows of its host and of SSH, as it was at a time.
#[derive(Clone)]
struct Known {
    at: Duration,
    host: Host,
    sessions: Vec<IpAddr>,
    ssh: Vec<u16>,
}

impl Known {
    fn spares(&self, place: &Place, proxies: &[Prefix]) -> Option<Spared> {
        if self.ssh.contains(&place.port) {
            return Some(Spared::Ssh(place.port));
        }
        self.host.spares(place.source, proxies, &self.sessions)
    }
}

/// What a line gets.
pub(super) enum Reply {
    Now(Answer),
    /// When the kernel has the limit.
    Later(Receiver<Answer>),
}

impl Judge {
    pub(super) fn of(pins: &Path, shown: Shown, begins: UnboundedSender<Begin>) -> Self {
        Self {
            pins: pins.to_owned(),
            proxies: Vec::new(),
            begins,
            known: None,
            failed: None,
            narrow: HashMap::new(),
            changes: 0,
            asked: Second::default(),
            heard: Second::default(),
            in_force: InForce::of(shown),
        }
    }

    /// Applies the table of a file.
    pub(super) fn follow(&mut self, mode: Option<Mode>, proxies: &[Prefix]) {
        if self.proxies != proxies {
            self.proxies = proxies.to_vec();
            self.changes += 1;
        }
        self.in_force.follow(mode);
    }

    /// Decides about a line of a process of this user.
    pub(super) fn line(&mut self, line: &[u8], user: Option<u32>) -> Reply {
        let now = Duration::from_nanos(host::now());
        let reply = match Request::read(line) {
            Ok(request) => self.request(&request, user, now).unwrap_or_else(Reply::Now),
            Err(error) => Reply::Now(refused(Reason::Bad, error)),
        };
        if let Reply::Now(answer) = &reply {
            self.in_force.count(answer);
        }
        reply
    }

    fn request(&mut self, request: &Request, user: Option<u32>, now: Duration) -> Result<Reply, Answer> {
        if !self.asked.admits(REQUESTS, now) {
            return Err(refused(Reason::TooMany, format!("{REQUESTS} requests arrived within a second")));
        }
        let Connection { local, remote } = request.connection;
        if !connection::is_accepted(local, remote).map_err(unknown)? {
            let why = format!("this host has no connection that {remote} has opened to {local}");
            return Err(refused(Reason::NotEstablished, why));
        }
        let (address, port) = (remote.ip(), local.port());
        let place = Place { source: Prefix::host(address), port };
        self.permits(place, now).map_err(unknown)?.map_err(|(reason, why)| refused(reason, why))?;
        let network = around(address).map(|source| Place { source, port });
        // The check of a network reads all rules.
        let is_due = |network: &Place| {
            self.in_force.book.is_wide(*network, place) && !self.in_force.book.in_force_at(*network, now)
        };
        let network = network.filter(is_due);
        let may_widen = network.is_some_and(|network| self.may_widen(network, now));
        self.in_force.pass(now);
        Ok(Reply::Now(match self.in_force.book.ask(address, port, may_widen, now) {
            Outcome::New { place, end, times } => {
                let asker = Asker {
                    rule: request.rule.clone(),
                    client: Some(request.label()),
                    user,
                    connection: Some(request.connection),
                    host: None,
                };
                let Place { source, port } = place;
                let life = end.saturating_sub(now);
                if self.in_force.mode == Some(Mode::On) {
                    let (answer, answered) = oneshot::channel();
                    return match self.begins.send(Begin { place, end, times, asker, answer: Some(answer) }) {
                        Ok(()) => Ok(Reply::Later(answered)),
                        Err(_) => Err(refused(Reason::Unknown, "the daemon ends")),
                    };
                }
                self.say_in_shadow(&place, life, times, &asker);
                Answer::WouldStop { source: source.to_string(), port, seconds: life.as_secs(), times }
            }
            Outcome::InForce { place: Place { source, port }, end } => {
                let seconds = end.saturating_sub(now).as_secs();
                Answer::Already { source: source.to_string(), port, seconds }
            }
            Outcome::Refused(refusal) => refused(Reason::TooMany, refusal),
        }))
    }

    /// Hears that another host limits a client for this time.
    pub(super) fn hear(&mut self, Stopped { source, port, rule }: Stopped, host: &str, left: Duration) {
        let now = Duration::from_nanos(host::now());
        let place = Place { source, port };
        let is_network = around(source.address()) == Some(source);
        let is_known = self.in_force.book.in_force_at(place, now);
        if self.in_force.mode.is_none()
            || is_known
            || !source.is_host() && !is_network
            || !self.heard.admits(HEARD, now)
        {
            return;
        }
        // What cannot be checked, or is spared here, is limited on other hosts only.
        if !matches!(self.permits(place, now), Ok(Ok(()))) {
            return;
        }
        self.in_force.pass(now);
        let Outcome::New { end, times, .. } = self.in_force.book.hear(place, now.saturating_add(left), now) else {
            return;
        };
        let asker = Asker { rule, client: None, user: None, connection: None, host: Some(host.to_owned()) };
        if self.in_force.mode == Some(Mode::On) {
            let _ = self.begins.send(Begin { place, end, times, asker, answer: None });
        } else {
            self.say_in_shadow(&place, end.saturating_sub(now), times, &asker);
        }
        self.in_force.show();
    }

    /// Returns whether a network may be limited as a whole.
    fn may_widen(&mut self, network: Place, now: Duration) -> bool {
        self.narrow.retain(|_, since| now.saturating_sub(*since) < PAUSE);
        if self.narrow.contains_key(&network) || self.narrow.len() >= NETWORKS {
            return false;
        }
        let may_widen = matches!(self.permits(network, now), Ok(Ok(())));
        if !may_widen {
            self.narrow.insert(network, now);
        }
        may_widen
    }

    /// Returns why a place is not limited, whoever asks.
    fn permits(&mut self, place: Place, now: Duration) -> Result<Result<(), (Reason, String)>, Error> {
        if let Some(spared) = self.spares(&place, now)? {
            return Ok(Err((Reason::Spared, spared.to_string())));
        }
        let view = View::open(&self.pins)?;
        if !place.source.is_host() && !spared::is_whole(view.tables(), place.source)? {
            return Ok(Err((Reason::Ruled, format!("{} is not one source", place.source))));
        }
        Ok(spared::limit(view.tables(), &place)?.map(drop).map_err(|why| (Reason::Ruled, why)))
    }

    /// Returns why this host spares a place now, whatever its rules are.
    pub(super) fn spares(&mut self, place: &Place, now: Duration) -> Result<Option<Spared>, Error> {
        let known = self.known(now)?;
        Ok(known.spares(place, &self.proxies))
    }

    /// Returns the limits in force that this host spares by now, and the number of that change. None if nothing has
    /// changed since the change `seen`, or if the host cannot be looked at.
    pub(super) fn spared(&mut self, seen: u64) -> Option<(u64, Vec<(Place, Spared)>)> {
        let known = self.known(Duration::from_nanos(host::now())).ok()?;
        let spared = |place: Place| Some((place, known.spares(&place, &self.proxies)?));
        (self.changes != seen).then(|| (self.changes, self.in_force.places().filter_map(spared).collect()))
    }

    fn say_in_shadow(&self, Place { source, port }: &Place, life: Duration, times: u32, asker: &Asker) {
        let life = units::write_duration(Duration::from_secs(whole_seconds(life)));
        say(Level::Info, &format!("{source} tcp/{port}: would be limited for {life} (number {times}): {asker}"));
    }

    /// Returns what this host needs.
    fn known(&mut self, now: Duration) -> Result<Known, Error> {
        if let Some(known) = self.known.as_ref().filter(|known| now.saturating_sub(known.at) < KNOWN) {
            return Ok(known.clone());
        }
        if let Some((_, error)) = self.failed.as_ref().filter(|(at, _)| now.saturating_sub(*at) < PAUSE) {
            return Err(Error::Netlink(error.clone()));
        }
        let ssh = ssh::ports();
        let read = Host::read().and_then(|host| Ok((host, ssh::peers(&ssh)?)));
        let (host, peers) = read.inspect_err(|error| self.failed = Some((now, reason(error))))?;
        let sessions =
            ssh::sessions().into_iter().chain(ssh::session()).map(|session| session.peer).chain(peers).collect();
        let known = Known { at: now, host, sessions, ssh };
        let is_same = |old: &Known| (&old.host, &old.sessions, &old.ssh) == (&known.host, &known.sessions, &known.ssh);
        self.changes += u64::from(!self.known.as_ref().is_some_and(is_same));
        self.known = Some(known.clone());
        Ok(known)
    }
}

fn unknown(error: Error) -> Answer {
    refused(Reason::Unknown, error)
}

/// Returns an error without what [`Error::Netlink`] says before it.
fn reason(error: &Error) -> String {
    if let Error::Netlink(reason) = error { reason.clone() } else { error.to_string() }
}
