//! Flags of maps.

/// Entries take their memory when they are written, not when the map is created.
pub const NO_PREALLOC: usize = aya_ebpf::bindings::BPF_F_NO_PREALLOC as usize;

/// The array begins with a page, so that its entries do not lie across cache lines (kernel 5.5).
pub const ALIGNED: usize = aya_ebpf::bindings::BPF_F_MMAPABLE as usize;
