//! Where pins are: the BPF file system, and the names of files and folders in it. What is behind a pin belongs to the
//! rooms above.

pub mod bpffs;
pub mod declined;
pub mod layout;
pub mod link_name;
pub mod listing;
pub mod mounts;
pub mod ours;
pub mod ownership;
pub mod replaced_name;
