//! The versions of everything that `Cargo.lock` and `rust-version` cannot pin.

use std::{env, path::PathBuf};

/// Version of `bpf-linker`, installed by `cargo xtask setup`.
pub const BPF_LINKER: &str = "0.13.0";

/// Major version of the LLVM that `bpf-linker` is linked with. It reads bitcode of this version and older.
pub const LLVM_MAJOR: u32 = 22;

/// The nightly to install where the system has no packaged compiler for the kernel side.
pub const NIGHTLY: &str = "nightly-2026-05-20";

/// Where `cargo xtask setup` puts the pinned `bpf-linker`: a folder of cargo's own, shared by all clones.
#[must_use]
pub fn linker_root() -> PathBuf {
    let cargo_home = env::var_os("CARGO_HOME").map(PathBuf::from).unwrap_or_else(|| {
        let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        home.join(".cargo")
    });
    cargo_home.join(format!("bpf-linker-{BPF_LINKER}-llvm-{LLVM_MAJOR}"))
}

/// The pinned `bpf-linker`, if `cargo xtask setup` has put it there.
#[must_use]
pub fn linker() -> PathBuf {
    linker_root().join("bin/bpf-linker")
}
