//! Changes of rules: one at a time, kept before they are in force.

use std::{
    fmt,
    net::IpAddr,
    path::Path,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use jiff::Timestamp;
use ratelimit_limiter::Rule;
use serde_json::Value;

use super::{
    entry::Entry,
    error::RuleError,
    in_force::{Count, InForce, Operators},
    joined::Joined,
    local::Local,
    shared::Member,
    store::{ReadLog, Store, StoreError, Write},
};
use crate::config::{stored::Contents, written::Keys};

/// How often a change is tried if other servers change rules meanwhile.
const TRIES: usize = 5;

/// What puts rules in force.
type Apply = Box<dyn Fn(Vec<Rule>) + Send + Sync>;

/// All rules, and where those of callers are kept.
pub(in crate::serve) struct Book {
    in_force: RwLock<Arc<InForce>>,
    /// Changes take turns. None if callers cannot change rules.
    keeper: Mutex<Option<Keeper>>,
    apply: Apply,
}

/// Opens a place for rules. Returns the rules too, or why they cannot be read.
type Opened = Result<(Box<dyn Store>, Result<Contents, StoreError>), StoreError>;

/// Where rules of callers are kept, with the log of their changes.
pub(in crate::serve) struct Keeper {
    /// None as long as it cannot be opened.
    store: Option<Box<dyn Store>>,
    open: Box<dyn Fn() -> Opened + Send>,
}

/// Who changes a rule.
#[derive(Debug, Clone)]
pub(in crate::serve) struct Author {
    /// The name of the token.
    pub(in crate::serve) token: String,
    /// None for callers of a Unix socket.
    pub(in crate::serve) address: Option<IpAddr>,
}

/// What a caller wants.
#[derive(Debug, Clone)]
pub(in crate::serve) struct Change {
    pub(in crate::serve) name: String,
    /// The version that the caller knows. None creates the rule.
    pub(in crate::serve) expected: Option<u64>,
    /// The new keys. None deletes the rule.
    pub(in crate::serve) keys: Option<Keys>,
    /// The version of the change that this one takes back.
    pub(in crate::serve) undoes: Option<u64>,
}

/// A change that is in force.
#[derive(Debug, Clone, Copy)]
pub(in crate::serve) struct Done {
    /// The version of the change.
    pub(in crate::serve) version: u64,
}

impl Keeper {
    /// Opens the file of rules and its log. Returns the rules too, or why they cannot be read. Fails if another server has
    /// the file.
    pub(in crate::serve) fn open(path: &Path) -> Result<(Self, Result<Contents, StoreError>), StoreError> {
        let path = path.to_owned();
        Self::of(move || {
            let (local, contents) = Local::open(&path)?;
            Ok((Box::new(local), contents))
        })
    }

    /// Opens a file that is a copy of the rules of a fleet. The rest is the same.
    pub(in crate::serve) fn in_fleet(
        path: &Path,
        member: Member,
    ) -> Result<(Self, Result<Contents, StoreError>), StoreError> {
        let path = path.to_owned();
        Self::of(move || {
            let (joined, contents) = Joined::open(&path, member.clone())?;
            Ok((Box::new(joined), contents))
        })
    }

    fn of(open: impl Fn() -> Opened + Send + 'static) -> Result<(Self, Result<Contents, StoreError>), StoreError> {
        let (store, contents) = match open() {
            Ok((store, contents)) => (Some(store), contents),
            Err(error @ StoreError::Taken(_)) => return Err(error),
            Err(error) => (None, Err(error)),
        };
        Ok((Self { store, open: Box::new(open) }, contents))
    }

    /// Returns the place, which is opened if it could not be before.
    fn store(&mut self) -> Result<&mut dyn Store, StoreError> {
        let store = match self.store.take() {
            Some(store) => store,
            None => (self.open)()?.0,
        };
        Ok(&mut **self.store.insert(store))
    }
}

impl Book {
    pub(in crate::serve) fn new(in_force: InForce, mut keeper: Option<Keeper>, apply: Apply) -> Self {
        if let Some(Keeper { store: Some(store), .. }) = &mut keeper {
            store.leave_out(&in_force);
        }
        Self { in_force: RwLock::new(Arc::new(in_force)), keeper: Mutex::new(keeper), apply }
    }

    /// Returns the rules in force.
    pub(in crate::serve) fn in_force(&self) -> Arc<InForce> {
        Arc::clone(&self.in_force.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts other rules of the operator in force, with those of callers as they are kept now. Returns how many there are.
    pub(in crate::serve) fn reload(&self, operators: Operators) -> Result<Count, String> {
        let mut keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        let mut store = keeper.as_mut().map(Keeper::store).transpose().map_err(|error| error.to_string())?;
        let contents = match &store {
            Some(store) => store.known().map_err(|error| error.to_string())?,
            None => Contents::default(),
        };
        let all = self.in_force().next(Arc::new(operators), contents)?;
        let count = all.count();
        if let Some(store) = &mut store {
            store.leave_out(&all);
        }
        self.put(all);
        Ok(count)
    }

    /// Returns the rule that a change would put in force, and changes nothing.
    pub(in crate::serve) fn check(&self, name: &str, keys: &Keys) -> Result<Rule, RuleError> {
        let now = self.in_force();
        if now.is_of_operator(name) {
            return Err(RuleError::Operators(name.to_owned()));
        }
        let next = now.with(name, now.version(), Some(keys)).map_err(RuleError::Wrong)?;
        next.rule(name).cloned().ok_or_else(|| RuleError::Absent(name.to_owned()))
    }

    /// Puts rules in force that other servers have written.
    pub(in crate::serve) fn follow(&self) {
        let mut keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Ok(store)) = keeper.as_mut().map(Keeper::store) {
            // The store itself tells the operator of failures.
            let _ = self.catch_up(store);
        }
    }

    fn catch_up(&self, store: &mut dyn Store) -> Result<(), StoreError> {
        let Some(contents) = store.news()? else { return Ok(()) };
        match self.in_force().next(self.in_force().operators(), contents) {
            Ok(next) => {
                store.settle(Ok(()));
                store.leave_out(&next);
                self.put(next);
                Ok(())
            }
            Err(problem) => {
                store.settle(Err(problem));
                // Callers may not know the rules of others.
                let reason = "this server refuses the rules of the fleet: its log has the reason";
                Err(StoreError::Unusable(reason.to_owned()))
            }
        }
    }

    /// Changes a rule. It is kept, and then in force, when this returns. After a failure, everything is as before.
    pub(in crate::serve) fn change(&self, author: &Author, change: &Change) -> Result<Done, RuleError> {
        let mut keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        let store = keeper.as_mut().ok_or(RuleError::NoStore)?.store()?;
        for _ in 0..TRIES {
            match self.try_to_change(store, author, change) {
                Err(RuleError::Busy) => {}
                outcome => return outcome,
            }
        }
        Err(RuleError::Busy)
    }

    fn try_to_change(&self, store: &mut dyn Store, author: &Author, change: &Change) -> Result<Done, RuleError> {
        let Change { name, expected, keys, undoes } = change;
        if self.in_force().is_of_operator(name) {
            return Err(RuleError::Operators(name.clone()));
        }
        self.catch_up(store)?;
        let now = self.in_force();
        let now = now.next(now.operators(), store.known()?).map_err(RuleError::Unwritable)?;
        let (current, old) = now.kept(name).unzip();
        let current = current.flatten();
        if current.is_none() && keys.is_none() {
            return Err(RuleError::Absent(name.clone()));
        }
        if current != *expected {
            return Err(RuleError::Changed { name: name.clone(), current });
        }
        let version = now.version().max(store.version()) + 1;
        let next = now.with(name, version, keys.as_ref()).map_err(RuleError::Wrong)?;
        let action = match (old, keys) {
            (_, None) => "delete",
            (Some(_), _) => "update",
            (None, _) => "create",
        };
        let (token, address, at) = (&*author.token, author.address, Timestamp::now());
        let (old_version, undoes, new) = (current, *undoes, keys.as_ref());
        let entry = Entry { at, server: None, token, address, action, name, old_version, version, undoes, old, new };
        store.write(Write { name, expected: current, version, keys: new }, &entry, next.teams())?;
        store.leave_out(&next);
        self.put(next);
        Ok(Done { version })
    }

    /// Changes nothing from now on. Returns after the last change.
    pub(in crate::serve) fn close(&self) {
        *self.keeper.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Returns the last changes, the newest first.
    pub(in crate::serve) fn log(&self, most: usize) -> Result<Vec<Value>, RuleError> {
        self.log_of(most, &|_| true)
    }

    /// Returns the last changes of rules with wanted names, the newest first. Changes of other rules take no place.
    pub(in crate::serve) fn log_of(&self, most: usize, wanted: &dyn Fn(&str) -> bool) -> Result<Vec<Value>, RuleError> {
        Ok(self.last_changes()?(most, wanted)?)
    }

    /// Returns what reads the log, while changes go on.
    pub(super) fn last_changes(&self) -> Result<ReadLog, RuleError> {
        let mut keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        let store = keeper.as_mut().ok_or(RuleError::NoStore)?.store()?;
        Ok(store.log(self.in_force().teams())?)
    }

    fn put(&self, next: InForce) {
        (self.apply)(next.rules());
        *self.in_force.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
    }
}

impl fmt::Debug for Book {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Book")
    }
}
