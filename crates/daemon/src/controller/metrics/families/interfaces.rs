//! Interfaces, and the packet verdicts by interface.

use std::collections::{BTreeMap, HashSet};

use ratelimit_common::maps::interface_counters::Counts;
use ratelimit_dataplane::{
    Error, attach::attachment::Attachment, readings::interface_counters::Shares, rules::capacities,
    sys::interface::Attached,
};

use super::{page::Family, reading::Reading, traffic::Traffic};

/// The label for interfaces without counters of their own. No interface can have this name.
const OTHERS: &str = "all others";

pub(super) fn families(reading: &Reading<'_>, listed: &[String]) -> Result<Vec<Family>, Error> {
    let mut interfaces = Family::gauge(
        "ratelimit_interface_info",
        "Always 1. Attached interfaces with the mode of the program (gone: the interface was deleted; hidden: it is in another network namespace).",
    );
    let mut capacity = Family::gauge(
        "ratelimit_interface_capacity_packets_per_second",
        "Capacity of an interface. Below it, elastic limits let packets over the limit pass.",
    );
    let mut shadow = Family::gauge(
        "ratelimit_interface_shadow",
        "1 if packets of an interface pass in shadow, although those of others may not. See ratelimit_shadow for all.",
    );
    let mut known = HashSet::new();
    let attachments = reading.view.attachments()?;
    for attachment in &attachments {
        let mode = match (attachment.mode, attachment.is_gone) {
            (Some(mode), _) => Attached::name(mode),
            (None, true) => "gone",
            (None, false) => "hidden",
        };
        let program = attachment.program_id.to_string();
        // Interfaces of several network namespaces can have the same name.
        if known.insert((attachment.name.clone(), mode)) {
            shadow.add([("interface", &attachment.name)], attachment.is_shadow());
            interfaces.add([("interface", &attachment.name), ("mode", mode), ("program_id", &program)], 1);
        }
        let per_second = attachment.index.map_or(Ok(None), |index| capacities::of(reading.view.tables(), index))?;
        if let Some(per_second) = per_second {
            capacity.add([("interface", &attachment.name)], per_second);
        }
    }
    let mut families = vec![interfaces, capacity, shadow, of_file(&attachments, listed)];
    families.extend(traffic(reading, &attachments)?);
    Ok(families)
}

/// Returns which interfaces of the file are attached.
fn of_file(attachments: &[Attachment], listed: &[String]) -> Family {
    let mut attached = Family::gauge(
        "ratelimit_config_interface_attached",
        "1 if an interface of the configuration file is attached, 0 if not, for example because it does not exist.",
    );
    for name in listed {
        let is_attached = attachments.iter().any(|attachment| attachment.is_on(name));
        attached.add([("interface", name)], is_attached);
    }
    attached
}

/// Returns the packet verdicts by interface.
fn traffic(reading: &Reading<'_>, attachments: &[Attachment]) -> Result<Vec<Family>, Error> {
    let mut traffic = Traffic::new(
        Family::counter(
            "ratelimit_interface_packets_total",
            "Packets by receiving interface, verdict and reason, since the interface was first attached. Verdict shadow: passed, but would be dropped.",
        ),
        Family::counter(
            "ratelimit_interface_bytes_total",
            "Bytes of whole frames by receiving interface, verdict and reason.",
        ),
    );
    let names = names(attachments);
    let shares = Shares::of(reading.view.tables(), &names.keys().copied().collect())?;
    let mut others = None;
    for (index, counts) in &shares.interfaces {
        match (names.get(index), counts) {
            (Some(name), Some(counts)) => add(&mut traffic, name, counts),
            _ => others = Some(&shares.others),
        }
    }
    if let Some(counts) = others {
        add(&mut traffic, OTHERS, counts);
    }
    Ok(traffic.families())
}

fn add(traffic: &mut Traffic, interface: &str, counts: &Counts) {
    traffic.add_by_reason(counts, |[verdict, reason]| [("interface", interface), verdict, reason]);
}

/// Returns a label for each index. Interfaces of several network namespaces with the same index share a label.
/// Different indices with the same name get labels with the index.
fn names(attachments: &[Attachment]) -> BTreeMap<u32, String> {
    let mut names = BTreeMap::<u32, Vec<&str>>::new();
    for attachment in attachments {
        if let Some(index) = attachment.index {
            names.entry(index).or_default().push(&attachment.name);
        }
    }
    let joined: BTreeMap<u32, String> = names.into_iter().map(|(index, names)| (index, names.join("+"))).collect();
    let is_shared = |name: &String| joined.values().filter(|other| *other == name).count() > 1;
    let unique = |(index, name): (&u32, &String)| {
        (*index, if is_shared(name) { format!("{name}#{index}") } else { name.clone() })
    };
    joined.iter().map(unique).collect()
}
