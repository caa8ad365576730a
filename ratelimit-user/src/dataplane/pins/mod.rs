//! The BPF file system and the names in it.

pub mod bpffs;
pub(crate) mod link_name;
