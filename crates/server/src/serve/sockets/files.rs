//! The open files of the server, which bound its connections.

use ratelimit_base::notify::journal::{self, Level};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files beside the connections: the sockets, the rules of callers, the usage, the daemon, and the engine of a fleet.
const OTHERS: u64 = 64;

/// Raises the number of files that this process may open, up to what the system allows. Returns how many connections each
/// of these sockets may have, at most `most`, beside so many readers of metrics and pages.
pub(in crate::serve) fn connections(sockets: usize, most: usize, readers: usize) -> usize {
    let others = OTHERS.saturating_add(readers as u64);
    let sockets = sockets.max(1) as u64;
    let needed = sockets.saturating_mul(most as u64).saturating_add(others);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let allowed = maximum.unwrap_or(u64::MAX);
    let wanted = needed.min(allowed);
    let mut files = current.unwrap_or(u64::MAX);
    if files < wanted && setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }).is_ok() {
        files = wanted;
    }
    let each = within(files.saturating_sub(others), sockets, most);
    if each < most {
        let text = format!("{each} connections are possible at a time, not {most}: allow {needed} open files");
        journal::say(Level::Warning, &text);
    }
    each
}

fn within(files: u64, sockets: u64, most: usize) -> usize {
    let each = files / sockets;
    usize::try_from(each).unwrap_or(most).clamp(1, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_share_the_open_files_that_are_left() {
        assert_eq!(within(u64::MAX, 2, 4_096), 4_096);
        assert_eq!(within(8_192, 2, 4_096), 4_096);
        assert_eq!((within(960, 1, 4_096), within(960, 2, 4_096)), (960, 480));
        assert_eq!(within(1, 2, 4_096), 1);
    }
}
