//! One interface: its driver, its queues, its frames, and what is on it already.

use super::{Check, Finding, finding::count, instance::Ours};
use crate::dataplane::{
    Error,
    attach::foreign_program,
    program::loader::FRAGS_SINCE,
    readings::gauges,
    sys::{
        ethtool::{Channels, Ethtool, Feature},
        host,
        interface::{Attached, Interface, Program},
        xdp_features::{self, XdpFeatures},
    },
};

/// The largest MTU that fits any driver's buffer.
const USUAL_MTU: u32 = 1_500;

/// What there is to know of an interface.
struct Facts<'a> {
    name: &'a str,
    /// Its driver, as far as that says so.
    driver: String,
    /// What the driver can do, where the kernel says so.
    can: Option<XdpFeatures>,
    /// How our program is attached.
    mode: Option<Attached>,
}

impl Facts<'_> {
    /// The command that attaches.
    fn attach(&self) -> String {
        let cannot = self.can.is_some_and(|can| !can.native);
        format!("ratelimit attach {}{}", self.name, if cannot { " --mode generic" } else { "" })
    }
}

/// `as_root` is the command that sees more.
pub(super) fn examine(interface: &Interface, ours: &Ours, as_root: &str) -> Result<Vec<Finding>, Error> {
    let driver = Ethtool::of(&interface.name)?;
    let is_ours = ours.has(interface);
    // Whoever's it is, the driver has taken it.
    let is_taken = is_ours || !ours.are_known;
    let facts = Facts {
        name: &interface.name,
        driver: driver.driver().unwrap_or_else(|| "unknown".to_owned()),
        can: xdp_features::xdp_features(interface.index),
        mode: interface.program.filter(|_| is_taken).map(|program| program.mode),
    };
    let mut findings = vec![link(interface)];
    match interface.program.filter(|_| !is_ours) {
        Some(hidden) if !ours.are_known => findings.push(hidden_program(hidden, as_root)),
        Some(other) => findings.push(other_program(&facts, other, &foreign_program::program_name(other.id))),
        None => findings.push(native(&facts)),
    }
    if !ours.attachments.is_empty() && !is_ours {
        let why = "Other interfaces are: what comes in here is not limited.";
        findings.push(Finding::note(Check::Interface, "ratelimit is not attached here", why).mended_by(facts.attach()));
    }
    let takes_frags = host::kernel_is_at_least(FRAGS_SINCE);
    findings.extend(mtu(&facts, interface.mtu, takes_frags));
    findings.extend(offloads(&facts, driver.feature("rx-lro"), driver.feature("rx-gro-hw")));
    findings.push(queues(&facts, driver.channels(), gauges::cpus()? as u32));
    Ok(findings.into_iter().map(|finding| finding.on(&interface.name)).collect())
}

fn link(interface: &Interface) -> Finding {
    let name = &interface.name;
    match (interface.is_up, interface.has_carrier) {
        (true, true) => Finding::ok(Check::Link, "up"),
        (true, false) => {
            let why = "No packet arrives: no cable, or the other end is down.";
            Finding::warning(Check::Link, "up, but without a carrier", why)
                .mended_by(format!("ip -details link show {name}"))
        }
        (false, _) => {
            Finding::warning(Check::Link, "down", "No packet arrives.").mended_by(format!("ip link set {name} up"))
        }
    }
}

fn other_program(facts: &Facts<'_>, Program { id, mode }: Program, name: &str) -> Finding {
    let mode = mode.name();
    let why = "An interface has one XDP program: attach refuses, unless it is told to take the place of that one.";
    let what = format!("has the XDP program {name:?} (id {id}, {mode}) of somebody else");
    Finding::error(Check::OtherProgram, &what, why).mended_by(format!("{} --replace", facts.attach()))
}

/// A program that may be ours.
fn hidden_program(Program { id, mode }: Program, as_root: &str) -> Finding {
    let what = format!("has an XDP program (id {id}, {}) that this user may not look at", mode.name());
    Finding::note(Check::OtherProgram, &what, "It is ratelimit's own, or somebody else's.").mended_by(as_root)
}

