//! Decides about one request: its proof, whom it spares, and whether there is room. It asks the kernel without a lock, so a
//! slow answer delays no other request and no command.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use ratelimit_base::text::prefix::Prefix;
use ratelimit_dataplane::{
    Error,
    instance::read_only::View,
    sys::{host, netlink::connection},
};
use ratelimit_protocol::stops::{Answer, Asker, Connection, Outcome, Place, Reason, Request, Stopped, around};
use tokio::sync::{
    mpsc::UnboundedSender,
    oneshot::{self, Receiver},
};

use super::{
    counts::Shown,
    in_force::{Begin, refused},
    ledger::{Ledger, REQUESTS},
    spared::{self, Looks, Spared},
};
use crate::config::daemon::stops::Mode;

/// How often one place is judged, if the file changes each time meanwhile.
const TRIES: usize = 3;

/// Decides about requests.
pub(super) struct Judge {
    pins: PathBuf,
    begins: UnboundedSender<Begin>,
    looks: Looks,
    ledger: Mutex<Ledger>,
}

/// What a line gets.
pub(super) enum Reply {
    Now(Answer),
    /// When the kernel has the limit.
    Later(Receiver<Answer>),
}

/// A change of whom this host spares: of the file, and of what is known of the host.
pub(super) type SparedChange = (u64, u64);

impl Judge {
    pub(super) fn of(pins: &Path, shown: Shown, begins: UnboundedSender<Begin>) -> Self {
        Self { pins: pins.to_owned(), begins, looks: Looks::default(), ledger: Mutex::new(Ledger::of(shown)) }
    }

    /// Returns what it remembers. Whoever has this must not ask the kernel.
    pub(super) fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides about a line of a process of this user. This asks the kernel.
    pub(super) fn line(&self, line: &[u8], user: Option<u32>) -> Reply {
        let reply = match Request::read(line) {
            Ok(request) => self.request(&request, user).unwrap_or_else(Reply::Now),
            Err(error) => Reply::Now(refused(Reason::Bad, error)),
        };
        if let Reply::Now(answer) = &reply {
            self.lock().in_force.count(answer);
        }
        reply
    }

    fn request(&self, request: &Request, user: Option<u32>) -> Result<Reply, Answer> {
        if !self.lock().admits_request(now()) {
            return Err(refused(Reason::TooMany, format!("{REQUESTS} requests arrived within a second")));
        }
        let Connection { local, remote } = request.connection;
        if !connection::is_accepted(local, remote).map_err(unknown)? {
            let why = format!("this host has no connection that {remote} has opened to {local}");
            return Err(refused(Reason::NotEstablished, why));
        }
        let (address, port) = (remote.ip(), local.port());
        let place = Place { source: Prefix::host(address), port };
        let network = around(address).map(|source| Place { source, port });
        for _ in 0..TRIES {
            let terms = self.lock().terms();
            self.permits(place, &terms.1).map_err(unknown)?.map_err(|(reason, why)| refused(reason, why))?;
            let may_widen = network.is_some_and(|network| self.may_widen(network, place, &terms.1));
            let mut ledger = self.lock();
            if !ledger.has_changed_since(&terms) {
                return self.decide(&mut ledger, request, user, may_widen);
            }
        }
        Err(refused(Reason::Unknown, "the file of the daemon has changed meanwhile: ask again"))
    }

    /// Decides about a request that the host permits.
    fn decide(
        &self,
        ledger: &mut Ledger,
        request: &Request,
        user: Option<u32>,
        may_widen: bool,
    ) -> Result<Reply, Answer> {
        let (now, Connection { local, remote }) = (now(), request.connection);
        let Some(mode) = ledger.in_force.mode else {
            return Err(refused(Reason::Unknown, "the file of the daemon has no table [stops] any more"));
        };
        ledger.in_force.pass(now);
        Ok(Reply::Now(match ledger.in_force.book.ask(remote.ip(), local.port(), may_widen, now) {
            Outcome::New { place, end, times } => {
                let asker = Asker {
                    rule: request.rule.clone(),
                    client: Some(request.label()),
                    user,
                    connection: Some(request.connection),
                    host: None,
                };
                if mode == Mode::On {
                    let (answer, answered) = oneshot::channel();
                    return match self.begins.send(Begin { place, end, times, asker, answer: Some(answer) }) {
                        Ok(()) => Ok(Reply::Later(answered)),
                        Err(_) => Err(refused(Reason::Unknown, "the daemon ends")),
                    };
                }
                let seconds = ledger.in_force.would_begin(place, end, times, asker);
                Answer::WouldStop { source: place.source.to_string(), port: place.port, seconds, times }
            }
            Outcome::InForce { place: Place { source, port }, end } => {
                let seconds = end.saturating_sub(now).as_secs();
                Answer::Already { source: source.to_string(), port, seconds }
            }
            Outcome::Refused(refusal) => refused(Reason::TooMany, refusal),
        }))
    }

