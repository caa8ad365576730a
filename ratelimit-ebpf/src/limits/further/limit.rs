//! The numbers, levels and bucket of a further limit.

use ratelimit_common::{
    buckets::bucket::Resolution, identity::source::Source, limits::policy::Policy, maps::control::Control,
    reason::Reason,
};

use crate::{
    bpf::{clock::Clock, settings},
    buckets::{admission, create},
    maps::{
        buckets::{self, Bucket},
        cells,
        levels::Levels,
        payment::Payment,
        rules, this_cpu,
    },
    packet::context::Context,
};

/// The narrower parent.
pub(crate) const NEAR: u32 = 0;
/// The wider parent.
pub(crate) const FAR: u32 = 1;
/// The allowance of a soft limit.
pub(crate) const ALLOWANCE: u32 = 2;

/// Returns whether any limit has such limits beside it.
#[inline(always)]
pub(crate) fn are_on() -> bool {
    settings::is_on(&settings::PARENTS_ON) || settings::is_on(&settings::SOFT_ON)
}

/// The limit of a packet, at `now` by the precise clock.
pub(crate) struct Further<'a> {
    /// Key of its bucket, and of its levels by the hash.
    pub(crate) key: Source,
    pub(crate) policy: &'a Policy,
    /// `None` without cells.
    pub(crate) levels: Option<&'a Levels>,
    /// Amounts of the packet in both limits.
    pub(crate) amounts: [u32; 2],
    pub(crate) clock: Clock<'a>,
    tick: u64,
}

impl<'a> Further<'a> {
    /// Returns the limit, if the context's policy has it.
    #[inline(always)]
    pub(crate) fn of(context: &Context, control: &'a Control, which: u32, now: u64) -> Option<Self> {
        let policy = context.policy()?;
        let (key, id) = if which == ALLOWANCE {
            (context.source.allowance(policy.allowance), policy.allowance)
        } else {
            let [near, far] = policy.parents(context.source.family);
            let parent = if which == NEAR { near } else { far };
            (context.source.parent(*parent, context.interface), u32::from(parent.policy))
        };
        let policy = rules::policy(id)?;
        let levels = if settings::has_cells() { Some(cells::levels(policy, key.hash(&control.seed))?) } else { None };
        let (amounts, clock) = (context.amounts(policy), Clock::of(control, now));
        Some(Self { key, policy, levels, amounts, clock, tick: context.tick })
    }

    /// Returns the payments of this packet, of which nothing is charged yet.
    #[inline(always)]
    pub(crate) fn payments(&self, place: u32) -> Option<&'static [Payment; 2]> {
        let (Policy { packets, second, .. }, [one, amount]) = (self.policy, self.amounts);
        let payments = this_cpu::payments(place)?;
        let [first, also] = payments;
        // Parents and allowances go by the precise clock.
        first.begin(packets, one, &self.clock, false);
        also.begin(second, amount, &self.clock, false);
        Some(payments)
    }

    /// Returns the bucket. If there is none, creates it within the budget.
    #[inline(always)]
    pub(crate) fn bucket(&self) -> Result<&'static Bucket, Reason> {
        let Self { key, policy, clock, .. } = self;
        let Some(levels) = self.levels else {
            return create::bucket(key, policy, clock.units(), Resolution::NONE, clock.control(), self.tick);
        };
        if let Some(found) = buckets::find(key) {
            return Ok(found);
        }
        if !admission::admits(clock.control(), policy, self.tick) {
            return Err(Reason::NotAdmitted);
        }
        create::from_levels(key, levels, policy, Resolution::NONE, clock);
        buckets::find(key).ok_or(Reason::TableFull)
    }
}
