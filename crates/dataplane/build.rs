//! Builds the kernel side, whose object the library carries, and names the source commit.

use std::path::Path;

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ratelimit-ebpf");
    let features: &[_] = if cfg!(feature = "bench") { &["bench"] } else { &[] };
    ratelimit_build::build_script("ratelimit-ebpf", &folder, features);
    ratelimit_build::name_version();
}
