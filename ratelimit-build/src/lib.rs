//! Finds a compiler that can build for `bpfel-unknown-none`, and builds the kernel side with it.
//!
//! Build scripts call [`build_script`] and [`name_version`]. `cargo xtask` calls [`Toolchain::find`] to see what a machine
//! lacks, [`Toolchain::cargo`] to lint the kernel side with the same compiler, and [`compile`] to print its size.

mod commit;
mod object_file;
mod pins;
mod toolchain;

pub use commit::name_version;
pub use object_file::{Object, build_object, build_script, compile, inspect};
pub use pins::{BPF_LINKER, LLVM_MAJOR, NIGHTLY, linker, linker_root};
pub use toolchain::{Toolchain, llvm_prefix};
