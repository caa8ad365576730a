//! Finds the slot of a policy in all slots at once. Thousands of limits would otherwise be compared with each other.

use std::collections::{BTreeSet, HashMap, HashSet};

use ratelimit_common::{
    identity::service::Service,
    limits::policy::{FORCED_ID, Policy, PolicyId},
    maps::{
        control::{FEATURE_FRONT, FEATURE_SERVICES},
        names::POLICIES_MAX,
    },
};

use crate::{
    Error,
    rules::{
        policies::{
            lanes::{self, Lanes},
            parts,
        },
        services::Services,
    },
    tables::open::Tables,
};

/// Policies that a spec can need: its own, its allowance, and two parents for each family.
const POLICIES_OF_A_SPEC: usize = 6;

/// The rules whose sources charge the same levels. Equal limits of different groups are different policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// The default for all packets, with the levels within cells.
    Default,
    /// The default for the packets of a service.
    Service(Service),
    /// All other rules with this limit.
    Rules,
    /// Parents with this limit, and allowances.
    Parts,
}

/// Policies with their slots, and the free slots and lanes.
pub struct Slots {
    taken: HashMap<(Policy, Group), PolicyId>,
    /// In descending order.
    free: Vec<PolicyId>,
    lanes: Lanes,
    has_cells: bool,
}

impl Slots {
    /// Reads all slots.
    pub fn read(tables: &Tables) -> Result<Self, Error> {
        let features = tables.control()?.features;
        let has_cells = features & FEATURE_FRONT != 0;
        let mut of_services = HashMap::new();
        if features & FEATURE_SERVICES != 0 {
            for (service, class) in Services::read(tables)?.iter() {
                of_services.insert(tables.default_policy(class)?, Group::Service(service));
            }
        }
        let all = tables.policies.all()?;
        let parts: HashSet<PolicyId> = all.iter().flat_map(parts::of).collect();
        let mut slots = Self { taken: HashMap::new(), free: Vec::new(), lanes: Lanes::default(), has_cells };
        for (slot, policy) in (0..POLICIES_MAX).zip(all).rev() {
            if policy == Policy::default() {
                slots.free.extend((slot != FORCED_ID).then_some(slot));
            } else {
                let group = match of_services.get(&slot) {
                    _ if policy.lane() == 0 => Group::Default,
                    Some(of_service) => *of_service,
                    None if parts.contains(&slot) => Group::Parts,
                    None => Group::Rules,
                };
                slots.lanes.take(&policy);
                slots.taken.insert((policy.in_lane(0), group), slot);
            }
        }
        Ok(slots)
    }

    /// Returns whether fewer lanes are free than so many specs can need.
    pub fn lacks_lanes(&self, specs: usize) -> bool {
        self.has_cells && self.lanes.free() < specs * POLICIES_OF_A_SPEC
    }

    /// Returns the slot of exactly this policy in a group. It writes the policy to a free slot if no slot has it. None
    /// if there is no free slot.
    pub fn slot_of(&mut self, tables: &mut Tables, policy: &Policy, group: Group) -> Result<Option<PolicyId>, Error> {
        let group = if self.has_cells && policy.has_limits() { group } else { Group::Default };
        if let Some(slot) = self.taken.get(&(*policy, group)) {
            return Ok(Some(*slot));
        }
        let slot = match *policy == Policy::FORCED {
            // An older version may have put a limit there.
            true => Some(FORCED_ID).filter(|slot| !self.taken.values().any(|taken| taken == slot)),
            false => self.free.pop(),
        };
        let Some(slot) = slot else { return Ok(None) };
        let (lane, is_first) = if group == Group::Default { (0, false) } else { self.lanes.choose(policy) };
        if is_first {
            lanes::clear(tables, lane)?;
        }
        tables.policies.set(slot, &policy.in_lane(lane))?;
        self.taken.insert((*policy, group), slot);
        Ok(Some(slot))
    }

    /// Returns the lanes that no limit used before.
    pub fn into_fresh(self) -> BTreeSet<u32> {
        self.lanes.fresh().clone()
    }
}
