//! Keyed hashes, in functions of their own because of their registers.

use ratelimit_common::{cells::own_connection, identity::class::ANY, maps::control::Control};

use crate::{bpf::settings, packet::context::Context, parse::connection::Connection};

/// Returns the hash of the billed source without its service.
#[inline(never)]
pub(super) fn of_source(context: &Context, control: &Control) -> u64 {
    if settings::has_cells() && context.source.class == u16::from(ANY) {
        return context.hash;
    }
    context.source.of_class(ANY).hash(&control.seed)
}

/// Returns the hash of a connection.
#[inline(never)]
pub(super) fn of_connection(connection: &Connection, control: &Control) -> u64 {
    own_connection::hash(|index| connection.word(index), connection.kind + 1, &control.seed)
}
