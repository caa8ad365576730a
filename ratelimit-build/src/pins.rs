//! Pinned versions of the tools that `Cargo.lock` and `rust-version` cannot pin.

use std::{env, path::PathBuf};

/// Version of `bpf-linker`, installed by `cargo xtask setup`.
pub const BPF_LINKER: &str = "0.13.0";

/// Major version of the LLVM that `bpf-linker` is linked with. The linker reads bitcode of this version and older ones.
pub const LLVM_MAJOR: u32 = 22;

/// The nightly to install on systems without a packaged compiler for the kernel side.
pub const NIGHTLY: &str = "nightly-2026-05-20";

/// Folder of the pinned `bpf-linker`. It is in cargo's home, so that all clones share it.
#[must_use]
pub fn linker_root() -> PathBuf {
    let cargo_home = env::var_os("CARGO_HOME").map(PathBuf::from).unwrap_or_else(|| {
        let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        home.join(".cargo")
    });
    cargo_home.join(format!("bpf-linker-{BPF_LINKER}-llvm-{LLVM_MAJOR}"))
}

/// Path of the pinned `bpf-linker`, which `cargo xtask setup` installs.
#[must_use]
pub fn linker() -> PathBuf {
    linker_root().join("bin/bpf-linker")
}