/// Whether the program runs in the driver, or can.
fn native(facts: &Facts<'_>) -> Finding {
    let Facts { name, driver, can, mode } = facts;
    let dear =
        "A generic program sees a packet after the kernel has made a socket buffer of it: a flood costs far more.";
    let again = format!("ratelimit detach {name} && ratelimit attach {name}");
    match (mode, can) {
        (Some(Attached::Native | Attached::Offloaded), _) => {
            Finding::ok(Check::NativeXdp, &format!("attached, native (driver {driver})"))
        }
        (Some(Attached::Generic), Some(XdpFeatures { native: true, .. })) => {
            let what = format!("attached in generic mode, though its driver ({driver}) has native XDP");
            Finding::warning(Check::NativeXdp, &what, dear).mended_by(again)
        }
        (Some(Attached::Generic), Some(XdpFeatures { native: false, .. })) => {
            let what = format!("attached in generic mode: its driver ({driver}) has no native XDP");
            Finding::note(Check::NativeXdp, &what, dear)
        }
        (Some(Attached::Generic), None) => {
            let what =
                format!("attached in generic mode; what its driver ({driver}) can do is not told before Linux 6.3");
            Finding::warning(Check::NativeXdp, &what, dear).mended_by(again)
        }
        (None, Some(XdpFeatures { native: true, .. })) => {
            Finding::ok(Check::NativeXdp, &format!("its driver ({driver}) has it"))
        }
        (None, Some(XdpFeatures { native: false, .. })) => {
            let what = format!("its driver ({driver}) has no native XDP");
            Finding::warning(Check::NativeXdp, &what, &format!("Attach refuses without --mode generic. {dear}"))
                .mended_by(facts.attach())
        }
        (None, None) => {
            let what = format!("whether its driver ({driver}) has native XDP is not told before Linux 6.3");
            Finding::note(Check::NativeXdp, &what, "`ratelimit attach` tries, and says so if it has not.")
        }
    }
}

/// Frames longer than a buffer need a driver that takes them in parts. What is attached in the driver was taken by it.
fn mtu(facts: &Facts<'_>, mtu: u32, kernel_takes_frags: bool) -> Option<Finding> {
    let Facts { name, driver, can, mode } = facts;
    if mtu <= USUAL_MTU || mode.is_some() || can.is_some_and(|can| !can.native) {
        return None;
    }
    let mend = format!("ip link set {name} mtu {USUAL_MTU}");
    let refuses = "Most drivers without refuse XDP above about 3,500 bytes, and native attach fails then.";
    if !kernel_takes_frags {
        let what =
            format!("its MTU is {mtu}, and before Linux 5.18 there is no native XDP for frames of several buffers");
        return Some(Finding::warning(Check::Mtu, &what, refuses).mended_by(mend));
    }
    match can {
        Some(XdpFeatures { several_buffers: true, .. }) => {
            Some(Finding::ok(Check::Mtu, &format!("{mtu}, and its driver takes frames of several buffers")))
        }
        Some(_) => {
            let what =
                format!("its MTU is {mtu}, and its driver ({driver}) has no native XDP for frames of several buffers");
            Some(Finding::warning(Check::Mtu, &what, refuses).mended_by(mend))
        }
        None => {
            let what = format!(
                "its MTU is {mtu}; whether its driver ({driver}) takes that with XDP is not told before Linux 6.3"
            );
            Some(Finding::note(Check::Mtu, &what, refuses).mended_by(mend))
        }
    }
}

/// What joins packets before a program could see them. A program that is attached has been let in all the same.
fn offloads(facts: &Facts<'_>, lro: Option<Feature>, gro: Option<Feature>) -> Option<Finding> {
    let Facts { name, driver, mode: None, .. } = facts else { return None };
    let is_on = |feature: Option<Feature>| feature.is_some_and(|feature| feature.is_on);
    // This one switches it off by itself, unless the hypervisor does not let it.
    if driver == "virtio_net" {
        let is_fixed = is_on(gro) && gro.is_some_and(|gro| !gro.can_change);
        let why = "Its driver refuses native XDP then. The hypervisor can leave that to the guest (virtio's guest_tso4, guest_tso6).";
        return is_fixed.then(|| {
            Finding::warning(Check::Offloads, "the host joins packets, and its driver cannot switch that off", why)
                .mended_by(format!("ratelimit attach {name} --mode generic"))
        });
    }
    let why = "The card joins packets before a program could see them: some drivers refuse native XDP then.";
    is_on(lro).then(|| {
        Finding::note(Check::Offloads, "large receive offload is on", why)
            .mended_by(format!("ethtool -K {name} lro off"))
    })
}

