//! Builds the kernel side of the tests, whose object the library carries.

use std::path::Path;

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("kernel");
    ratelimit_build::build_script("ratelimit-tests-ebpf", &folder, &[]);
}
