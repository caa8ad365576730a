//! Finds the slot of a policy in all slots at once. Thousands of limits would otherwise be compared with each other.

use std::collections::HashMap;

use ratelimit_common::{
    limits::policy::{Policy, PolicyId},
    maps::names::POLICIES_MAX,
};

use crate::dataplane::{Error, tables::open::Tables};

/// Policies with their slots, and the free slots.
pub(crate) struct Slots {
    taken: HashMap<Policy, PolicyId>,
    /// In descending order.
    free: Vec<PolicyId>,
}

impl Slots {
    /// Reads all slots.
    pub(crate) fn read(tables: &Tables) -> Result<Self, Error> {
        let mut slots = Self { taken: HashMap::new(), free: Vec::new() };
        for (slot, policy) in (0..POLICIES_MAX).zip(tables.policies.all()?).rev() {
            if policy == Policy::default() {
                slots.free.push(slot);
            } else {
                slots.taken.insert(policy, slot);
            }
        }
        Ok(slots)
    }

    /// Returns the slot of exactly this policy. It writes the policy to a free slot if no slot has it. None if there is
    /// no free slot.
    pub(crate) fn slot_of(&mut self, tables: &mut Tables, policy: &Policy) -> Result<Option<PolicyId>, Error> {
        if let Some(slot) = self.taken.get(policy) {
            return Ok(Some(*slot));
        }
        let Some(slot) = self.free.pop() else { return Ok(None) };
        tables.policies.set(slot, policy)?;
        self.taken.insert(*policy, slot);
        Ok(Some(slot))
    }
}
