//! Reads the file again, with the files that it names.

use std::{path::PathBuf, sync::Arc};

use super::{
    access::Tokens,
    certificate,
    rules::{Book, Operators},
    service::Service,
    sockets::Shown,
};
use crate::{
    config::{
        daemon::fleet::Fleet,
        requests::{self, Listens, Requests},
    },
    controller::notify::{
        journal::{self, Level},
        service_manager,
    },
    fleet::way::Place,
    usage::UsagePlace,
};

/// What keeps usage from the engine of a fleet.
const NO_ENGINE: &str = "usage = \"fleet\" needs a table [fleet] with a server as engine";

/// What only a restart changes.
#[derive(Debug, PartialEq)]
pub(super) struct Used {
    listens: Listens,
    is_encrypted: bool,
    store: Option<PathBuf>,
    fleet: Option<Fleet>,
    usage: Option<UsagePlace>,
    stops: Option<PathBuf>,
}

impl Used {
    pub(super) fn of(requests: &Requests) -> Self {
        let Requests { listens, encryption, store, fleet, usage, stops, .. } = requests;
        Self {
            listens: listens.clone(),
            is_encrypted: encryption.is_some(),
            store: store.clone(),
            fleet: fleet.clone(),
            usage: usage.clone(),
            stops: stops.clone(),
        }
    }

    /// Warns of each part that another file changes.
    fn compare(&self, other: &Self) {
        let parts = [
            (self.listens != other.listens, "another address needs a restart: the one before stays in use"),
            (self.is_encrypted != other.is_encrypted, "encryption needs a restart: connections stay as they were"),
            (self.store != other.store, "another file of rules needs a restart: the one before stays in use"),
            (self.fleet != other.fleet, "another fleet needs a restart: the one before stays in use"),
            (self.usage != other.usage, "other settings of usage need a restart: those before stay in use"),
            (self.stops != other.stops, "another socket of the daemon needs a restart: the one before stays in use"),
        ];
        for (_, warning) in parts.iter().filter(|(is_other, _)| *is_other) {
            journal::say(Level::Warning, warning);
        }
    }
}

/// Fails if a server of this file would decide nothing.
pub(crate) fn check(requests: &Requests) -> Result<(), String> {
    if !requests.listens.is_any() {
        return Err("nothing to serve: add `http` or `grpc` to the table [serve]".to_owned());
    }
    let has_server = requests.fleet.as_ref().is_some_and(|fleet| matches!(fleet.engine, Place::Server(_)));
    if matches!(requests.usage, Some(UsagePlace::Fleet(_))) && !has_server {
        return Err(NO_ENGINE.to_owned());
    }
    if requests.rules.is_empty() && requests.store.is_none() {
        return Err("nothing would be limited: add a table [[check]], or `rules` to the table [serve]".to_owned());
    }
    Ok(())
}

/// What a reload needs.
pub(super) struct Reload {
    pub(super) file: PathBuf,
    pub(super) used: Used,
    pub(super) shown: Option<Arc<Shown>>,
    pub(super) service: Arc<Service>,
    pub(super) book: Arc<Book>,
}

impl Reload {
    /// Puts the file in force. A file with problems changes nothing.
    pub(super) fn run(&self) {
        service_manager::reloading();
        match requests::read(&self.file) {
            Ok(requests) => match check(&requests) {
                Ok(()) => self.apply(requests),
                Err(problem) => kept(&format!("{}: {problem}", self.file.display())),
            },
            Err(error) => kept(&error.to_string()),
        }
        service_manager::ready("serving");
    }

    fn apply(&self, mut requests: Requests) {
        self.used.compare(&Used::of(&requests));
        let (tokens, encryption) = (std::mem::take(&mut requests.tokens), requests.encryption.take());
        // A problem of the rules does not keep a token that was removed.
        self.service.change_tokens(Tokens::new(tokens));
        if let Some((shown, encryption)) = self.shown.as_ref().zip(encryption) {
            match certificate::read(&encryption) {
                Ok(certified) => shown.change(certified),
                Err(problem) => {
                    journal::say(Level::Error, &format!("the certificate before stays in use: {problem}"));
                }
            }
        }
        let style = requests.headers;
        let count = match self.book.reload(Operators::of(requests)) {
            Ok(count) => count,
            Err(problem) => return kept(&problem),
        };
        self.service.change_style(style);
        journal::say(Level::Info, &format!("{} in force", rules_in_words(count)));
    }
}

fn kept(problem: &str) {
    journal::say(Level::Error, &format!("the rules before stay in force: {problem}"));
}

pub(super) fn rules_in_words(count: usize) -> String {
    if count == 1 { "1 rule".to_owned() } else { format!("{count} rules") }
}
