//! Kinds: the parts that a generated frame consists of.

/// Declares the kinds and the list of all kinds.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident,)*) => {
        /// A part of a generated frame.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Kind {
            $($(#[$doc])* $kind,)*
        }

        impl Kind {
            /// All kinds, in the order of their bits.
            pub const ALL: &[Self] = &[$(Self::$kind),*];
        }
    };
}

kinds! {
    /// No VLAN tag.
    Untagged,
    /// One VLAN tag.
    Tagged,
    /// Two VLAN tags.
    TaggedTwice,
    /// Three VLAN tags.
    TaggedThrice,
    /// A tag of the type 0x9100.
    OtherTag,
    /// A MACsec tag.
    Macsec,
    /// ARP.
    Arp,
    /// An unknown EtherType.
    OtherType,
    /// An IPv4 header.
    Ipv4,
    /// An IPv4 header with options.
    Ipv4Options,
    /// The IPv4 header of a first fragment.
    Ipv4FirstFragment,
    /// The IPv4 header of a later fragment.
    Ipv4LaterFragment,
    /// An IPv6 header.
    Ipv6,
    /// A link-local IPv6 source.
    LinkLocal,
    /// A header of hop-by-hop options.
    HopByHop,
    /// A routing header.
    Routing,
    /// A header of destination options.
    Destination,
    /// The fragment header of a first or only fragment.
    FirstFragment,
    /// The fragment header of a later fragment.
    LaterFragment,
    /// An authentication header.
    Authentication,
    /// Nine or ten extension headers.
    NineHeaders,
    /// TCP.
    Tcp,
    /// TCP with SYN and without ACK.
    NewConnection,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
    /// ICMP of either family.
    Icmp,
    /// Neighbour discovery with a hop limit of 255, directly after the IPv6 header.
    NeighbourDiscovery,
    /// GRE.
    Gre,
    /// ESP.
    Esp,
    /// IP in IP.
    Ipip,
    /// Any other protocol.
    OtherProtocol,
    /// Cut short.
    Cut,
    /// Padded after its end.
    Padded,
    /// With bits flipped.
    Flipped,
    /// With a changed length field.
    OtherLength,
    /// With bytes overwritten.
    Overwritten,
}

/// A set of kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Kinds(u64);

impl Kinds {
    pub(super) fn add(&mut self, kind: Kind) {
        self.0 |= 1 << kind as u32;
    }

    /// Returns whether it contains `kind`.
    #[must_use]
    pub fn has(self, kind: Kind) -> bool {
        self.0 >> kind as u32 & 1 != 0
    }
}
