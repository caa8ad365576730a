//! Attacks by what is in a packet. An attack by the number of packets or sources belongs in `floods`.

pub(super) mod answers;
pub(super) mod disguises;
pub(super) mod fragments;
pub(super) mod joined;
pub(super) mod link_discovery;
pub(super) mod malformed;
pub(super) mod raw_ip;
pub(super) mod resets;
