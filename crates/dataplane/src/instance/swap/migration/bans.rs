//! Bans of layout 12, which were a hash map from the source to a rule with an end.

use std::path::PathBuf;

use aya::maps::{MapData, MapType};
use ratelimit_common::{
    identity::source::Source, limits::policy::Policy, maps::control::Control, maps::names, rules::rule::Rule,
};

use super::layout::{Layout, Maps, from_bytes, read};
use crate::{
    Error,
    error::Tried as _,
    sys::{bpf::raw::RawMap, host},
    tables::bans::Bans,
};

/// Returns whether a map of bans is that of layout 12.
pub(super) fn are_of_layout_12(bans: &RawMap) -> bool {
    bans.is_one_of(&[MapType::Hash])
}

/// Returns whether a policy of the running instance bans sources, or there are bans of layout 12.
pub(super) fn are_needed(before: &Maps, known: &Maps) -> Result<bool, Error> {
    let mut are_needed = false;
    if let (Some((old, from)), Some((_, to))) = (before.get(names::POLICIES), known.get(names::POLICIES)) {
        old.each(|_, value| {
            let policy: Policy = from_bytes(&to.value(from, value, false))?;
            are_needed |= policy.ban.time != 0;
            Ok(())
        })?;
    }
    if let Some((old, _)) = before.get(names::BANS).filter(|(old, _)| are_of_layout_12(old)) {
        old.each(|_, _| {
            are_needed = true;
            Ok(())
        })?;
    }
    Ok(are_needed)
}

/// Copies the bans of layout 12 that are in force. `place` returns the paths of the new maps.
pub(super) fn copy(old: &RawMap, from: &Layout, known: &Maps, place: &dyn Fn(&str) -> PathBuf) -> Result<(), Error> {
    // Other maps have the types of a source and a rule too.
    let Some((_, to)) = known.get(names::SOURCE_RULES) else { return Ok(()) };
    let open = |name: &str| MapData::from_pin(place(name)).tried("cannot open a new map");
    let control: Control = read(&RawMap::from_pin(&place(names::CONTROL))?)?;
    let bans = Bans::of(&open(names::BANS)?, &open(names::BAN_FILTER)?, control.seed)?;
    let now = host::now();
    old.each(|key, value| {
        let source: Source = from_bytes(&to.key(from, key))?;
        let ban: Rule = from_bytes(&to.value(from, value, false))?;
        // Layout 12 had half as many places, so there is one for each ban.
        if now < ban.expires {
            bans.insert(&source, ban.expires, now);
        }
        Ok(())
    })
}
