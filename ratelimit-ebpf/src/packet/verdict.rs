//! The verdict on a packet.

use ratelimit_common::{
    limits::policy::{REJECT, SHADOW},
    reason::Reason,
};

use crate::bpf::settings;

/// A reason and an action. It has two words, so no function that is not inlined returns it.
#[derive(Clone, Copy)]
pub struct Verdict {
    /// Reason of the verdict.
    pub reason: Reason,
    /// Action where the reason is to drop. See [`ratelimit_common::limits::policy::Policy::over_limit`].
    pub action: u8,
}

impl From<Reason> for Verdict {
    #[inline(always)]
    fn from(reason: Reason) -> Self {
        Self { reason, action: 0 }
    }
}

impl Verdict {
    /// Returns whether the packet passes in shadow: it passes, and is counted under the reason of its refusal.
    #[inline(always)]
    #[must_use]
    pub fn is_shadowed(self) -> bool {
        if self.reason.passes() {
            return false;
        }
        settings::is_on(&settings::SHADOW_ON) || settings::is_on(&settings::ACTIONS_ON) && self.action == SHADOW
    }

    /// Returns whether the sender gets a reply. A source that may be forged gets none.
    #[inline(always)]
    #[must_use]
    pub fn is_answered(self) -> bool {
        let is_over = matches!(self.reason, Reason::OverPackets | Reason::OverBytes | Reason::OverParent)
            || settings::has_leases() && self.reason == Reason::OverShare;
        is_over && self.action == REJECT
    }

    /// Returns whether the frame is a SYN-ACK for its sender now.
    #[inline(always)]
    #[must_use]
    pub fn is_syn_ack(self) -> bool {
        settings::proves_tcp() && self.reason == Reason::SynCookie
    }
}
