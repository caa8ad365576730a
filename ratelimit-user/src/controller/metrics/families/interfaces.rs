//! Where the program is attached.

use std::collections::HashSet;

use super::{Family, Scene};
use crate::dataplane::{Error, capacities, interface::Attached};

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
    for attachment in scene.view.attachments()? {
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
    Ok(vec![interfaces, capacity])
}
