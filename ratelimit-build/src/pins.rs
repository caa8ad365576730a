//! Pinned versions of the tools that `Cargo.lock` and `rust-version` cannot pin.

use std::{env, path::PathBuf};

/// Version of `bpf-linker`, installed by `cargo xtask setup`.
pub const BPF_LINKER: &str = "0.13.0";

/// Major version of the LLVM that `bpf-linker` is linked with. The linker reads bitcode of this version and older ones.
pub const LLVM_MAJOR: u32 = 22;

/// Packaged compilers and their LLVM whose objects passed all tests on all supported kernels, with `cargo xtask vm`.
pub(crate) const TESTED: [(&str, &str); 1] = [("1.96.0", "22.1.8")];

/// The nightly to install on systems without a packaged compiler for the kernel side.
pub const NIGHTLY: &str = "nightly-2026-05-20";

/// The name that the folder of the workspace has in objects.
pub(crate) const WORKSPACE: &str = "/ratelimit";

/// The name that cargo's home has in objects.
pub(crate) const CARGO_HOME: &str = "/cargo";

/// Folder of the pinned `bpf-linker`. It is in cargo's home, so that all clones share it.
#[must_use]
pub fn linker_root() -> PathBuf {
    cargo_home().join(format!("bpf-linker-{BPF_LINKER}-llvm-{LLVM_MAJOR}"))
}

/// Cargo's home, which also has the sources of all crates.
pub(crate) fn cargo_home() -> PathBuf {
    env::var_os("CARGO_HOME").map(PathBuf::from).unwrap_or_else(|| {
        let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        home.join(".cargo")
    })
}

/// Path of the pinned `bpf-linker`, which `cargo xtask setup` installs.
#[must_use]
pub fn linker() -> PathBuf {
    linker_root().join("bin/bpf-linker")
}
