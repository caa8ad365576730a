//! The slots of all policies, read at once: thousands of limits that each ask slot by slot would make millions of system calls.

use std::{collections::HashMap, os::fd::AsFd as _};

use aya::maps::IterableMap;
use ratelimit_common::limits::policy::{Policy, PolicyId};

use crate::dataplane::{Error, error::Tried as _, sys::bpf, tables::open::Tables};

/// Which policy has which slot, as long as nobody else frees any.
pub(crate) struct Slots {
    taken: HashMap<Policy, PolicyId>,
    /// The first one last.
    free: Vec<PolicyId>,
}

impl Slots {
    pub(crate) fn read(tables: &Tables) -> Result<Self, Error> {
        let mut slots = Self { taken: HashMap::new(), free: Vec::new() };
        for (slot, policy) in all(tables)?.into_iter().rev() {
            if policy == Policy::default() {
                slots.free.push(slot);
            } else {
                slots.taken.insert(policy, slot);
            }
        }
        Ok(slots)
    }

    /// The slot of exactly this policy; nothing if none has it and none is free.
    pub(crate) fn place(&mut self, tables: &mut Tables, policy: &Policy) -> Result<Option<PolicyId>, Error> {
        if let Some(slot) = self.taken.get(policy) {
            return Ok(Some(*slot));
        }
        let Some(slot) = self.free.pop() else { return Ok(None) };
        tables.policies.set(slot, policy, 0).tried("cannot write a policy")?;
        self.taken.insert(*policy, slot);
        Ok(Some(slot))
    }
}

/// What each slot says, in their order.
pub(crate) fn all(tables: &Tables) -> Result<Vec<(PolicyId, Policy)>, Error> {
    bpf::entries(IterableMap::map(&tables.policies).fd().as_fd())
}
