//! Constants of the program.
//!
//! The user side writes them into the program's instructions before it loads the program. So the verifier knows them, and
//! removes the branches that are off. A constant in read-only data would cost two more instructions at each place.

/// A constant, 0 or less than 2^31.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Constant {
    /// Not 0 if time comes from [`Control::clock`](crate::maps::control::Control::clock), for tests.
    InjectedClock,
    /// Not 0 if rules for services exist.
    Services,
    /// Not 0 if policies have parents.
    Parents,
    /// Not 0 if limits use [lanes](crate::maps::levels).
    Lanes,
    /// Not 0 if malformed and truncated packets pass within the limits of their source.
    PassMalformed,
    /// The number of cells, a power of two; 0 if there are no cells.
    Cells,
    /// The binary logarithm of the number of new buckets after which an [epoch](crate::cells::bucket_filter) ends.
    EpochShift,
    /// Not 0 if samples of sources within their limit are recorded.
    Sample,
    /// Not 0 if unknown sources are limited.
    Unknown,
    /// Not 0 if the program learns the rate of unknown sources.
    UnknownLearned,
    /// Not 0 if SYNs of unknown sources over their rate get a SYN cookie.
    ProveTcp,
    /// Not 0 if packets of this host's own connections are spared.
    Own,
    /// Not 0 if this host [spares](crate::rules::spared) its own network.
    Spare,
    /// The first local port that the kernel chooses for a connection.
    OwnPortsFirst,
    /// The last such port.
    OwnPortsLast,
    /// Not 0 if limits may count in windows.
    Windows,
    /// Not 0 if limits may keep sliding logs.
    SlidingLogs,
    /// Not 0 if limits may be soft.
    Soft,
    /// Not 0 if interfaces have a capacity.
    Elastic,
    /// Not 0 if limits may have another action than drop.
    Actions,
    /// Not 0 if limits may ban sources, or bans are in force.
    Bans,
    /// Not 0 if limits may count bytes.
    Bytes,
    /// Not 0 if packets of some services count as more than one.
    Costs,
    /// Not 0 if there are lists.
    Lists,
    /// Not 0 if every packet passes, and is counted under the reason of its refusal.
    Shadow,
    /// Not 0 if packets over a limit may get a reply.
    Reject,
    /// Not 0 if packets are counted by interface.
    Interfaces,
    /// Not 0 if parents or elastic limits need the packet's interface.
    InterfaceMatters,
    /// Not 0 while buckets and sliding logs move from maps of another size.
    Resize,
    /// The previous number of cells during a resize; 0 otherwise.
    OldCells,
    /// The bits of an IPv6 address that make a source.
    Ipv6Prefix,
    /// The number of [leases](crate::fleet::lease), a power of two; 0 if there are none.
    Leases,
    /// Not 0 if the hosts of a fleet divide the burst of a new source. See [`crate::meters::start`].
    Divide,
}

/// Number that stands for the first constant in an instruction. No other number of the program is so near.
const FIRST: u32 = 0x5e77_1a00;

impl Constant {
    /// All constants, in their order.
    pub const ALL: [Self; 33] = {
        use Constant::*;
        [
            InjectedClock,
            Services,
            Parents,
            Lanes,
            PassMalformed,
            Cells,
            EpochShift,
            Sample,
            Unknown,
            UnknownLearned,
            ProveTcp,
            Own,
            Spare,
            OwnPortsFirst,
            OwnPortsLast,
            Windows,
            SlidingLogs,
            Soft,
            Elastic,
            Actions,
            Bans,
            Bytes,
            Costs,
            Lists,
            Shadow,
            Reject,
            Interfaces,
            InterfaceMatters,
            Resize,
            OldCells,
            Ipv6Prefix,
            Leases,
            Divide,
        ]
    };

    /// Returns the number that stands for this constant in an instruction.
    #[must_use]
    pub const fn placeholder(self) -> u32 {
        FIRST + self as u32
    }

    /// Returns the constant that a number stands for.
    #[must_use]
    pub fn of_placeholder(number: u32) -> Option<Self> {
        Self::ALL.get(number.wrapping_sub(FIRST) as usize).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_constant_is_found_by_its_placeholder() {
        for constant in Constant::ALL {
            assert_eq!(Constant::of_placeholder(constant.placeholder()), Some(constant));
        }
        assert_eq!(Constant::of_placeholder(FIRST + Constant::ALL.len() as u32), None);
        assert_eq!(Constant::of_placeholder(0), None);
    }
}
