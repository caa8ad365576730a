//! Features of the running kernel, for tests that not every supported kernel can run.

use rustix::system::uname;

/// Returns whether the running kernel is `major.minor` or newer.
///
/// A test of a newer feature returns early otherwise, and prints a line that starts with `skipped: `, which
/// `cargo xtask vm` counts.
///
/// # Panics
///
/// If the kernel's release does not start with two numbers.
#[must_use]
pub fn kernel_at_least(major: u32, minor: u32) -> bool {
    let release = uname().release().to_string_lossy().into_owned();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(found_major)), Some(Ok(found_minor))) => (found_major, found_minor) >= (major, minor),
        _ => panic!("the kernel's release is {release}"),
    }
}
