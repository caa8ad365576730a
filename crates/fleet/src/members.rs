//! What hosts of a fleet say about themselves.

use std::time::Duration;

use ratelimit_base::text::excerpt::excerpt;
use serde::{Deserialize, Serialize};

/// The most bytes that a host may say about itself.
const SAYS: usize = 1_024;

/// What a host says about itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// Its name.
    pub name: String,
    /// Version of the product.
    pub version: String,
    /// Its weight.
    pub weight: f64,
    /// The limit of sources without a rule.
    pub limit: String,
    /// The version of the shared rules that is in force there. None if there is none.
    #[serde(default)]
    pub rules: Option<u64>,
    /// Why a newer version is not.
    #[serde(default)]
    pub refused: Option<String>,
}

impl About {
    /// Reads what a host has written. A host that says something else than a host of this version has no name.
    #[must_use]
    pub(super) fn read(says: &str) -> Self {
        let about: Self =
            if says.len() > SAYS { Self::default() } else { serde_json::from_str(says).unwrap_or_default() };
        about.escaped()
    }

    /// Returns it without what would control a terminal.
    #[must_use]
    pub(super) fn escaped(self) -> Self {
        let [name, version, limit] = [&self.name, &self.version, &self.limit].map(|text| excerpt(text));
        let refused = self.refused.as_deref().map(excerpt);
        Self { name, version, limit, refused, ..self }
    }
}

/// A host of the fleet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Member {
    /// Its id, another one for each start of a daemon.
    pub id: String,
    /// Seconds since the engine has heard of it.
    pub silent_seconds: f64,
    /// What it says about itself.
    #[serde(flatten)]
    pub about: About,
}

impl Member {
    /// Returns its name, or its id if it has none.
    #[must_use]
    pub fn name(&self) -> &str {
        if self.about.name.is_empty() { &self.id } else { &self.about.name }
    }
}

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
