//! What becomes of a packet, and why.

use ratelimit_common::{
    limits::policy::{REJECT, SHADOW},
    reason::Reason,
};

use crate::bpf::settings;

/// A reason, and what is done where it is one to drop. Never returned by a function that is not inlined: it has two words.
#[derive(Clone, Copy)]
pub struct Verdict {
    /// Why.
    pub reason: Reason,
    /// See [`ratelimit_common::limits::policy::Policy::over_limit`]. Of no meaning where the reason is one to pass.
    pub action: u8,
}

impl From<Reason> for Verdict {
    #[inline(always)]
    fn from(reason: Reason) -> Self {
        Self { reason, action: 0 }
    }
}

impl Verdict {
    /// Whether the packet passes, and is counted as what would have become of it.
    #[inline(always)]
    #[must_use]
    pub fn is_shadowed(self) -> bool {
        if self.reason.passes() {
            return false;
        }
        settings::is_on(&settings::SHADOW_ON) || settings::is_on(&settings::ACTIONS_ON) && self.action == SHADOW
    }

    /// Whether the sender is told. Who may not be who it says is not.
    #[inline(always)]
    #[must_use]
    pub fn is_answered(self) -> bool {
        let is_over = matches!(self.reason, Reason::OverPackets | Reason::OverBytes | Reason::OverParent);
        is_over && self.action == REJECT
    }
}
