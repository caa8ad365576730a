//! Checks of one interface: driver, queues, frames, and other XDP programs.
//!
//! Interfaces are read by rtnetlink, ioctl (driver, queues, rings, offloads) and the generic netlink family `netdev`
//! (XDP support, from Linux 6.3). sysfs is not used, because it can show another network namespace. A library for
//! ethtool's netlink would bring an asynchronous client for four questions.

use ratelimit_common::rules::rule::CONFIG;
use ratelimit_dataplane::{
    Error,
    attach::{attachment::Attachment, occupant::Occupant},
    readings::gauges,
    sys::{
        drivers::{self, Queues},
        ethtool::{Channels, Ethtool, Feature},
        features,
        interface::{Attached, Interface, Program},
        joined_packets::{self, Joining},
        xdp_features::{self, XdpFeatures},
    },
};

use super::{
    facts::Facts,
    finding::{Check, Finding, count},
    instance::Ours,
    layers, native_mode,
};

/// The largest MTU that every driver supports with XDP.
const USUAL_MTU: u32 = 1_500;

/// What drivers do that support only frames of one buffer.
const REFUSES: &str =
    "Most drivers without this support refuse XDP above about 3,500 bytes. Then attaching in native mode fails.";

/// Returns the findings. `capacity` is that of the interface, 0 for none. `as_root` is this command with more privileges.
pub(super) fn examine(
    all: &[Interface],
    interface: &Interface,
    ours: &Ours,
    capacity: u64,
    as_root: &str,
) -> Result<Vec<Finding>, Error> {
    let driver = Ethtool::of(&interface.name)?;
    let is_ours = ours.has(interface);
    // The driver has accepted the program, whoever owns it.
    let is_taken = is_ours || !ours.are_known;
    let own = ours.attachments.iter().find(|attachment| attachment.is_on(&interface.name));
    let (is_of_file, is_shadow) = (own.is_some_and(|own| own.origin == CONFIG), own.is_some_and(Attachment::is_shadow));
    let facts = Facts {
        by_hand: native_mode::by_hand(&interface.name, is_of_file, is_shadow, capacity),
        name: &interface.name,
        driver: driver.driver().unwrap_or_else(|| "unknown".to_owned()),
        can: xdp_features::xdp_features(interface.index),
        mode: interface.program.filter(|_| is_taken).map(|program| program.mode),
        refusal: drivers::refusal(interface),
    };
    let mut findings = vec![link(interface)];
    if !is_ours && interface.link_type.first_header().is_none() {
        // `attach` refuses it, so nothing else matters.
        return Ok(findings.into_iter().map(|finding| finding.on(&interface.name)).collect());
    }
    // Nothing advises to attach to it.
    let is_covered = !is_ours && layers::is_covered(all, interface, ours);
    match interface.program.filter(|_| !is_ours) {
        Some(hidden) if !ours.are_known => findings.push(hidden_program(hidden, as_root)),
        Some(other) => findings.push(other_program(&facts, &Occupant::of(interface, other))),
        None if is_covered => {}
        None => findings.push(native_mode::examine(&facts)),
    }
    findings.extend(layers::examine(all, interface, ours));
    if !ours.attachments.is_empty() && !is_ours && !is_covered {
        let why = "Other interfaces are attached. Packets that arrive here are not limited.";
        findings.push(Finding::note(Check::Interface, "ratelimit is not attached here", why).fixed_by(facts.attach()));
    }
    let takes_frags = features::several_buffers().unwrap_or(true);
    findings.extend(mtu(&facts, interface.mtu, takes_frags));
    findings.extend(offloads(&facts, driver.feature("rx-lro"), driver.feature("rx-gro-hw")));
    findings.extend(joined_packets::find(interface.index, facts.is_generic()).unwrap_or_default().iter().map(joined));
    findings.push(queues(&facts, driver.channels(), gauges::cpus()? as u32));
    Ok(findings.into_iter().map(|finding| finding.on(&interface.name)).collect())
}

