//! One interface: its driver, its queues, its frames, and what is on it already.

use super::{Check, Finding, finding::count, instance::Running};
use crate::dataplane::{
    Error,
    ethtool::{Channels, Ethtool, Feature},
    gauges, host,
    interface::{Attached, Interface, Program},
    netdev::{self, XdpFeatures},
    object::FRAGS_SINCE,
    takeover,
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

pub(super) fn examine(interface: &Interface, running: Option<&Running>) -> Result<Vec<Finding>, Error> {
    let driver = Ethtool::of(&interface.name)?;
    let is_ours = running.is_some_and(|running| running.has(interface));
    let facts = Facts {
        name: &interface.name,
        driver: driver.driver().unwrap_or_else(|| "unknown".to_owned()),
        can: netdev::xdp_features(interface.index),
        mode: interface.program.filter(|_| is_ours).map(|program| program.mode),
    };
    let mut findings = vec![link(interface)];
    match interface.program.filter(|_| !is_ours) {
        Some(other) => findings.push(other_program(&facts, other, &takeover::program_name(other.id))),
        None => findings.push(native(&facts)),
    }
    if running.is_some_and(|running| !running.attachments.is_empty()) && !is_ours {
        let why = "Other interfaces are: what comes in here is not limited.";
        findings.push(Finding::note(Check::Interface, "ratelimit is not attached here", why).mended_by(facts.attach()));
    }
    let takes_frags = host::kernel_is_at_least(FRAGS_SINCE);
    findings.extend(mtu(&facts, interface.mtu, takes_frags));
    for (feature, what) in [("rx-lro", "lro"), ("rx-gro-hw", "rx-gro-hw")] {
        findings.extend(offload(&facts, what, driver.feature(feature)));
    }
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

/// Whether the program runs in the driver, or can.
fn native(facts: &Facts<'_>) -> Finding {
    let Facts { name, driver, can, mode } = facts;
    let dear = "A generic program sees a packet after the kernel has made a socket buffer of it: a flood costs several times as much.";
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

/// What joins packets in the card. A program that is attached in the driver has been let in all the same.
fn offload(facts: &Facts<'_>, option: &str, feature: Option<Feature>) -> Option<Finding> {
    let Feature { can_change, .. } = feature.filter(|feature| feature.is_on && facts.mode.is_none())?;
    let why = "The card joins packets before a program could see them: many drivers refuse native XDP then.";
    let what = format!("{option} is on");
    Some(match can_change {
        true => {
            Finding::warning(Check::Offloads, &what, why).mended_by(format!("ethtool -K {} {option} off", facts.name))
        }
        false => Finding::note(Check::Offloads, &format!("{what}, and its driver cannot switch it off"), why),
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
