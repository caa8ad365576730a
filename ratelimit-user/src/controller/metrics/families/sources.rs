//! How many sources are tracked.

use super::{Family, Scene};
use crate::dataplane::Error;

pub(super) fn families(scene: &Scene<'_>) -> Result<Vec<Family>, Error> {
    let tracked = &scene.tracked;
    let capacity = u64::from(scene.view.tables().capacity()?);
    Ok(vec![
        Family::gauge(
            "ratelimit_sources_tracked",
            "Sources that are remembered just now, once for each service that rules are about.",
        )
        .of(tracked.sources),
        Family::gauge(
            "ratelimit_sources_exceeding",
            "Those of them that had packets dropped since, or would have in shadow.",
        )
        .of(tracked.exceeding),
        Family::gauge("ratelimit_sources_max", "Most that can be remembered; then the longest silent one gives way.")
            .of(capacity),
    ])
}
