//! Words for people.

use ratelimit_common::rules::rule::{APPLICATION, BANNED, COMMAND, CONFIG, FILLED, FLEET, SSH};

/// Returns who has set a rule.
pub(super) fn origin(origin: u8) -> &'static str {
    match origin {
        COMMAND => "a command",
        SSH => "protection of an SSH session",
        BANNED => "a ban",
        CONFIG => "the file of the daemon",
        FLEET => "the fleet",
        FILLED => "bans that have filled the prefix",
        APPLICATION => "an application",
        _ => "another version",
    }
}
