//! What the running kernel can do, for tests of features that not every supported kernel has.

use rustix::system::uname;

/// Whether the running kernel is `major.minor` or newer.
///
/// A test of a feature that came later returns early where this is false, and prints a line that begins with `skipped: `
/// (`cargo xtask vm` counts those); from that version on, what does not work is a failure.
///
/// # Panics
///
/// If the kernel's release does not begin with two numbers.
#[must_use]
pub fn kernel_at_least(major: u32, minor: u32) -> bool {
    let release = uname().release().to_string_lossy().into_owned();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(found_major)), Some(Ok(found_minor))) => (found_major, found_minor) >= (major, minor),
        _ => panic!("the kernel's release is {release}"),
    }
}
