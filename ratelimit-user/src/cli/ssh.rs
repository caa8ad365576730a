//! The operator's own SSH session: where it comes from, and that no rule shuts it out by mistake.

use std::{fs, net::IpAddr, process};

use anyhow::{Result, bail};
use ratelimit_common::policy::{DENY, Policy};

use crate::{
    dataplane::{
        Error, resolve,
        rules::{self, Listed, Target},
        tables::Tables,
    },
    prefix::Prefix,
};

/// Most parents that are searched; a session is seldom more than a few shells deep.
const MOST_PARENTS: usize = 32;

/// The peer of the SSH session that this process runs in. `sudo` takes the variable away, so the parents are asked as well.
pub(super) fn peer() -> Option<IpAddr> {
    let own = std::env::var("SSH_CONNECTION").ok();
    own.or_else(inherited).as_deref().and_then(address)
}

/// Makes a change to the rule of `target`, and takes it back if it shuts this SSH session out, unless by `force`. Returns the
/// rule that was there before.
pub(super) fn guarded(
    tables: &mut Tables,
    target: Target,
    force: bool,
    change: impl FnOnce(&mut Tables) -> Result<(), Error>,
) -> Result<Option<Listed>> {
    let replaced = rules::get(tables, target)?;
    let peer = peer().map(Prefix::host).filter(|_| !force);
    let Some(peer) = peer else {
        change(tables)?;
        return Ok(replaced);
    };
    let before = resolve::policy_for(tables, &peer)?;
    change(tables)?;
    let after = resolve::policy_for(tables, &peer)?;
    let loses_its_own_rule = target == Target::Prefix(peer) && before == Policy::ALLOWED;
    if after.kind == DENY && before.kind != DENY
        || loses_its_own_rule && after != Policy::ALLOWED && after != Policy::UNLIMITED
    {
        match &replaced {
            Some(rule) => rules::set(tables, target, &rule.policy, rule.expires_in, rule.origin)?,
            None => rules::delete(tables, target)?,
        }
        bail!(
            "this SSH session comes from {peer}, which would be shut out or limited: nothing was changed, --force does it all the same"
        );
    }
    Ok(replaced)
}

fn inherited() -> Option<String> {
    let mut process = process::id();
    for _ in 0..MOST_PARENTS {
        process = parent(process)?;
        let environment = fs::read(format!("/proc/{process}/environ")).ok()?;
        let found = environment.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(b"SSH_CONNECTION="));
        if let Some(value) = found {
            return Some(String::from_utf8_lossy(value).into_owned());
        }
    }
    None
}

fn parent(process: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    parent.trim().parse().ok().filter(|&parent| parent > 0)
}

/// The first of the four words of the variable; a link-local address may carry its interface.
fn address(connection: &str) -> Option<IpAddr> {
    let peer = connection.split_whitespace().next()?;
    let address: IpAddr = peer.split('%').next()?.parse().ok()?;
    Some(address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn peers() {
        assert_eq!(address("203.0.113.7 51000 192.0.2.1 22"), "203.0.113.7".parse().ok());
        assert_eq!(address("fe80::1%eth0 51000 fe80::2%eth0 22"), "fe80::1".parse().ok());
        assert_eq!(address("::ffff:203.0.113.7 51000 ::1 22"), "203.0.113.7".parse().ok());
        assert_eq!(address(""), None);
        assert_eq!(address("UNKNOWN 65535 UNKNOWN 65535"), None);
    }
}
