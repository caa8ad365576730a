//! Why a packet passed or was dropped.

use crate::boundary;

/// Declares the reasons: the name in the output, and whether the packet passes.
macro_rules! reasons {
    ($($(#[$doc:meta])* $reason:ident = $name:literal, $passes:literal;)*) => {
        /// Why a packet passed or was dropped. The discriminant is the index of its counter.
        #[repr(u32)]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Reason {
            $($(#[$doc])* $reason,)*
        }

        impl Reason {
            /// Every reason, in the order of the counters.
            pub const ALL: [Reason; [$($name),*].len()] = [$(Reason::$reason),*];

            /// The name in output and metrics.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Reason::$reason => $name,)*
                }
            }

            /// Whether a packet with this reason passes.
            #[inline(always)]
            #[must_use]
            pub const fn passes(self) -> bool {
                match self {
                    $(Reason::$reason => $passes,)*
                }
            }
        }
    };
}

reasons! {
    /// No limit applies to the source, or it is within its limits.
    WithinLimit = "within-limit", true;
    /// A rule allows the source everything.
    Allowed = "allowed", true;
    /// ARP, or IPv6 neighbour discovery on the own link, within their common cap. No source pays for it.
    LinkDiscovery = "link-discovery", true;
    /// Neither IP nor ARP.
    NotIp = "not-ip", true;
    /// Above the source's limit, and within what is still let pass above it.
    WithinSoft = "within-soft", true;
    /// Above the source's limit, while its interface has room.
    WithinCapacity = "within-capacity", true;
    /// The source is over its limit of packets.
    OverPackets = "over-packets", false;
    /// The source is over its limit of bytes.
    OverBytes = "over-bytes", false;
    /// The source may be over its limit, and there is no bucket of its own that could tell: the budget for new ones is spent.
    NotAdmitted = "not-admitted", false;
    /// The source is not a known source, and all such sources together are over their limit.
    OverUnknown = "over-unknown", false;
    /// A rule denies the source everything.
    Denied = "denied", false;
    /// The source has exceeded a limit that shuts it out for a time.
    Banned = "banned", false;
    /// The limit of a prefix, an interface or all sources, which stands above the source's own, is reached.
    OverParent = "over-parent", false;
    /// An IP header that contradicts itself.
    Malformed = "malformed", false;
    /// A frame that ends before its headers do, or before the length that they tell.
    Truncated = "truncated", false;
    /// More IPv6 extension headers than the eight that are looked through, or longer ones than can be.
    TooManyHeaders = "too-many-headers", false;
    /// More VLAN tags than the two that are looked through.
    TooManyTags = "too-many-tags", false;
    /// ARP and neighbour discovery over their common cap.
    LinkDiscoveryOverCap = "link-discovery-over-cap", false;
    /// The source needed a bucket and the map took no new one, so it could not be judged.
    TableFull = "table-full", true;
    /// No source can be read: malformed or truncated ahead of it and set to pass, or beyond the frame's first buffer.
    Unreadable = "unreadable", true;
    /// Other CPUs changed the bucket at every try, so the source could not be judged.
    Contended = "contended", true;
    /// The program's own state is not there: cannot happen, and passes if it does.
    NoState = "no-state", true;
}

/// Number of reasons, and entries of the map of counters.
pub const REASONS: usize = Reason::ALL.len();

/// Packets and bytes of one reason on one CPU.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes of whole frames, from the Ethernet header on.
    pub bytes: u64,
}
boundary!(Count, size 16);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discriminants_are_indices() {
        for (index, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index);
        }
    }
}
