//! Builds the kernel side of the tests, whose object the library carries.

use std::path::Path;

fn main() -> anyhow::Result<()> {
    ratelimit_build::build_object("ratelimit-tests-ebpf", &Path::new(env!("CARGO_MANIFEST_DIR")).join("kernel"))?;
    Ok(())
}
