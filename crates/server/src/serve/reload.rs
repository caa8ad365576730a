//! Reads the file again, with the files that it names.

use std::{
    fs, iter,
    path::{Path, PathBuf},
    sync::Arc,
};

use ratelimit_base::{
    files::writers,
    notify::{
        journal::{self, Level},
        service_manager,
    },
    tables::files,
};
use ratelimit_fleet::{table::Fleet, way::Place};

use super::{
    access::Tokens,
    certificate,
    rules::{Book, Operators},
    service::Service,
    sockets::Shown,
};
use crate::{
    config::{self as requests, Listens, Requests, console::Console},
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
    console: Option<Console>,
}

impl Used {
    pub(super) fn of(requests: &Requests) -> Self {
        let Requests { listens, encryption, store, fleet, usage, stops, console, .. } = requests;
        Self {
            listens: listens.clone(),
            is_encrypted: encryption.is_some(),
            store: store.clone(),
            fleet: fleet.clone(),
            usage: usage.clone(),
            stops: stops.clone(),
            console: console.clone(),
        }
    }

    /// Fails if these rules would limit nothing until a restart.
    fn check(&self, requests: &Requests) -> Result<(), String> {
        if requests.rules.is_empty() && self.store.is_none() {
            return Err(
                "nothing would be limited: `rules` in [serve] needs a restart, so add a table [[check]]".to_owned()
            );
        }
        Ok(())
    }

    /// Returns a line for each part that another file changes.
    fn differences(&self, other: &Self) -> Vec<String> {
        let (listens, others) = (&self.listens, &other.listens);
        let tls = |used: &Self| used.is_encrypted.then_some(());
        let not_yet = "not in use yet";
        let usage = match (&self.usage, &other.usage) {
            (Some(used), Some(other)) => used.differences(other),
            _ => vec!["usage"],
        };
        let of_usage = |key| of_part(&format!("`{key}` in [serve]"), &self.usage, &other.usage, "no usage is kept yet");
        let parts = [
            of_part("`http` in [serve]", &listens.http, &others.http, not_yet),
            of_part("`grpc` in [serve]", &listens.grpc, &others.grpc, not_yet),
            of_part("`metrics` in [serve]", &listens.metrics, &others.metrics, not_yet),
            of_part("`tls-cert` in [serve]", &tls(self), &tls(other), "connections stay without encryption"),
            of_part("`rules` in [serve]", &self.store, &other.store, "callers cannot change rules yet"),
            of_part("`stops` in [serve]", &self.stops, &other.stops, "no client is stopped yet"),
            of_part("[console]", &self.console, &other.console, not_yet),
            of_part("[fleet]", &self.fleet, &other.fleet, "nothing is shared yet"),
        ];
        parts.into_iter().chain(usage.into_iter().map(of_usage)).flatten().collect()
    }
}

/// Returns what a change of this part needs. `not_yet` is the state without it.
fn of_part<T: PartialEq>(name: &str, used: &Option<T>, other: &Option<T>, not_yet: &str) -> Option<String> {
    let state = match (used, other) {
        _ if used == other => return None,
        (None, _) => not_yet,
        (Some(_), None) => "what was removed stays in use",
        (Some(_), Some(_)) => "the old value stays in use",
    };
    Some(format!("{name} needs a restart: {state}"))
}

/// Fails if a server of this file would decide nothing.
pub fn check(requests: &Requests) -> Result<(), String> {
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
    /// Puts the file in force. A file with problems changes nothing, unless only rules of callers do not fit it.
    pub(super) fn run(&self) {
        service_manager::reloading();
        match requests::read(&self.file) {
            Ok(requests) => match check(&requests).and_then(|()| self.used.check(&requests)) {
                Ok(()) => {
                    warn_of_writers(&self.file);
                    self.apply(requests);
                }
                Err(problem) => kept(&format!("{}: {problem}", self.file.display())),
            },
            Err(error) => kept(&error.to_string()),
        }
        service_manager::ready("serving");
    }

    fn apply(&self, mut requests: Requests) {
        self.used.differences(&Used::of(&requests)).iter().for_each(|line| journal::say(Level::Warning, line));
        let tokens = Tokens::new(requests.tokens.clone()).with_users(requests.users.clone());
        let encryption = requests.encryption.take();
        // Rules of callers can keep those of the file out. So a caller could keep a token that the operator has removed.
        self.service.change_tokens(tokens);
        if let Some((shown, encryption)) = self.shown.as_ref().zip(encryption) {
            match certificate::read(&encryption) {
                Ok(certified) => shown.change(certified),
                Err(problem) => {
                    journal::say(Level::Error, &format!("the certificate before stays in use: {problem}"));
                }
            }
        }
        let (style, merges_paths) = (requests.headers, requests.merges_paths);
        let count = match self.book.reload(Operators::of(requests)) {
            Ok(count) => count,
            Err(problem) => return kept(&problem),
        };
        self.service.change_style(style);
        self.service.change_merges_paths(merges_paths);
        journal::say(Level::Info, &count.in_words(" in force"));
    }
}

