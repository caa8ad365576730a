//! `cargo xtask size`: builds the kernel side and prints the size of each object.

use anyhow::Result;

use crate::target;

/// The packages that run in the kernel.
pub(crate) const KERNEL_PACKAGES: [&str; 2] = ["ratelimit-ebpf", "ratelimit-tests-ebpf"];

/// Prints one line per package.
pub(crate) fn run() -> Result<()> {
    // Build scripts use the same folder, so that nothing is built twice.
    let target_dir = target::folder("kernel")?;
    for package in KERNEL_PACKAGES {
        let object = ratelimit_build::compile(package, &target_dir)?;
        println!("size: {package}: {} instructions", object.instructions);
    }
    Ok(())
}