fn link(interface: &Interface) -> Finding {
    let name = &interface.name;
    match (interface.is_up, interface.has_carrier) {
        (true, true) => Finding::ok(Check::Link, "up"),
        (true, false) => {
            let why = "No packet arrives. The cable is missing, or the other end is down.";
            Finding::warning(Check::Link, "up, but without a carrier", why)
                .fixed_by(format!("ip -details link show {name}"))
        }
        (false, _) => {
            Finding::warning(Check::Link, "down", "No packet arrives.").fixed_by(format!("ip link set {name} up"))
        }
    }
}

fn other_program(facts: &Facts<'_>, other: &Occupant) -> Finding {
    let why = format!(
        "An interface has one XDP program. `ratelimit attach` refuses to replace it without --replace. Without it: {}.",
        other.removal()
    );
    Finding::error(Check::OtherProgram, &format!("has {other}"), &why).fixed_by(format!("{} --replace", facts.attach()))
}

/// Returns the finding about a program that this user may not read.
fn hidden_program(Program { id, mode }: Program, as_root: &str) -> Finding {
    let what = format!("has an XDP program (id {id}, {}) that this user may not read", mode.name());
    Finding::note(Check::OtherProgram, &what, "It belongs to ratelimit or to another owner.").fixed_by(as_root)
}

/// Returns the finding about the MTU. Frames longer than a buffer need a driver that supports several buffers.
///
/// A driver with an attached program supported the MTU of that moment. Most drivers, but not all, then refuse one that
/// they do not support.
fn mtu(facts: &Facts<'_>, mtu: u32, kernel_takes_frags: bool) -> Option<Finding> {
    let Facts { name, driver, can, mode, .. } = facts;
    if mtu <= USUAL_MTU || *mode == Some(Attached::Generic) || can.is_some_and(|can| !can.native) {
        return None;
    }
    let what = match can {
        _ if !kernel_takes_frags => {
            format!("its MTU is {mtu}; before Linux 5.18, native XDP does not support frames of several buffers")
        }
        Some(XdpFeatures { several_buffers: true, .. }) => {
            return Some(Finding::ok(Check::Mtu, &format!("{mtu}, and its driver supports frames of several buffers")));
        }
        Some(_) => {
            format!("its MTU is {mtu}, and its driver ({driver}) does not support frames of several buffers with XDP")
        }
        None => format!(
            "its MTU is {mtu}; before Linux 6.3, the kernel does not tell whether the driver ({driver}) supports that with XDP"
        ),
    };
    let is_known = can.is_some() || !kernel_takes_frags;
    let finding = match (mode, is_known) {
        (Some(_), _) => {
            let why = "If the MTU was raised after the attach, the driver may drop longer frames before the program sees them. It may also refuse the next program.";
            Finding::note(Check::Mtu, &what, why)
        }
        (None, true) => Finding::warning(Check::Mtu, &what, REFUSES),
        (None, false) => Finding::note(Check::Mtu, &what, REFUSES),
    };
    Some(finding.fixed_by(format!("ip link set {name} mtu {USUAL_MTU}")))
}

/// Returns the finding about offloads that merge packets before the program. An attached program shows that the driver
/// accepts them.
fn offloads(facts: &Facts<'_>, lro: Option<Feature>, gro: Option<Feature>) -> Option<Finding> {
    let Facts { name, driver, mode: None, .. } = facts else { return None };
    let is_on = |feature: Option<Feature>| feature.is_some_and(|feature| feature.is_on);
    // This driver switches the offload off by itself, unless the hypervisor forbids it.
    if driver == "virtio_net" {
        let is_fixed = is_on(gro) && gro.is_some_and(|gro| !gro.can_change);
        let why = "With this offload, the driver refuses native XDP. To switch it off, set virtio's guest_tso4 and guest_tso6 in the hypervisor.";
        return is_fixed.then(|| {
            Finding::warning(Check::Offloads, "the host merges packets, and the driver cannot switch that off", why)
                .fixed_by(format!("ratelimit attach {name} --mode generic"))
        });
    }
    let why =
        "The card merges packets before the program sees them. With this offload, some drivers refuse native XDP.";
    is_on(lro).then(|| {
        Finding::note(Check::Offloads, "large receive offload is on", why)
            .fixed_by(format!("ethtool -K {name} lro off"))
    })
}

