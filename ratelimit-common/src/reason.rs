//! Reasons for which packets pass or are dropped.

use crate::boundary;

/// Declares the reasons: the name in the output, and whether the packet passes.
macro_rules! reasons {
    ($($(#[$doc:meta])* $reason:ident = $name:literal, $passes:literal;)*) => {
        /// Reason for which a packet passes or is dropped. The discriminant is the index of its counter.
        #[repr(u32)]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Reason {
            $($(#[$doc])* $reason,)*
        }

        impl Reason {
            /// Every reason, in the order of the counters.
            pub const ALL: [Reason; [$($name),*].len()] = [$(Reason::$reason),*];

            /// Returns the name in output and metrics.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Reason::$reason => $name,)*
                }
            }

            /// Returns whether a packet with this reason passes.
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
    /// ARP, or IPv6 neighbour discovery on the own link, within the cap of the interface. No source pays for it.
    LinkDiscovery = "link-discovery", true;
    /// Neither IP nor ARP.
    NotIp = "not-ip", true;
    /// Above the source's limit, and within the share that the limit passes above itself.
    WithinSoft = "within-soft", true;
    /// Above the source's limit, while its interface has room.
    WithinCapacity = "within-capacity", true;
    /// The source is over its limit of packets.
    OverPackets = "over-packets", false;
    /// The source is over its limit of bytes.
    OverBytes = "over-bytes", false;
    /// The source may be over its limit, and has no bucket that could tell, because the admission budget is spent.
    NotAdmitted = "not-admitted", false;
    /// The source is not a known source, and all such sources together are over their limit.
    OverUnknown = "over-unknown", false;
    /// A rule denies the source everything.
    Denied = "denied", false;
    /// The source has exceeded a limit with a ban, which has not ended.
    Banned = "banned", false;
    /// A parent refuses: the limit of a prefix, an interface or all sources.
    OverParent = "over-parent", false;
    /// An IP header that contradicts itself, or a packet that is not IP where no Ethernet header says so.
    Malformed = "malformed", false;
    /// A frame that ends before its headers, or before the length in them.
    Truncated = "truncated", false;
    /// More than eight IPv6 extension headers.
    TooManyHeaders = "too-many-headers", false;
    /// More than two VLAN tags.
    TooManyTags = "too-many-tags", false;
    /// ARP and neighbour discovery over the cap of the interface.
    LinkDiscoveryOverCap = "link-discovery-over-cap", false;
    /// The source needed a bucket and the map refused it, so the packet could not be decided.
    TableFull = "table-full", true;
    /// The source cannot be read: the packet is malformed or truncated and set to pass.
    Unreadable = "unreadable", true;
    /// No packet has this reason any more. It keeps the place of its counter, since an upgrade keeps counters by place.
    Contended = "contended", true;
    /// The program's own state is missing. This cannot happen.
    NoState = "no-state", true;
    /// A list denies the source everything.
    Listed = "listed", false;
    /// Above a limit or banned, and the answer to a connection that this host has opened.
    OwnConnection = "own-connection", true;
    /// The source is over the share of its limit that the fleet leaves this host.
    OverShare = "over-share", false;
    /// The source is unknown, and all such sources are over their limit. Its SYN got a SYN cookie, and goes no further.
    SynCookie = "syn-cookie", false;
}

/// Number of reasons, and entries of the map of counters.
pub const REASONS: usize = Reason::ALL.len();

/// Packets and bytes of one reason on one CPU.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes of whole frames, from the first header on.
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
