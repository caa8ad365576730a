//! Whether the program finds the sockets of the connections that packets answer.

use std::fs;

use ratelimit_common::maps::control::{Control, FEATURE_OWN};

use super::finding::{Check, Finding, count};
use crate::dataplane::program::values::per_second;

/// Packets of this network namespace since it exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Packets {
    forwarded: u64,
    delivered: u64,
}

/// Returns the finding about an instance with this control entry.
pub(super) fn examine(control: &Control) -> Finding {
    let read = |file: &str| fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap_or_default();
    let packets = Packets::of(&read("snmp"), &read("snmp6"));
    about(control.features & FEATURE_OWN != 0, control.own.per_second, packets)
}

fn about(is_on: bool, rate: u64, Packets { forwarded, delivered }: Packets) -> Finding {
    if !is_on {
        return Finding::ok(Check::OwnConnections, "limited like all others, because --own is off");
    }
    if forwarded == 0 {
        return Finding::ok(Check::OwnConnections, &format!("spared up to {} from each source", per_second(rate)));
    }
    let what = format!("this host forwards: {} so far, {delivered} to itself", count(forwarded, "packet"));
    let why = "Only sockets of the interface's own network namespace are found. What other hosts, containers and pods download is limited like everything else. Allow its servers, or attach inside of the namespace.";
    Finding::note(Check::OwnConnections, &what, why)
}

impl Packets {
    /// Reads the text of `snmp` and `snmp6`.
    fn of(snmp: &str, snmp6: &str) -> Self {
        // Names and numbers of IPv4 are in two lines.
        let [names, numbers] = {
            let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Ip: "));
            [lines.next().unwrap_or_default(), lines.next().unwrap_or_default()]
        };
        let ipv4 = names.split_whitespace().zip(numbers.split_whitespace());
        let ipv6 = snmp6.lines().filter_map(|line| line.split_once(char::is_whitespace));
        ipv4.chain(ipv6).fold(Self::default(), |mut packets, (name, number)| {
            let number = number.trim().parse().unwrap_or(0);
            match name {
                "ForwDatagrams" | "Ip6OutForwDatagrams" => packets.forwarded += number,
                "InDelivers" | "Ip6InDelivers" => packets.delivered += number,
                _ => {}
            }
            packets
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{super::finding::Severity, *};

    const SNMP: &str = "Ip: Forwarding ForwDatagrams InDelivers\nIp: 1 12 40\nIcmp: InMsgs\nIcmp: 3\n";
    const SNMP6: &str = "Ip6InDelivers                   \t2\nIp6OutForwDatagrams             \t30\n";

    #[test]
    fn packets_of_both_families_are_counted() {
        assert_eq!(Packets::of(SNMP, SNMP6), Packets { forwarded: 42, delivered: 42 });
        assert_eq!(Packets::of("", ""), Packets::default());
    }

    #[test]
    fn a_host_that_forwards_is_a_note_unless_own_connections_are_limited() {
        let forwarding = Packets { forwarded: 1, delivered: 2 };
        let finding = about(true, 1_000_000, forwarding);
        assert_eq!(
            (finding.severity, finding.what.as_str()),
            (Severity::Note, "this host forwards: 1 packet so far, 2 to itself")
        );
        assert_eq!(about(true, 1_000_000, Packets::default()).what, "spared up to 1M/s from each source");
        assert_eq!(about(false, 0, forwarding).severity, Severity::Ok);
    }
}
