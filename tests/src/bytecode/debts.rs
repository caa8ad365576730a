//! What a source or a parent owes, in its levels or in its bucket.

use ratelimit_common::{
    cells::cell,
    identity::source::Source,
    limits::policy::Policy,
    maps::{control::FEATURE_FRONT, levels},
    meters::{
        gcra::{Units, units},
        stages, state,
    },
};

use crate::Bytecode;

/// Returns the debts of both limits under a key of this policy: those of its levels, or without cells of its bucket.
///
/// # Panics
///
/// If the kernel refuses.
#[must_use]
pub fn debts(bytecode: &Bytecode, key: Source, policy: &Policy) -> [Units; 2] {
    let tables = &bytecode.tables;
    let control = tables.control().expect("cannot read the control map");
    let now = units(control.clock);
    if control.features & FEATURE_FRONT == 0 {
        return bytecode.bucket(key).map_or([0; 2], |own| [own.packets, own.second].map(|own| state::debt(own, now)));
    }
    let hash = key.hash(&control.seed);
    let levels = if policy.lane() == 0 {
        let cells = tables.front.open().expect("cannot open the cells");
        let cell = cells.get(&cell::index(hash, cells.len()), 0).expect("cannot read a cell");
        [cell.packets, cell.second]
    } else {
        let lanes = tables.levels.open().expect("cannot open the lanes");
        let levels = lanes.get(&levels::index(policy.lane(), hash), 0).expect("cannot read the levels of a lane");
        [levels.packets, levels.second]
    };
    levels.map(|level| stages::level_debt(level, now, control.largest_debt))
}
