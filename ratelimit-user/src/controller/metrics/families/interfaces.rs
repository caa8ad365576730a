//! Where the program is attached, and what became of packets there.

use std::collections::{BTreeMap, HashSet};

use ratelimit_common::maps::interface_counters::Counts;

use super::{Family, Scene, traffic::Traffic};
use crate::dataplane::{
    Error, attach::attachment::Attachment, readings::interface_counters::Shares, rules::capacities,
    sys::interface::Attached,
};

/// The label of all interfaces together that are not counted apart. No interface has such a name.
const OTHERS: &str = "all others";

pub(super) fn families(scene: &Scene<'_>) -> Result<Vec<Family>, Error> {
    let mut interfaces = Family::gauge(
        "ratelimit_interface_info",
        "Always 1. Interfaces by the mode that the program runs in (gone: the interface was deleted; hidden: it is in another network namespace).",
    );
    let mut capacity = Family::gauge(
        "ratelimit_interface_capacity_packets_per_second",
        "Up to what altogether elastic limits let pass what is above them.",
    );
    let mut known = HashSet::new();
    let attachments = scene.view.attachments()?;
    for attachment in &attachments {
        let mode = match (attachment.mode, attachment.is_gone) {
            (Some(mode), _) => Attached::name(mode),
            (None, true) => "gone",
            (None, false) => "hidden",
        };
        let program = attachment.program_id.to_string();
        // In several other namespaces there may be interfaces of one name.
        if known.insert((attachment.name.clone(), mode)) {
            interfaces.add([("interface", &attachment.name), ("mode", mode), ("program_id", &program)], 1);
        }
        let per_second = attachment.index.map_or(Ok(None), |index| capacities::of(scene.view.tables(), index))?;
        if let Some(per_second) = per_second {
            capacity.add([("interface", &attachment.name)], per_second);
        }
    }
    let mut families = vec![interfaces, capacity];
    families.extend(traffic(scene, &attachments)?);
    Ok(families)
}

/// The same as of the whole, by interface.
fn traffic(scene: &Scene<'_>, attachments: &[Attachment]) -> Result<Vec<Family>, Error> {
    let mut traffic = Traffic::new(
        Family::counter(
            "ratelimit_interface_packets_total",
            "Packets by the interface that they came in by, by what became of them and why, since it was attached first.",
        ),
        Family::counter("ratelimit_interface_bytes_total", "The same in bytes of whole frames."),
    );
    let names = names(attachments);
    let shares = Shares::of(scene.view.tables(), &names.keys().copied().collect())?;
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

/// A name for each index. Those of one index, in several network namespaces, are counted together; of one name, they get their index too.
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
