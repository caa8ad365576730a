//! What the group of the daemon's socket may not ask.

use ratelimit_base::notify::journal::{Level, say};

use crate::controller::socket::request::{Caller, Request};

/// The user id of root.
pub(super) const ROOT: u32 = 0;

/// Returns the answer to a request that this user may not send.
pub(super) fn refusal(request: &Request, user: Option<u32>) -> Option<&'static str> {
    if user == Some(ROOT) {
        return None;
    }
    match request {
        Request::ReloadBy(Caller { force: true, .. }) => {
            let user = user.map_or_else(|| "an unknown user".to_owned(), |user| format!("user {user}"));
            say(Level::Warning, &format!("{user} may not reload with --force: nothing was changed"));
            Some(
                "nothing was changed: only root may reload with --force: run `sudo ratelimit reload --force`, or reload without --force",
            )
        }
        Request::Rules(request, _) if request.is_change() => {
            Some("nothing was changed: only root may change the shared rules")
        }
        Request::Stops(_) | Request::StopEvents(_) => Some("only root may see the clients of applications"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_of_the_socket_sees_no_clients_and_forces_nothing() {
        let is_refused = |line: &str, user| refusal(&serde_json::from_str(line).unwrap(), user).is_some();
        for (line, is_for_root) in [
            (r#"{"stop-events":0}"#, true),
            (r#"{"stops":"192.0.2.1"}"#, true),
            (r#"{"reload-by":{"session":null,"force":true}}"#, true),
            (r#"{"rules":[{"delete":{"text":"","why":""}},"root"]}"#, true),
            (r#"{"reload-by":{"session":null,"force":false}}"#, false),
            (r#""reload""#, false),
            (r#""state""#, false),
        ] {
            let refused = [Some(ROOT), Some(65_534), None].map(|user| is_refused(line, user));
            assert_eq!(refused, [false, is_for_root, is_for_root], "{line}");
        }
    }
}
