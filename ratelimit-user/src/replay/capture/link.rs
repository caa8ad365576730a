//! What the packets of a capture begin with, by its number (<https://www.tcpdump.org/linktypes.html>).

/// The first header of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    /// Ethernet.
    Ethernet,
    /// IPv4 or IPv6.
    Ip,
    /// The header of Linux in place of the link's own, as captures of all interfaces have it.
    Cooked,
    /// The second version of that.
    Cooked2,
}

impl Link {
    /// Returns the header with this number. None if its packets cannot be judged.
    pub(super) fn of(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::Ethernet),
            // Three systems have numbers of their own for the fourth.
            12 | 14 | 101 | 228 | 229 => Some(Self::Ip),
            113 => Some(Self::Cooked),
            276 => Some(Self::Cooked2),
            _ => None,
        }
    }
}

/// Returns the name of a number that [`Link`] has none for.
pub(super) fn name(number: u32) -> String {
    let name = match number {
        0 | 108 => "the BSD loopback",
        9 | 50 | 51 => "PPP",
        105 | 119 | 127 | 163 => "Wi-Fi in monitor mode",
        187 | 201 | 251 => "Bluetooth",
        189 | 220 | 249 => "USB",
        195 | 230 | 283 => "IEEE 802.15.4",
        227 => "CAN",
        239 => "NFLOG",
        253 => "Netlink",
        _ => return format!("link type {number}"),
    };
    format!("{name} (link type {number})")
}
