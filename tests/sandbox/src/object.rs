//! The object file of the kernel side of the tests.

/// The kernel side of the tests.
pub static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/ratelimit-tests-ebpf"));
