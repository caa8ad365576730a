//! Builds the kernel side, whose object the library carries, and names the source commit.

use std::path::Path;

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ratelimit-ebpf");
    ratelimit_build::build_script("ratelimit-ebpf", &folder);
    ratelimit_build::name_version();
}
