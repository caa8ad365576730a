//! Spared sources: what nothing denies, since this host would lose its own network. These are its addresses, its gateways,
//! its name servers, the networks of its interfaces, loopback, link-local IPv6, and the address that stands for none.
//!
//! A packet is looked up here only where a rule, a list or a ban would deny it. The result of that is cached like every
//! other. A spared source is under the limit that it has without the denial, so whoever forges its address gains no more
//! than that.
//!
//! An entry is no longer than what makes a source, such as a /64 of IPv6. Otherwise packets of one source would have two
//! verdicts, and a cell or a bucket keeps one.

/// Why this host spares a prefix. Of several reasons, an entry has the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u64)]
pub enum Spared {
    /// Packets of this host leave through it.
    Gateway = 1,
    /// This host asks it for names.
    NameServer = 2,
    /// It is an address of this host.
    Own = 3,
    /// An interface of this host is in it.
    Network = 4,
    /// It is loopback, link-local IPv6, or no address.
    Special = 5,
    /// This host has no IPv4 address yet, and may get one from there.
    FirstLease = 6,
}

impl Spared {
    /// Every reason.
    pub const ALL: [Self; 6] =
        [Self::Gateway, Self::NameServer, Self::Own, Self::Network, Self::Special, Self::FirstLease];

    /// Returns the reason with this number. A number of another version stands for the last one.
    #[must_use]
    pub fn of(number: u64) -> Self {
        Self::ALL.into_iter().find(|why| *why as u64 == number).unwrap_or(Self::Special)
    }
}
