//! The clients of a rule, in bounded memory.

use std::{
    hash::BuildHasherDefault,
    sync::atomic::{AtomicU64, Ordering},
};

use scc::{HashCache, hash_cache::Entry};

use super::{
    client::{Client, Hashed},
    limit::{States, see},
    rule::Rule,
};

/// The clients of a rule.
///
/// Clients share groups of 32 places by their hashes. A full group recycles the one that was idle for the longest time.
pub(super) struct Table {
    clients: HashCache<Client, States, BuildHasherDefault<Hashed>>,
    recycled: AtomicU64,
}

impl Table {
    /// Creates a table for as many clients as the rule allows.
    pub(super) fn new(rule: &Rule) -> Self {
        // A table that grows would no longer know which clients were idle. The system gives it memory as it fills.
        let most = rule.clients();
        let clients = HashCache::with_capacity_and_hasher(most, most, BuildHasherDefault::default());
        Self { clients, recycled: AtomicU64::new(0) }
    }

    /// Calls `work` with what a client has used. Nobody else does meanwhile.
    pub(super) fn with<T>(&self, rule: &Rule, client: Client, now: u64, work: impl FnOnce(&mut States) -> T) -> T {
        // Only this keeps in mind that the client was not idle.
        let work = |states: &mut States| {
            see(rule.life(), states, now, || rule.begin(now));
            work(states)
        };
        if let Some(mut states) = self.clients.get_sync(&client) {
            return work(states.get_mut());
        }
        match self.clients.entry_sync(client) {
            Entry::Occupied(mut states) => work(states.get_mut()),
            Entry::Vacant(place) => {
                let (evicted, mut states) = place.put_entry(rule.begin(now));
                if evicted.is_some_and(|(_, mut states)| !rule.is_idle(&mut states, now)) {
                    self.recycled.fetch_add(1, Ordering::Relaxed);
                }
                work(states.get_mut())
            }
        }
    }

    /// Copies what the clients of another table have used. That one goes on deciding meanwhile.
    pub(super) fn copy(&self, old: &Self) {
        old.clients.retain_sync(|client, states| {
            // A smaller table has no place for some of them.
            let _ = self.clients.put_sync(*client, states.clone());
            true
        });
    }

    /// Changes what all clients have used.
    pub(super) fn change(&self, mut change: impl FnMut(&mut States)) {
        self.clients.retain_sync(|_, states| {
            change(states);
            true
        });
    }

    /// Forgets clients whose states say nothing any more.
    pub(super) fn forget(&self, rule: &Rule, now: u64) {
        self.clients.retain_sync(|_, states| !rule.is_idle(states, now));
    }

    /// Returns the number of clients.
    pub(super) fn len(&self) -> usize {
        self.clients.len()
    }

    /// Returns how many clients had to go although their states said something.
    pub(super) fn recycled(&self) -> u64 {
        self.recycled.load(Ordering::Relaxed)
    }
}
