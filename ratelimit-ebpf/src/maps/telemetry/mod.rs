//! What packets leave behind for the operator: counters, and the ring of events. Which packet counts where belongs in
//! the room `telemetry`.

pub mod counters;
pub mod counts;
pub mod events;
