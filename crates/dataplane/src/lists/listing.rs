//! Lists in force, in the operator's words.

use std::{path::PathBuf, time::Duration};

use ratelimit_base::text::prefix::Prefix;
use ratelimit_common::{
    buckets::bucket::Resolution,
    identity::source::Source,
    limits::policy::{BANNED_ID, PolicyId},
    reason::Count,
    rules::{
        list::{List, NAME_BYTES, Slots},
        rule::NEVER,
    },
};

use crate::{
    Error,
    lists::action::Action,
    readings::tracked,
    rules::{policies, resolve, services::Services},
    sys::host,
    tables::{listed, open::Tables},
};

/// A list in force.
#[derive(Debug, Clone)]
pub struct Listing {
    /// Its name.
    pub name: String,
    /// What it does.
    pub action: Action,
    /// Time until it ends. None if it stays.
    pub expires_in: Option<Duration>,
    /// Its origin: one of [`ratelimit_common::rules::rule`].
    pub origin: u8,
    /// The file that it comes from.
    pub file: Option<PathBuf>,
    /// Its entries for single addresses.
    pub addresses: u32,
    /// Its entries for prefixes.
    pub prefixes: u32,
    /// Packets and bytes that it has refused. For a list that limits, what tracked sources on it have sent over their
    /// limit: an estimate, since sources come and go.
    pub hits: Count,
    /// The [digest](super::entries::Entries::digest) of its entries.
    pub digest: u64,
    /// Its slot, by which its entries are found.
    slot: u32,
    policy: PolicyId,
}

impl Listing {
    /// Returns the number of its entries.
    #[must_use]
    pub fn entries(&self) -> u64 {
        u64::from(self.addresses) + u64::from(self.prefixes)
    }
}

/// A slot in force.
#[derive(Debug, Clone)]
pub struct InForce {
    pub slot: u32,
    pub list: List,
}

impl InForce {
    /// Returns the name of the list.
    pub fn name(&self) -> String {
        String::from_utf8_lossy(&self.list.name[..usize::from(self.list.name_bytes).min(NAME_BYTES)]).into_owned()
    }

    fn file(&self) -> Option<PathBuf> {
        let path = self.list.path.get(..usize::from(self.list.path_bytes))?;
        (!path.is_empty()).then(|| PathBuf::from(String::from_utf8_lossy(path).into_owned()))
    }
}

/// The beginning of the names of lists that the fleet sets. No operator can give a list such a name.
pub const OF_FLEET: &str = "fleet:";
/// The list of sources that other hosts of the fleet deny.
pub const BANS: &str = "fleet:bans";

/// The list of sources that CrowdSec denies. No operator can give a list such a name.
pub const CROWDSEC: &str = "crowdsec:bans";

/// Returns whether a text can be the name of a list: letters, digits, `.`, `_` and `-`, and no `.` or `-` in front.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let begins_well = !text.starts_with(['.', '-']);
    (1..=NAME_BYTES).contains(&text.len()) && begins_well && text.bytes().all(is_good)
}

/// Returns the slots in force, ended or not.
pub fn in_force(tables: &Tables) -> Result<Vec<InForce>, Error> {
    let control = tables.control()?;
    in_slots(tables, control.lists_in(control.generation))
}

/// Returns whether a list is in force that has not ended. A failed change can leave a list that packets still look at, and
/// that the next generation does not have.
pub fn is_any(tables: &Tables) -> Result<bool, Error> {
    let ([even, odd], now) = (tables.control()?.lists, host::now());
    Ok(in_slots(tables, even | odd)?.iter().any(|running| !running.list.is_over(now)))
}

fn in_slots(tables: &Tables, slots: Slots) -> Result<Vec<InForce>, Error> {
    if slots == 0 {
        return Ok(Vec::new());
    }
    let has = |(slot, _): &(u32, List)| slots >> slot & 1 != 0;
    Ok((0..).zip(tables.lists.slots()?).filter(has).map(|(slot, list)| InForce { slot, list }).collect())
}

