//! Cells, unknown sources, own connections, answers to rejected packets, and shadow mode.

use ratelimit_common::maps::control::{FEATURE_FRONT, FEATURE_OWN, FEATURE_PROVE_TCP, FEATURE_SHADOW, FEATURE_UNKNOWN};
use ratelimit_dataplane::{
    Error,
    program::proofs::ALWAYS,
    readings::{cells, gauges},
    sys::host,
};

use super::{page::Family, reading::Reading};

pub(super) fn families(reading: &Reading<'_>) -> Result<Vec<Family>, Error> {
    let (tables, cpus) = (reading.view.tables(), &reading.cpus);
    let is_on = |feature| reading.control.features & feature != 0;
    let mut replies = Family::counter(
        "ratelimit_replies_total",
        "Answers to rejected packets: sent, or not sent because their budget was spent (unsent).",
    );
    replies.add([("outcome", "sent")], cpus.replies_sent);
    replies.add([("outcome", "unsent")], cpus.replies_unsent);
    let mut families = vec![
        Family::gauge("ratelimit_shadow", "1 in shadow mode, in which every packet passes.").of(is_on(FEATURE_SHADOW)),
        replies,
        Family::counter(
            "ratelimit_lost_races_total",
            "Races that were lost to another CPU, which changed a shared word first.",
        )
        .of(cpus.lost_races),
    ];
    if is_on(FEATURE_FRONT) {
        families.push(
            Family::counter(
                "ratelimit_displaced_refusals_total",
                "Cached refusals that were replaced by another source's before they expired.",
            )
            .of(cpus.displaced_refusals),
        );
        families.push(Family::gauge("ratelimit_cells", "Number of cells.").of(u64::from(tables.front.open()?.len())));
        if let Some(crowded) = cells::crowded(tables)? {
            families.push(
                Family::gauge(
                    "ratelimit_cells_crowded",
                    "Cells that are shared by several sources over the default limit.",
                )
                .of(crowded as u64),
            );
        }
    }
    if is_on(FEATURE_UNKNOWN) {
        let mut proven = Family::counter(
            "ratelimit_proven_sources_total",
            "Unknown sources that proved their address by an established connection (connection) or a SYN cookie (cookie).",
        );
        proven.add([("by", "connection")], cpus.proven_by_connection);
        proven.add([("by", "cookie")], cpus.proven_by_cookie);
        let mut looked_up = Family::counter(
            "ratelimit_proof_look_ups_total",
            "Packets over the rate of unknown sources whose socket was looked up (done), or not because the budget was spent (unbudgeted).",
        );
        looked_up.add([("outcome", "done")], cpus.proofs_looked_up);
        looked_up.add([("outcome", "unbudgeted")], cpus.proofs_not_looked_up);
        families.extend([
            Family::gauge(
                "ratelimit_unknown_packets_per_second",
                "Limit for all unknown sources in total, in packets per second.",
            )
            .of(gauges::unknown_rate(tables, &reading.control)?.unwrap_or(0)),
            Family::counter("ratelimit_unknown_passed_packets_total", "Packets of unknown sources that passed.")
                .of(cpus.unknown_passed),
            Family::gauge("ratelimit_known_sources", "Known sources.").of(cells::known(tables)? as u64),
            proven,
            looked_up,
        ]);
    }
    if is_on(FEATURE_PROVE_TCP) {
        families.extend([
            Family::gauge("ratelimit_syn_cookies_per_second", "Budget of SYN cookies for all sources in total.")
                .of(reading.control.proofs.per_second),
            Family::counter(
                "ratelimit_syn_cookies_unsent_total",
                "SYNs of unknown sources without an answer, because the budget of SYN cookies was spent.",
            )
            .of(cpus.cookies_unsent),
            Family::gauge(
                "ratelimit_syn_cookies_possible",
                "1 if the kernel gives SYN cookies always, as they need it: net.ipv4.tcp_syncookies is 2.",
            )
            .of(host::syn_cookies().as_deref() == Some(ALWAYS)),
        ]);
    }
    if let Some(learned) = gauges::learned_rate(tables, &reading.control)? {
        families.extend([
            Family::gauge(
                "ratelimit_unknown_calm_packets_per_second",
                "Most packets per second of unknown sources in a calm minute, of the days that the program remembers.",
            )
            .of(learned.most().div_ceil(60)),
            Family::counter("ratelimit_unknown_calm_minutes_total", "Calm minutes from which the program has learned.")
                .of(learned.calm),
        ]);
    }
    if is_on(FEATURE_OWN) {
        let mut looked_up = Family::counter(
            "ratelimit_own_look_ups_total",
            "Refused packets whose socket was looked up (done), or not because the budget was spent (unbudgeted).",
        );
        looked_up.add([("outcome", "done")], cpus.own_looked_up);
        looked_up.add([("outcome", "unbudgeted")], cpus.own_not_looked_up);
        families.extend([
            Family::gauge(
                "ratelimit_own_packets_per_second",
                "Rate of each source up to which packets of own connections are spared.",
            )
            .of(reading.control.own.per_second),
            looked_up,
        ]);
    }
    Ok(families)
}