    /// Hears that another host limits a client for this time. This asks the kernel.
    pub(super) fn hear(&self, Stopped { source, port, rule }: Stopped, host: &str, left: Duration) {
        let (place, ends) = (Place { source, port }, now().saturating_add(left));
        let is_network = around(source.address()) == Some(source);
        if !source.is_host() && !is_network || !self.lock().admits_heard(place, now()) {
            return;
        }
        for _ in 0..TRIES {
            let terms = self.lock().terms();
            // What cannot be checked, or is spared here, is limited on other hosts only.
            if !matches!(self.permits(place, &terms.1), Ok(Ok(()))) {
                return;
            }
            let mut ledger = self.lock();
            if ledger.has_changed_since(&terms) {
                continue;
            }
            let (now, Some(mode)) = (now(), ledger.in_force.mode) else { return };
            ledger.in_force.pass(now);
            let Outcome::New { end, times, .. } = ledger.in_force.book.hear(place, ends, now) else { return };
            let asker = Asker { rule, client: None, user: None, connection: None, host: Some(host.to_owned()) };
            if mode == Mode::On {
                let _ = self.begins.send(Begin { place, end, times, asker, answer: None });
                return ledger.in_force.show();
            }
            ledger.in_force.would_begin(place, end, times, asker);
            return;
        }
    }

    /// Returns whether a network may be limited as a whole, and is to be.
    fn may_widen(&self, network: Place, place: Place, proxies: &[Prefix]) -> bool {
        if !self.lock().is_wide(network, place, now()) {
            return false;
        }
        let may_widen = matches!(self.permits(network, proxies), Ok(Ok(())));
        if !may_widen {
            self.lock().note_narrow(network, now());
        }
        may_widen
    }

    /// Returns why a place is not limited, whoever asks.
    fn permits(&self, place: Place, proxies: &[Prefix]) -> Result<Result<(), (Reason, String)>, Error> {
        let (known, _) = self.looks.known(now())?;
        if let Some(spared) = known.spares(&place, proxies) {
            return Ok(Err((Reason::Spared, spared.to_string())));
        }
        let view = View::open(&self.pins)?;
        if !place.source.is_host() && !spared::is_whole(view.tables(), place.source)? {
            return Ok(Err((Reason::Ruled, format!("{} is not one source", place.source))));
        }
        Ok(spared::limit(view.tables(), &place)?.map(drop).map_err(|why| (Reason::Ruled, why)))
    }

    /// Returns why this host spares a place now, whatever its rules are. This asks the kernel.
    pub(super) fn spares(&self, place: &Place) -> Result<Option<Spared>, Error> {
        let (known, _) = self.looks.known(now())?;
        let (_, proxies) = self.lock().terms();
        Ok(known.spares(place, &proxies))
    }

    /// Returns the limits in force that this host spares by now, and the number of that change. None if nothing has
    /// changed since the change `seen`, or if the host cannot be looked at. This asks the kernel.
    pub(super) fn spared(&self, seen: SparedChange) -> Option<(SparedChange, Vec<(Place, Spared)>)> {
        let (known, of_host) = self.looks.known(now()).ok()?;
        let ((of_file, proxies), places) = {
            let ledger = self.lock();
            let terms = ledger.terms();
            if (terms.0, of_host) == seen {
                return None;
            }
            (terms, ledger.in_force.places().collect::<Vec<_>>())
        };
        // Nobody waits while very many are compared.
        let spared = |place: Place| Some((place, known.spares(&place, &proxies)?));
        Some(((of_file, of_host), places.into_iter().filter_map(spared).collect()))
    }
}

fn now() -> Duration {
    Duration::from_nanos(host::now())
}

fn unknown(error: Error) -> Answer {
    refused(Reason::Unknown, error)
}
