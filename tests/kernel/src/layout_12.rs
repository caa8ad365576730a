//! The map of bans as layout 12 had it. Tests put it in the place of the present one and upgrade.

use aya_ebpf::{bindings::BPF_F_NO_PREALLOC, btf_maps::HashMap, macros::btf_map};

/// A banned source.
#[repr(C)]
pub(crate) struct Source {
    class: u16,
    family: u8,
    prefix: u8,
    parent: u32,
    address: [u64; 2],
}

/// Its ban.
#[repr(C)]
pub(crate) struct Rule {
    policy: u32,
    prefix: u8,
    origin: u8,
    reserved: u16,
    expires: u64,
}

/// With fewer entries than in layout 12.
#[btf_map]
static BANS_12: HashMap<Source, Rule, 64, { BPF_F_NO_PREALLOC as usize }> = HashMap::new();