/// Tells who else may change the file and those that it names, and what to do.
pub(super) fn warn_of_writers(file: &Path) {
    let named = files::named(&fs::read_to_string(file).unwrap_or_default());
    let files: Vec<PathBuf> = iter::once(file.to_owned()).chain(named).collect();
    writers::warnings(&files).iter().for_each(|warning| journal::say(Level::Warning, warning));
}

fn kept(problem: &str) {
    journal::say(Level::Error, &format!("the rules before stay in force: {problem}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: &str = "[[check]]\nname = \"a\"\nlimits = \"3/m\"\n";

    fn used(keys: &str) -> (Used, Requests) {
        let requests = requests::parse(&format!("[serve]\nhttp = \"unix:/run/a\"\n{keys}")).unwrap();
        (Used::of(&requests), requests)
    }

    #[test]
    fn a_reload_names_each_part_that_needs_a_restart_and_what_is_in_use() {
        let of = |before: &str, after: &str| used(before).0.differences(&used(after).0);
        for (keys, name, not_yet) in [
            ("grpc = \"unix:/run/b\"\n", "`grpc` in [serve]", "not in use yet"),
            ("metrics = \"127.0.0.1:9465\"\n", "`metrics` in [serve]", "not in use yet"),
            ("tls-cert = \"/a\"\ntls-key = \"/b\"\n", "`tls-cert` in [serve]", "connections stay without encryption"),
            ("rules = \"/a\"\n", "`rules` in [serve]", "callers cannot change rules yet"),
            ("usage = \"/a\"\n", "`usage` in [serve]", "no usage is kept yet"),
            ("stops = \"/a\"\n", "`stops` in [serve]", "no client is stopped yet"),
            ("[fleet]\nengine = \"redis://127.0.0.1\"\n", "[fleet]", "nothing is shared yet"),
            (
                "[[token]]\nname = \"a\"\nsha256 = \"4c36be14f17fc520a31c8597e2d845099be95a309ecc21684cde71ab6e63cd27\"\nscope = \"rules:*\"\n[console]\nlisten = \"127.0.0.1:81\"\n",
                "[console]",
                "not in use yet",
            ),
        ] {
            assert_eq!(of("", keys), [format!("{name} needs a restart: {not_yet}")]);
            assert_eq!(of(keys, ""), [format!("{name} needs a restart: what was removed stays in use")]);
            assert_eq!(of(keys, keys), [""; 0]);
        }
        assert_eq!(
            of(
                "usage = \"/a\"\nstops = \"/a\"\n",
                "usage = \"/a\"\nusage-days = 7\nusage-rows = 1000\nstops = \"/b\"\n"
            ),
            ["stops", "usage-days", "usage-rows"]
                .map(|key| format!("`{key}` in [serve] needs a restart: the old value stays in use"))
        );
        let old = "`usage` in [serve] needs a restart: the old value stays in use";
        assert_eq!(of("usage = \"/a\"\n", "usage = \"fleet\"\n"), [old]);
    }

    #[test]
    fn a_reload_without_rules_limits_nothing_if_their_file_is_new() {
        let (_, requests) = used("rules = \"/a\"\n");
        assert_eq!(check(&requests), Ok(()));
        assert!(used(RULE).0.check(&requests).unwrap_err().starts_with("nothing would be limited: `rules`"));
        assert_eq!(used("rules = \"/b\"\n").0.check(&requests), Ok(()));
        assert_eq!(used(RULE).0.check(&used(RULE).1), Ok(()));
    }
}
