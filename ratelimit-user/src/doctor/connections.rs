//! Whether the program finds the sockets of the connections that packets answer.

use std::fs;

use ratelimit_common::maps::control::{Control, FEATURE_OWN, FEATURE_PROVE_TCP, FEATURE_REJECT, FEATURE_UNKNOWN};
use ratelimit_dataplane::{
    program::{proofs::ALWAYS, values::per_second},
    sys::{host, interface::Interface, lost_answers},
};

use super::{
    finding::{Check, Finding, count},
    instance::Ours,
};

/// The features with which the program answers packets.
const ANSWERS: u32 = FEATURE_PROVE_TCP | FEATURE_REJECT;

/// Packets of this network namespace since it exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Packets {
    forwarded: u64,
    delivered: u64,
}

/// Returns the finding about an instance with this control entry.
pub(super) fn examine(control: &Control) -> Finding {
    about(control.features & FEATURE_OWN != 0, control.own.per_second, Packets::read())
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

/// Returns the finding about proofs of addresses to an instance with this control entry.
pub(super) fn examine_proofs(control: &Control) -> Finding {
    let is_on = |feature| control.features & feature != 0;
    let cookies = is_on(FEATURE_PROVE_TCP).then_some(control.proofs.per_second);
    let (setting, tracking) = (host::syn_cookies(), host::loose_tracking());
    about_proofs(is_on(FEATURE_UNKNOWN), cookies, [setting.as_deref(), tracking.as_deref()], Packets::read())
}

/// Returns the findings about interfaces where answers of an instance with this control entry are lost.
pub(super) fn examine_answers(control: &Control, all: &[Interface], ours: &Ours) -> Vec<Finding> {
    if control.features & ANSWERS == 0 {
        return Vec::new();
    }
    let finding = |interface: &Interface| {
        let lost = lost_answers::of(all, interface)?;
        let why = "SYN cookies and answers of --over-limit reject are counted as sent. Native XDP on a veth sends only to a peer that polls. In generic mode, no answer is lost.";
        let make = if lost.peer.is_some() { Finding::warning } else { Finding::note };
        let finding = make(Check::Proofs, &lost.text(), why).on(&interface.name);
        Some(match lost.fix() {
            Some(fix) => finding.fixed_by(fix),
            None => finding,
        })
    };
    all.iter().filter(|interface| ours.has(interface)).filter_map(finding).collect()
}

/// The settings are those of [`host::syn_cookies`] and [`host::loose_tracking`].
fn about_proofs(
    is_limited: bool,
    cookies: Option<u64>,
    [setting, tracking]: [Option<&str>; 2],
    packets: Packets,
) -> Finding {
    if !is_limited && cookies.is_some() {
        let why = "SYN cookies prove addresses only over the rate of unknown sources.";
        return Finding::warning(Check::Proofs, "--prove tcp has no effect, because --unknown is off", why)
            .fixed_by("ratelimit set --unknown auto");
    }
    if !is_limited {
        return Finding::ok(Check::Proofs, "not needed, because unknown sources are not limited");
    }
    if cookies.is_some() && setting != Some(ALWAYS) {
        let what = format!("net.ipv4.tcp_syncookies is {}, and SYN cookies need 2", setting.unwrap_or("missing"));
        let why = "New visitors get no answer to their SYN while the rate of unknown sources is spent.";
        return Finding::warning(Check::Proofs, &what, why).fixed_by("sysctl -w net.ipv4.tcp_syncookies=2");
    }
    if cookies.is_some() && tracking == Some("0") {
        let why = "Connections that begin with a SYN cookie are invalid for the firewall, because it has not seen their SYN. If it drops what is invalid, the first attempt of each new visitor fails.";
        return Finding::note(Check::Proofs, "net.netfilter.nf_conntrack_tcp_loose is 0", why)
            .fixed_by("sysctl -w net.netfilter.nf_conntrack_tcp_loose=1");
    }
    if packets.forwarded != 0 {
        let what = format!("this host forwards: {} so far", count(packets.forwarded, "packet"));
        let why = "Only sockets of the interface's own network namespace are found. Visitors of other hosts, containers and pods prove nothing here, and share the rate of unknown sources. Attach inside of the namespace, or allow them.";
        return Finding::note(Check::Proofs, &what, why);
    }
    let by = match cookies {
        Some(rate) => format!("by established connections, and by up to {} SYN cookies", per_second(rate)),
        None => "by established connections".to_owned(),
    };
    Finding::ok(Check::Proofs, &by)
}

impl Packets {
    /// Reads those of this network namespace.
    fn read() -> Self {
        let read = |file: &str| fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap_or_default();
        Self::of(&read("snmp"), &read("snmp6"))
    }

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

    #[test]
    fn proofs_need_a_limit_the_setting_of_the_kernel_and_sockets_of_this_host() {
        let (none, forwarding) = (Packets::default(), Packets { forwarded: 3, ..Packets::default() });
        let finding = |is_limited, cookies, setting, packets| {
            let finding = about_proofs(is_limited, cookies, [setting, Some("1")], packets);
            (finding.severity, finding.fix)
        };
        let fixed = |fix: &str| (Severity::Warning, Some(fix.to_owned()));
        assert_eq!(finding(false, None, Some("1"), forwarding), (Severity::Ok, None));
        assert_eq!(finding(false, Some(5), Some("2"), none), fixed("ratelimit set --unknown auto"));
        for setting in [Some("0"), Some("1"), None] {
            assert_eq!(finding(true, Some(5), setting, none), fixed("sysctl -w net.ipv4.tcp_syncookies=2"));
            assert_eq!(finding(true, None, setting, none), (Severity::Ok, None));
        }
        assert_eq!(finding(true, Some(5), Some("2"), none), (Severity::Ok, None));
        assert_eq!(finding(true, Some(5), Some("2"), forwarding), (Severity::Note, None));

        let strict = |cookies| about_proofs(true, cookies, [Some("2"), Some("0")], none);
        let fix = "sysctl -w net.netfilter.nf_conntrack_tcp_loose=1".to_owned();
        assert_eq!((strict(Some(5)).severity, strict(Some(5)).fix), (Severity::Note, Some(fix)));
        assert_eq!(strict(None).severity, Severity::Ok);
    }
}