/// Returns the lists that have a source, the one that decides first. During a change of lists, they are those that the
/// change puts in force.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn having(tables: &Tables, source: &Source) -> Result<Vec<Listing>, Error> {
    let now = host::now();
    let (decision, each) = (listed::of_source(tables, source, now)?, listed::each(tables, source, now)?);
    let slots = each.iter().fold(0, |slots: Slots, (slot, _)| slots | 1 << slot);
    let mut having = in_slots(tables, slots)?;
    let decides = |slot| each.iter().any(|(other, own)| *other == slot && *own == decision);
    having.sort_by_key(|having| (!decides(having.slot), having.list.rank));
    having.iter().map(|having| listing(tables, having, now)).collect()
}

/// Returns the lists in force by name. Lists that limit have no hits.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn all(tables: &Tables) -> Result<Vec<Listing>, Error> {
    let now = host::now();
    let running = in_force(tables)?.into_iter().filter(|running| !running.list.is_over(now));
    let mut all: Vec<Listing> = running.map(|running| listing(tables, &running, now)).collect::<Result<_, _>>()?;
    all.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(all)
}

/// Returns whether a list of this name is in force that has not ended.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn has(tables: &Tables, name: &str) -> Result<bool, Error> {
    let now = host::now();
    Ok(in_force(tables)?.iter().any(|running| !running.list.is_over(now) && running.name() == name))
}

/// Returns the same as [`all`], with estimates for lists that limit. It reads all tracked sources for these.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn with_estimates(tables: &Tables) -> Result<Vec<Listing>, Error> {
    let mut all = all(tables)?;
    if all.iter().any(|list| list.action != Action::Deny) {
        add_over_limit(tables, &mut all, host::now())?;
    }
    Ok(all)
}

/// Adds what tracked sources have sent over the limits of lists, also since a limit has banned them.
fn add_over_limit(tables: &Tables, lists: &mut [Listing], now: u64) -> Result<(), Error> {
    let services = Services::read(tables)?;
    for (source, bucket) in tracked::all(tables)? {
        let (dropped, decides) = (bucket.over_limit(), Resolution(bucket.resolution).policy());
        let policy = match decides {
            BANNED_ID => resolve::limit_of(tables, &source, services.of_key(&source).1, now)?.0,
            _ => decides,
        };
        // Rules with the same limit have the same policy.
        let mut lists = lists.iter_mut().filter(|list| list.action != Action::Deny);
        let Some(list) = lists.find(|list| list.policy == policy) else { continue };
        let is_counted = dropped != 0 && source.parent == 0;
        if is_counted && listed::of_source(tables, &source, now)?.resolution().policy() == policy {
            list.hits.packets += dropped;
            list.hits.bytes += bucket.dropped().bytes + bucket.would_drop().bytes;
        }
    }
    Ok(())
}

fn listing(tables: &Tables, running: &InForce, now: u64) -> Result<Listing, Error> {
    let InForce { slot, list } = running;
    let denies = list.denies();
    Ok(Listing {
        name: running.name(),
        action: if denies { Action::Deny } else { Action::Limit(Box::new(policies::spec(tables, list.policy)?)) },
        expires_in: (list.expires != NEVER).then(|| Duration::from_nanos(list.expires.saturating_sub(now))),
        origin: list.origin,
        file: running.file(),
        addresses: list.addresses,
        prefixes: list.prefixes,
        hits: if denies { tables.lists.hits(slot / 2)? } else { Count::default() },
        digest: list.digest,
        slot: *slot,
        policy: list.policy,
    })
}

/// Returns the entries of a list in order.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn entries(tables: &Tables, list: &Listing) -> Result<Vec<Prefix>, Error> {
    let has = |slots: Slots| slots >> list.slot & 1 != 0;
    let addresses = tables.lists.addresses()?.into_iter().filter(|(_, slots)| has(*slots));
    let addresses = addresses.map(|(address, _)| Source::v4(address.to_ne_bytes()));
    let prefixes = tables.lists.prefixes()?.into_iter().filter(|(_, slots)| has(*slots)).map(|(prefix, _)| prefix);
    let mut all: Vec<Prefix> = addresses.chain(prefixes).map(|source| Prefix::of(&source, source.prefix)).collect();
    all.sort_unstable();
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_be_paths_options_or_control_characters() {
        assert!(["spamhaus-drop", "a", "Feed_1.txt", &"x".repeat(32)].iter().all(|name| is_name(name)));
        let bad = ["", "-x", ".", "../x", "a/b", "a b", "a\x1b", "ä", &"x".repeat(33)];
        assert!(!bad.iter().any(|name| is_name(name)));
    }
}
