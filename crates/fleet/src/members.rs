//! What hosts of a fleet say about themselves.

use std::time::Duration;

#[cfg(test)]
use ratelimit_protocol::fleet::About;
use ratelimit_protocol::fleet::Member;

/// The hosts of a fleet.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Hosts {
    /// Their number.
    pub count: usize,
    /// The first of them.
    pub members: Vec<Member>,
}

impl Hosts {
    /// Returns the first of them so long after the engine has told them.
    #[must_use]
    pub fn members_after(&self, elapsed: Duration) -> Vec<Member> {
        let older = |member: &Member| Member {
            silent_seconds: member.silent_seconds + elapsed.as_secs_f64(),
            ..member.clone()
        };
        self.members.iter().map(older).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_nobody_hears_of_grow_silent() {
        let member = Member { id: "a".to_owned(), silent_seconds: 0.5, about: About::default() };
        let hosts = Hosts { count: 1, members: vec![member] };
        assert_eq!(hosts.members_after(Duration::from_secs(60))[0].silent_seconds, 60.5);
        assert_eq!(hosts.members_after(Duration::ZERO), hosts.members);
    }
}
