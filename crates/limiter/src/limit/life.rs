//! How long a rule remembers a client after its last request.

use super::{
    look::NEVER,
    state::{State, States},
};

/// Returns whether a client was away for longer than its life.
pub(crate) fn has_ended(life: Option<u64>, states: &States, now: u64) -> bool {
    let last = states.last().zip(life);
    last.is_some_and(|(last, life)| matches!(last, State::Seen(at) if now.saturating_sub(*at) >= life))
}

/// Returns a time to wait. A client that is away for its life begins anew, so it need not wait for longer.
pub(crate) fn within(life: Option<u64>, time: u64) -> u64 {
    life.filter(|_| time != NEVER).map_or(time, |life| time.min(life))
}

/// Notes that a client is there. One that was away for too long gets the states of a new one.
pub(crate) fn see(life: Option<u64>, states: &mut States, now: u64, begin: impl FnOnce() -> States) {
    if has_ended(life, states, now) {
        *states = begin();
    }
    match (life, states.last_mut()) {
        (Some(_), Some(State::Seen(at))) => *at = now.max(*at),
        // Another rule of the same name had no life.
        (Some(_), _) => states.push(State::Seen(now)),
        (None, Some(State::Seen(_))) => drop(states.pop()),
        (None, _) => {}
    }
}
