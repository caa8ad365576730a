//! Groups of users, to whom a socket belongs.

use std::fs;

use rustix::process::getegid;

/// The group does not exist.
#[derive(Debug, thiserror::Error)]
#[error("there is no group {0} in /etc/group: create it, or write its number")]
pub struct NoGroup(String);

/// A group that exists.
#[derive(Debug)]
pub struct Group {
    name: String,
    number: u32,
}

impl Group {
    /// Finds a group by its name or number.
    pub fn named(name: &str) -> Result<Self, NoGroup> {
        let groups = || fs::read_to_string("/etc/group").unwrap_or_default();
        let number = name.parse().ok().or_else(|| named(name, &groups()));
        number.map(|number| Self { name: name.to_owned(), number }).ok_or_else(|| NoGroup(name.to_owned()))
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its number.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Finds this group, or that of this process.
    pub fn of(name: Option<&str>) -> Result<Self, NoGroup> {
        name.map_or_else(|| Ok(Self::own()), Self::named)
    }

    /// Returns the group of this process, which has a socket without another one.
    fn own() -> Self {
        let number = getegid().as_raw();
        Self { name: number.to_string(), number }
    }
}

/// Returns the name of a user in the lines of passwd(5), or that of a group in those of group(5).
pub fn name_of(id: u32, lines: &str) -> Option<&str> {
    lines.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        (number.parse() == Ok(id)).then_some(name)
    })
}

/// Returns the number of a group in the lines of group(5).
fn named(group: &str, groups: &str) -> Option<u32> {
    groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == group).then(|| fields.nth(1)?.parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_found_by_its_name() {
        let groups = "root:x:0:\nratelimit-check:x:991:www-data\nbroken\n";
        assert_eq!([named("ratelimit-check", groups), named("www-data", groups)], [Some(991), None]);
        assert_eq!([name_of(991, groups), name_of(992, groups)], [Some("ratelimit-check"), None]);
    }
}