/// Whether all CPUs can take what arrives.
fn queues(facts: &Facts<'_>, channels: Option<Channels>, cpus: u32) -> Finding {
    let has_any = |channels: &Channels| channels.receiving.0 + channels.combined.0 != 0;
    let Some(Channels { receiving, combined }) = channels.filter(has_any) else {
        return Finding::ok(Check::Queues, "its driver tells of none");
    };
    let (now, most) = (receiving.0 + combined.0, receiving.1.max(combined.1).min(cpus));
    let what = format!("{} for {}", count(u64::from(now), "receive queue"), count(u64::from(cpus), "CPU"));
    if now >= cpus {
        return Finding::ok(Check::Queues, &what);
    }
    let why =
        format!("Each queue is emptied by one CPU: {now} of {cpus} at most take a flood, and the others stand by.");
    if most <= now {
        return Finding::note(Check::Queues, &format!("{what}, and its driver ({}) has no more", facts.driver), &why);
    }
    let kind = if combined.1 == 0 { "rx" } else { "combined" };
    Finding::warning(Check::Queues, &what, &why).mended_by(format!("ethtool -L {} {kind} {most}", facts.name))
}

#[cfg(test)]
mod tests {
    use super::{super::Severity, *};

    const ALL: XdpFeatures = XdpFeatures { native: true, several_buffers: true };
    const ON: Option<Feature> = Some(Feature { is_on: true, can_change: true });

    fn facts(driver: &str, can: Option<XdpFeatures>, mode: Option<Attached>) -> Facts<'static> {
        Facts { name: "eth0", driver: driver.to_owned(), can, mode }
    }

    /// How bad a finding is, and the command that mends it.
    fn told(finding: Option<Finding>) -> Option<(Severity, Option<String>)> {
        finding.map(|finding| (finding.severity, finding.mend))
    }

    #[test]
    fn where_the_kernel_does_not_tell_what_a_driver_can_do_nothing_is_claimed() {
        let unknown = |mode| told(Some(native(&facts("ixgbe", None, mode)))).unwrap();
        assert_eq!(unknown(None), (Severity::Note, None));
        assert_eq!(unknown(Some(Attached::Native)).0, Severity::Ok);
        let again = "ratelimit detach eth0 && ratelimit attach eth0".to_owned();
        assert_eq!(unknown(Some(Attached::Generic)), (Severity::Warning, Some(again)));
    }

    #[test]
    fn a_large_mtu_hurts_as_far_as_kernel_and_driver_have_one_buffer() {
        let severity =
            |can, mode, bytes, kernel| told(mtu(&facts("ixgbe", can, mode), bytes, kernel)).map(|(is, _)| is);
        let one = Some(XdpFeatures { several_buffers: false, ..ALL });
        assert_eq!(severity(one, None, 1_500, true), None);
        assert_eq!(severity(one, None, 1_501, true), Some(Severity::Warning));
        assert_eq!(severity(Some(ALL), None, 9_000, true), Some(Severity::Ok));
        assert_eq!(severity(Some(ALL), None, 9_000, false), Some(Severity::Warning));
        assert_eq!(severity(None, None, 9_000, true), Some(Severity::Note));
        // The driver has taken it, or has no native XDP in any case.
        assert_eq!(severity(one, Some(Attached::Native), 9_000, true), None);
        assert_eq!(severity(Some(XdpFeatures { native: false, ..ALL }), None, 9_000, true), None);
    }

    #[test]
    fn packets_that_are_joined_too_early_are_told_where_a_driver_minds() {
        let fixed = Some(Feature { is_on: true, can_change: false });
        let of = |driver, mode, lro, gro| told(offloads(&facts(driver, Some(ALL), mode), lro, gro));
        let generic = Some("ratelimit attach eth0 --mode generic".to_owned());
        assert_eq!(of("virtio_net", None, ON, fixed), Some((Severity::Warning, generic)));
        assert_eq!(of("virtio_net", None, ON, ON), None);
        let switch_off = Some("ethtool -K eth0 lro off".to_owned());
        assert_eq!(of("ixgbe", None, ON, None), Some((Severity::Note, switch_off)));
        assert_eq!(of("ixgbe", Some(Attached::Native), ON, None), None);
        assert_eq!(of("ixgbe", None, None, ON), None);
    }

    #[test]
    fn queues_that_receive_and_send_are_counted_too() {
        let of = |combined, cpus| {
            let channels = Channels { receiving: (0, 0), combined };
            told(Some(queues(&facts("ixgbe", Some(ALL), None), Some(channels), cpus))).unwrap()
        };
        assert_eq!(of((8, 64), 8), (Severity::Ok, None));
        assert_eq!(of((4, 64), 8), (Severity::Warning, Some("ethtool -L eth0 combined 8".to_owned())));
        assert_eq!(of((4, 6), 8), (Severity::Warning, Some("ethtool -L eth0 combined 6".to_owned())));
        assert_eq!(of((4, 4), 8), (Severity::Note, None));
    }
}
