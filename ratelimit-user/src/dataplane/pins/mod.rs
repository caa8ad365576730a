//! Where pins are: the BPF file system, and the names of files and folders in it. What is behind a pin belongs to the
//! rooms above.

pub mod bpffs;
pub(crate) mod declined;
pub mod layout;
pub(crate) mod link_name;
pub(crate) mod listing;
pub(crate) mod ours;
pub(crate) mod ownership;
pub(crate) mod replaced_name;
