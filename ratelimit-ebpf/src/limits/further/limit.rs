//! The numbers, levels and bucket of a further limit.

use ratelimit_common::{
    buckets::bucket::Resolution,
    identity::source::Source,
    limits::policy::{COARSE, Policy},
    maps::control::Control,
    reason::Reason,
};

use crate::{
    bpf::{clock::Clock, settings},
    buckets::create,
    maps::{
        buckets::{self, Bucket},
        cells::{self, Levels},
        rules,
        this_cpu::{self, Payment},
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

/// The limit of a packet. Its own policy tells the clock, so each state goes by one clock.
pub(crate) struct Further<'a> {
    /// Key of its bucket, and of its levels by the hash.
    pub(crate) key: Source,
    pub(crate) policy: &'a Policy,
    /// `None` without cells.
    pub(crate) levels: Option<&'a Levels>,
    pub(crate) clock: Clock<'a>,
}

impl<'a> Further<'a> {
    /// Returns the limit, if the context's policy has it. `now` is the time by the precise clock, if a limit needs it.
    #[inline(always)]
    pub(crate) fn of(context: &Context, control: &'a Control, which: u32, now: u64) -> Option<Self> {
        let whole = context.policy()?;
        let [near, far] = whole.parents(context.source.family);
        let parent = if which == NEAR { near } else { far };
        // The policy is looked up before the key is made, which would lie on the stack twice.
        let id = if which == ALLOWANCE { whole.allowance } else { u32::from(parent.policy) };
        let policy = rules::policy(id)?;
        let key = match which == ALLOWANCE {
            true => context.source.allowance(id),
            false => context.source.parent(*parent, context.interface),
        };
        let levels = if settings::has_cells() { Some(cells::levels(policy, key.hash(&control.seed))?) } else { None };
        let now = if policy.flags & COARSE == 0 { now } else { context.tick };
        Some(Self { key, policy, levels, clock: Clock::of(control, now) })
    }

    /// Returns the payments of this packet, of which nothing is charged yet.
    #[inline(always)]
    pub(crate) fn payments(&self, context: &Context, place: u32) -> Option<&'static [Payment; 2]> {
        let (Policy { packets, second, .. }, [one, amount]) = (self.policy, context.amounts(self.policy));
        let payments = this_cpu::payments(place)?;
        let [first, also] = payments;
        let is_coarse = self.policy.flags & COARSE != 0;
        first.begin(packets, one, &self.clock, is_coarse);
        also.begin(second, amount, &self.clock, is_coarse);
        Some(payments)
    }

    /// Returns the bucket. If there is none, creates it within the budget.
    #[inline(always)]
    pub(crate) fn bucket(&self, tick: u64) -> Result<&'static Bucket, Reason> {
        let Self { key, policy, clock, .. } = self;
        let Some(levels) = self.levels else {
            return create::bucket(key, policy, clock.units(), Resolution::NONE, clock.control(), tick);
        };
        if let Some(found) = buckets::find(key) {
            return Ok(found);
        }
        if !create::admits(clock.control(), policy, tick) {
            return Err(Reason::NotAdmitted);
        }
        create::from_levels(key, levels, policy, Resolution::NONE, clock);
        buckets::find(key).ok_or(Reason::TableFull)
    }
}
