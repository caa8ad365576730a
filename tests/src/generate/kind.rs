//! What a frame was made of.

/// Declares the kinds, and the list of all.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident,)*) => {
        /// One thing that a generated frame can have.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Kind {
            $($(#[$doc])* $kind,)*
        }

        impl Kind {
            /// All of them, in the order of their bits.
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
    /// An EtherType of nothing that is known here.
    OtherType,
    /// An IPv4 header.
    Ipv4,
    /// One with options.
    Ipv4Options,
    /// One of a first fragment.
    Ipv4FirstFragment,
    /// One of a later fragment.
    Ipv4LaterFragment,
    /// An IPv6 header.
    Ipv6,
    /// An IPv6 source of the own link.
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
    /// Neighbour discovery with a hop limit of 255, right behind the IPv6 header.
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
    /// Padded behind its end.
    Padded,
    /// With bits flipped.
    Flipped,
    /// With a length that is another.
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

    /// Whether `kind` is in it.
    #[must_use]
    pub fn has(self, kind: Kind) -> bool {
        self.0 >> kind as u32 & 1 != 0
    }
}
