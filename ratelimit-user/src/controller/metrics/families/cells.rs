//! Cells, unknown sources, answers, and what the program counts of itself.

use ratelimit_common::maps::control::{FEATURE_FRONT, FEATURE_SHADOW, FEATURE_UNKNOWN};

use super::{Family, Scene};
use crate::dataplane::{Error, readings::cells};

pub(super) fn families(scene: &Scene<'_>) -> Result<Vec<Family>, Error> {
    let (tables, cpus) = (scene.view.tables(), &scene.cpus);
    let is_on = |feature| scene.control.features & feature != 0;
    let mut replies = Family::counter(
        "ratelimit_replies_total",
        "Packets over a limit that were answered (sent), or could have been within a larger budget (unsent).",
    );
    replies.add([("outcome", "sent")], cpus.replies_sent);
    replies.add([("outcome", "unsent")], cpus.replies_unsent);
    let mut families = vec![
        Family::gauge("ratelimit_shadow", "1 while every packet passes, whatever the rules say.")
            .of(is_on(FEATURE_SHADOW)),
        replies,
        Family::counter("ratelimit_lost_races_total", "Times that another CPU changed a word first.")
            .of(cpus.lost_races),
    ];
    if is_on(FEATURE_FRONT) {
        families.push(
            Family::counter(
                "ratelimit_displaced_refusals_total",
                "Refusals that gave way to another source's while in force.",
            )
            .of(cpus.displaced),
        );
        families
            .push(Family::gauge("ratelimit_cells", "Cells in front of the buckets.").of(u64::from(tables.front.len())));
        if let Some(crowded) = cells::crowded(tables)? {
            families.push(
                Family::gauge("ratelimit_cells_crowded", "Cells in which several sources exceed the default limit.")
                    .of(crowded as u64),
            );
        }
    }
    if is_on(FEATURE_UNKNOWN) {
        families.extend([
            Family::gauge("ratelimit_unknown_packets_per_second", "What all unknown sources together may send.")
                .of(scene.control.unknown.per_second),
            Family::counter("ratelimit_unknown_passed_packets_total", "Packets of unknown sources that passed.")
                .of(cpus.unknown_passed),
            Family::gauge("ratelimit_known_sources", "Sources that are known as known sources.")
                .of(cells::known(tables)? as u64),
        ]);
    }
    Ok(families)
}