/// Returns the finding about a device that joins packets before the program sees them.
fn joined(joining: &Joining) -> Finding {
    let why = "A joined packet counts as one. So senders get more packets than their limit.";
    match joining.fix() {
        Some(fix) => Finding::warning(Check::Offloads, &joining.to_string(), why).fixed_by(fix),
        // Nobody here can tell whether it does.
        None => Finding::note(Check::Offloads, &joining.to_string(), why),
    }
}

/// Returns the finding about receive queues.
fn queues(facts: &Facts<'_>, channels: Option<Channels>, cpus: u32) -> Finding {
    let has_any = |channels: &Channels| channels.receiving.0 + channels.combined.0 != 0;
    let Some(channels) = channels.filter(has_any) else {
        return Finding::ok(Check::Queues, "the driver reports none");
    };
    let (now, possible) = channels.totals();
    // More queues than that, and the driver refuses a native program at the next attach.
    let driver = drivers::of(&facts.driver);
    let accepted = driver.map_or(possible, |driver| driver.most_queues(&channels));
    let most = accepted.min(cpus);
    let what = format!("{} for {}", count(u64::from(now), "receive queue"), count(u64::from(cpus), "CPU"));
    if now >= cpus {
        return Finding::ok(Check::Queues, &what);
    }
    let why = format!("One CPU empties each queue. So at most {now} of {cpus} CPUs handle a flood.");
    if facts.mode.is_some() && driver.is_some_and(|driver| driver.queues == Queues::Combined) {
        let what = format!("{what}, and the driver ({}) may refuse more while a program is attached", facts.driver);
        return Finding::note(Check::Queues, &what, &why);
    }
    if most <= now && accepted < possible {
        let what = format!("{what}, and the driver ({}) accepts native XDP with no more", facts.driver);
        return Finding::note(Check::Queues, &what, &why);
    }
    if most <= now {
        return Finding::note(
            Check::Queues,
            &format!("{what}, and the driver ({}) supports no more", facts.driver),
            &why,
        );
    }
    Finding::warning(Check::Queues, &what, &why).fixed_by(channels.command(facts.name, most, driver))
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            facts::tests::{ALL, brief, facts},
            finding::Severity,
        },
        *,
    };

    const ON: Option<Feature> = Some(Feature { is_on: true, can_change: true });

    #[test]
    fn a_large_mtu_is_a_warning_if_kernel_or_driver_support_one_buffer() {
        let severity =
            |can, mode, bytes, kernel| brief(mtu(&facts("ixgbe", can, mode), bytes, kernel)).map(|(is, _)| is);
        let one = Some(XdpFeatures { several_buffers: false, ..ALL });
        assert_eq!(severity(one, None, 1_500, true), None);
        assert_eq!(severity(one, None, 1_501, true), Some(Severity::Warning));
        assert_eq!(severity(Some(ALL), None, 9_000, true), Some(Severity::Ok));
        assert_eq!(severity(Some(ALL), None, 9_000, false), Some(Severity::Warning));
        assert_eq!(severity(None, None, 9_000, true), Some(Severity::Note));
        // The MTU may have been raised after the attach.
        assert_eq!(severity(one, Some(Attached::Native), 1_500, true), None);
        assert_eq!(severity(one, Some(Attached::Native), 9_000, true), Some(Severity::Note));
        assert_eq!(severity(None, Some(Attached::Native), 9_000, true), Some(Severity::Note));
        assert_eq!(severity(Some(ALL), Some(Attached::Native), 9_000, false), Some(Severity::Note));
        assert_eq!(severity(Some(ALL), Some(Attached::Native), 9_000, true), Some(Severity::Ok));
        // The network stack accepts all frames. A driver without native XDP does not matter.
        assert_eq!(severity(one, Some(Attached::Generic), 9_000, true), None);
        assert_eq!(severity(Some(XdpFeatures { native: false, ..ALL }), None, 9_000, true), None);
    }

    #[test]
    fn offloads_are_reported_for_drivers_that_refuse_them() {
        let fixed = Some(Feature { is_on: true, can_change: false });
        let of = |driver, mode, lro, gro| brief(offloads(&facts(driver, Some(ALL), mode), lro, gro));
        let generic = Some("ratelimit attach eth0 --mode generic".to_owned());
        assert_eq!(of("virtio_net", None, ON, fixed), Some((Severity::Warning, generic)));
        assert_eq!(of("virtio_net", None, ON, ON), None);
        let switch_off = Some("ethtool -K eth0 lro off".to_owned());
        assert_eq!(of("ixgbe", None, ON, None), Some((Severity::Note, switch_off)));
        assert_eq!(of("ixgbe", Some(Attached::Native), ON, None), None);
        assert_eq!(of("ixgbe", None, None, ON), None);
    }

    #[test]
    fn combined_queues_count() {
        let of = |combined, cpus| {
            let channels = Channels { receiving: (0, 0), sending: (0, 0), combined };
            brief(Some(queues(&facts("ixgbe", Some(ALL), None), Some(channels), cpus))).unwrap()
        };
        assert_eq!(of((8, 64), 8), (Severity::Ok, None));
        assert_eq!(of((4, 64), 8), (Severity::Warning, Some("ethtool -L eth0 combined 8".to_owned())));
        assert_eq!(of((4, 6), 8), (Severity::Warning, Some("ethtool -L eth0 combined 6".to_owned())));
        assert_eq!(of((4, 4), 8), (Severity::Note, None));
    }

    #[test]
    fn no_more_queues_are_advised_than_a_driver_accepts() {
        let of = |driver, now, most| {
            let channels = Channels { receiving: (0, 0), sending: (0, 0), combined: (now, most) };
            brief(Some(queues(&facts(driver, Some(ALL), None), Some(channels), 8))).unwrap()
        };
        assert_eq!(of("ena", 2, 8), (Severity::Warning, Some("ethtool -L eth0 combined 4".to_owned())));
        assert_eq!(of("ena", 4, 8), (Severity::Note, None));
        assert_eq!(of("ena", 4, 32), (Severity::Warning, Some("ethtool -L eth0 combined 8".to_owned())));
        assert_eq!(of("virtio_net", 4, 8), (Severity::Warning, Some("ethtool -L eth0 combined 8".to_owned())));
        let gve = Channels { receiving: (2, 16), sending: (2, 16), combined: (0, 0) };
        let found = brief(Some(queues(&facts("gve", Some(ALL), None), Some(gve), 16))).unwrap();
        assert_eq!(found, (Severity::Warning, Some("ethtool -L eth0 rx 8 tx 8".to_owned())));
        let bnxt = |receiving, combined, mode| {
            let channels = Channels { receiving, sending: receiving, combined };
            brief(Some(queues(&facts("bnxt_en", Some(ALL), mode), Some(channels), 8))).unwrap()
        };
        let separate = Some("ethtool -L eth0 rx 0 tx 0 combined 8".to_owned());
        assert_eq!(bnxt((2, 37), (0, 74), None), (Severity::Warning, separate));
        let combined = Some("ethtool -L eth0 combined 8".to_owned());
        assert_eq!(bnxt((0, 37), (2, 74), None), (Severity::Warning, combined));
        assert_eq!(bnxt((0, 37), (2, 74), Some(Attached::Native)), (Severity::Note, None));
    }
}
