//! The maps of bans and of the filter as layout 12 had them. Tests put them in the place of the present ones and upgrade.

use aya_ebpf::{
    bindings::BPF_F_NO_PREALLOC,
    btf_maps::{Array, HashMap},
    macros::btf_map,
};

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

/// The filter of sources that a rule may match.
#[repr(C)]
pub(crate) struct Filter {
    v4: [u64; 1 << 10],
    v6: [u64; 1 << 10],
}

#[btf_map]
static RULE_FILTER_12: Array<Filter, 1> = Array::new();
