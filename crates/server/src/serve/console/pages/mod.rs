//! The pages, one file each. Each checks what its visitor may see.

pub(super) mod change;
pub(super) mod log;
pub(super) mod overview;
pub(super) mod packet_change;
pub(super) mod packet_rule;
pub(super) mod packets;
pub(super) mod rule;
pub(super) mod rules;
pub(super) mod sign_in;
