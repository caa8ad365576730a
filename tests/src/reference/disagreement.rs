//! Documented disagreements between the product and etherparse, each with its reason.

/// Declares the disagreements with their reasons.
macro_rules! disagreements {
    ($($disagreement:ident = $reason:literal;)*) => {
        /// A point in which the product and etherparse differ.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Disagreement {
            $(#[doc = $reason] $disagreement,)*
        }

        impl Disagreement {
            /// All disagreements.
            pub const ALL: &[Self] = &[$(Self::$disagreement),*];

            /// Returns the reason of the disagreement.
            #[must_use]
            pub const fn reason(self) -> &'static str {
                match self {
                    $(Self::$disagreement => $reason,)*
                }
            }
        }
    };
}

disagreements! {
    OtherTag = "etherparse parses the type 0x9100 as a VLAN tag. It is no standard and no VLAN device of Linux accepts it, so the product passes it as not IP";
    Macsec = "etherparse parses an unencrypted MACsec tag. The product passes MACsec as not IP";
    ThirdTagCut = "etherparse requires the bytes of a third tag. The product refuses by the type before them";
    ArpUnread = "etherparse requires a complete ARP packet. The product uses the EtherType, and leaves ARP to the kernel";
    VersionOverType = "etherparse uses the version in the IP header. The product uses the EtherType, like kernels do, and the version must agree";
    ShortBeforeWrong = "etherparse calls a header that is too short and contradictory malformed. The product reads nothing before all fixed bytes are present";
    WrongBeforeShort = "if IPv4 options are cut and the total length ends before them, etherparse says cut and the product malformed";
    PayloadLengthZero = "etherparse takes an IPv6 payload length of 0 as `to the end of the slice`. By RFC 8200 the packet is empty, as in Linux without hop-by-hop options. With these options the product refuses it as cut";
    AuthenticationInIpv4 = "etherparse parses an authentication header in IPv4. The product takes it as the protocol (service `ah`) and does not read it";
    HopByHopLater = "etherparse refuses hop-by-hop options after other headers. The product parses them, so that they hide no service";
    AuthenticationTooShort = "etherparse refuses an authentication header with a length field of 0, which is less than its fixed part. The product continues after 8 bytes, as the kernel does";
    BehindLaterFragment = "etherparse continues after the fragment header of a later fragment, where there is no header. The product stops";
    NinthHeaderCut = "etherparse requires the bytes of the ninth header. The product refuses by the type in the eighth";
    EighthHeaderCut = "etherparse says cut if the length of the eighth header exceeds the packet. The product has refused by then, since that header announces a ninth";
    TcpOffsetUnread = "etherparse checks the data offset of TCP. The product needs only the fixed 20 bytes, and leaves the offset to the kernel";
    MessageUnread = "etherparse requires complete messages of ICMP and IGMP. The product uses the protocol number, and the first byte of neighbour discovery";
    SctpUnknown = "etherparse does not parse SCTP, and finds the ports in 8 bytes. The product requires the 12 bytes of the common header";
}

/// The disagreements that apply to one frame.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Touched(u32);

impl Touched {
    /// Adds a disagreement.
    pub(crate) fn add(&mut self, disagreement: Disagreement) {
        self.0 |= 1 << disagreement as u32;
    }

    /// Returns the disagreements in the order of their declaration.
    pub(crate) fn all(self) -> impl Iterator<Item = Disagreement> {
        Disagreement::ALL.iter().copied().filter(move |disagreement| self.0 >> *disagreement as u32 & 1 != 0)
    }
}
