//! Which row of the result a packet belongs to.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashSet},
    net::IpAddr,
};

use ratelimit_base::text::prefix::Prefix;
use ratelimit_common::identity::source::{IPV6, Source};
use ratelimit_dataplane::{
    rules::{rule_key::is_narrow, target::Sources},
    trial::Rules,
};

/// The rows: one for each source, and one for each part of an IPv6 source that has a rule or is on a list.
///
/// A part keeps its row for packets that its rule does not match, such as those of another service. So a packet's row
/// depends on its address alone.
#[derive(Debug)]
pub(super) struct Rows {
    /// Bits of an IPv6 address that make a source.
    ipv6_prefix: u32,
    /// Parts by their bits, the longest first.
    parts: BTreeMap<Reverse<u8>, HashSet<Source>>,
}

impl Rows {
    /// Returns the rows for these rules, if so many bits of an IPv6 address make a source.
    pub(super) fn of(rules: &Rules, ipv6_prefix: u32) -> Self {
        let of_rules = rules.change.rules.iter().filter_map(|rule| match rule.target.sources {
            Sources::Prefix(prefix) => Some(prefix.source()),
            Sources::Default => None,
        });
        let of_lists = rules.lists.set.iter().flat_map(|list| list.entries.prefixes.iter().copied());
        let mut parts: BTreeMap<_, HashSet<_>> = BTreeMap::new();
        for part in of_rules.chain(of_lists).filter(|part| part.family == IPV6 && is_narrow(part, ipv6_prefix)) {
            parts.entry(Reverse(part.prefix)).or_default().insert(part);
        }
        Self { ipv6_prefix, parts }
    }

    /// Returns the row of packets from an address.
    pub(super) fn of_address(&self, address: IpAddr) -> Source {
        let address = Prefix::host(address).source();
        let parts = self.parts.iter().filter(|_| address.family == IPV6);
        let part =
            parts.map(|(bits, parts)| (address.shortened(bits.0), parts)).find(|(part, parts)| parts.contains(part));
        part.map_or_else(|| address.shortened(address.bits(self.ipv6_prefix as u8)), |(part, _)| part)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::rules, *};
    use ratelimit_daemon::config;

    #[test]
    fn a_part_of_a_source_with_a_rule_has_a_row_of_its_own() {
        let file = "\
            interfaces = [\"eth0\"]\n\
            [[rule]]\nsource = \"2001:db8:0:1:2::/80\"\nservice = \"udp/53\"\npackets = \"5/s\"\n\
            [[rule]]\nsource = \"2001:db8:0:1:2:3::/96\"\npolicy = \"deny\"\n\
            [[rule]]\nsource = \"2001:db8::/32\"\npackets = \"5/s\"\n\
            [[rule]]\nsource = \"2001:db8:0:2::1\"\npolicy = \"deny\"\nuntil = 2024-01-01T00:00:00Z\n\
            [[rule]]\nsource = \"10.0.0.0/8\"\npackets = \"5/s\"\n";
        let config = config::parse(file, |_| 0).unwrap();
        let after_2024 = 1_800_000_000 * 1_000_000_000;
        let rows = Rows::of(&rules::at(&config, after_2024, 0), 64);
        for (address, row) in [
            ("2001:db8:0:1:2:3::1", "2001:db8:0:1:2:3::/96"),
            ("2001:db8:0:1:2:4::1", "2001:db8:0:1:2::/80"),
            ("2001:db8:0:1:3::1", "2001:db8:0:1::/64"),
            ("2001:db8:0:2::1", "2001:db8:0:2::/64"),
            ("fe80::1:2:3", "fe80::1:2:3"),
            ("10.0.0.1", "10.0.0.1"),
        ] {
            let source = rows.of_address(address.parse().unwrap());
            assert_eq!(Prefix::of(&source, source.prefix).to_string(), row);
        }
    }
}
