//! Reasons in words, for people who do not know the program.

use ratelimit_common::reason::Reason;

/// Returns what a reason means. None for a reason of another version.
pub fn in_words(name: &str) -> Option<&'static str> {
    let reason = Reason::ALL.into_iter().find(|reason| reason.name() == name)?;
    Some(match reason {
        Reason::WithinLimit => "The source is within its limits, or has none.",
        Reason::Allowed => "A rule allows everything from this source.",
        Reason::LinkDiscovery => "Hosts of the same network look for each other (ARP, neighbour discovery).",
        Reason::NotIp => "The packet is neither IP nor ARP.",
        Reason::WithinSoft => "The source is over its limit, within the part that the limit tolerates.",
        Reason::WithinCapacity => "The source is over its limit, and the interface has room.",
        Reason::OverPackets => "The source sends more packets than its limit.",
        Reason::OverBytes => "The source sends more bytes than its limit.",
        Reason::NotAdmitted => "Too many new sources come at once, as in a flood with forged addresses.",
        Reason::OverUnknown => "All unknown sources together are over their limit.",
        Reason::Denied => "A rule denies everything from this source.",
        Reason::Banned => "The source was over its limit, and is banned for a time.",
        Reason::OverParent => "The network of the source, the interface or all sources together are over a limit.",
        Reason::Malformed => "The packet contradicts itself.",
        Reason::Truncated => "The packet ends too early.",
        Reason::TooManyHeaders => "The packet has more than eight IPv6 extension headers.",
        Reason::TooManyTags => "The packet has more than two VLAN tags.",
        Reason::LinkDiscoveryOverCap => "Hosts of the same network ask too often (ARP, neighbour discovery).",
        Reason::TableFull => "The table of sources had no room, so the packet passed without a decision.",
        Reason::Unreadable => "The packet is broken, and a setting lets such packets pass.",
        Reason::Contended => "An earlier version could not decide in time.",
        Reason::NoState => "The state of the program is missing: please report this.",
        Reason::Listed => "A list denies everything from this source.",
        Reason::OwnConnection => "The source answers a connection that this host has opened.",
        Reason::OverShare => "The source is over the part of its limit that the fleet gives this host.",
        Reason::SynCookie => "An unknown source over the limit of unknown sources sent a SYN, and got a SYN cookie.",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_words_of_its_own() {
        let words: std::collections::BTreeSet<_> = Reason::ALL.iter().map(|reason| in_words(reason.name())).collect();
        assert_eq!(words.len(), Reason::ALL.len());
        assert_eq!(in_words("other"), None);
    }
}
