//! Prefixes of IPv6 that bans fill. An attacker has a whole /64, or a /48, and each ban of one address costs him nothing.
//! So bans of many addresses of one /64 become one of the whole, and bans in many /64s of one /56 or /48 too. A
//! provider gives one line 256 /64s, which are a /56. It is filled first, and counts once in the /48 of other lines, too.
//!
//! A ban is a rule *deny* with an end that a command has set. The whole ends when the last of its bans does. Later bans
//! inside it make it last longer. It never contains an address that is allowed, that belongs to this host, its gateways or
//! an SSH session. A ban below a rule of an operator inside the whole stays, because that rule would decide.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use ratelimit_base::text::prefix::Prefix;
use ratelimit_common::{
    identity::{service::Service, source::IPV6},
    limits::policy::Policy,
    rules::{
        comment::{Comment, Owner},
        rule::{COMMAND, FILLED, NEVER},
    },
};
use ratelimit_dataplane::{
    Error, Instance,
    rules::{
        batch::{Change, Changed, RequestedRule},
        list,
        spec::RuleSpec,
        target::{Sources, Target},
    },
    spared::renew,
    sys::host,
    tables::open::Tables,
};

use crate::ssh;

/// Banned addresses of a /64 that fill it.
pub const ADDRESSES: usize = 16;
/// The /64s with bans that fill a /56.
pub const NETWORKS: usize = 64;
/// The /64s with bans that fill a /48. A whole /56 counts as one.
pub const PARTS: usize = 256;

const NETWORK: u8 = 64;
const LINE: u8 = 56;
const SITE: u8 = 48;

/// A prefix that is banned as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whole {
    /// The packets that its rule denies.
    pub target: Target,
    /// The requested rules that it takes the place of.
    pub requested: Vec<Target>,
    /// How many bans have filled it. None if that was so before.
    pub bans: Option<usize>,
}

/// A ban that is in force or requested.
#[derive(Debug, Clone)]
struct Ban {
    /// Each owner with its end.
    owners: Vec<(Comment, u64)>,
    is_requested: bool,
    is_in_force: bool,
}

/// Makes a change as [`ssh::change`] does. Where bans fill a prefix, it is banned as a whole. If that cannot be, each ban
/// acts as it was requested.
///
/// # Errors
///
/// Those of [`ssh::change`]. Nothing has changed then.
pub fn change(
    instance: &mut Instance,
    change: &Change,
    force: bool,
    progress: &mut dyn FnMut(usize),
) -> Result<(Changed, Vec<Whole>), Error> {
    // What cannot be read now is no reason to refuse a ban.
    if let Ok(Some((wider, wholes))) = wider(&instance.tables, change) {
        match ssh::change(instance, &wider, force, progress) {
            Ok(changed) => return Ok((changed, wholes)),
            Err(error @ Error::Written { .. }) => return Err(error),
            Err(_) => {}
        }
    }
    Ok((ssh::change(instance, change, force, progress)?, Vec::new()))
}

/// Returns the change with whole prefixes in place of bans that fill them. None if there are none.
fn wider(tables: &Tables, change: &Change) -> Result<Option<(Change, Vec<Whole>)>, Error> {
    if !change.rules.iter().any(|rule| is_ban(change, rule)) {
        return Ok(None);
    }
    let mut bans = Bans::read(tables, change)?;
    for (service, prefix) in list::others_of_ipv6(tables)? {
        bans.others.entry(prefix).or_default().push(service);
    }
    bans.join_wholes();
    if bans.may_fill_some() {
        let mut spared: BTreeSet<Prefix> = spared(tables)?.into_iter().collect();
        spared.extend(list::allowed_of_ipv6(tables)?);
        let may_be_whole = |prefix: Prefix| {
            let around = |bits: u8| Prefix::of(&prefix.source().shortened(bits), bits);
            let is_inside = spared.range(prefix..).next().is_some_and(|inside| prefix.contains(inside));
            !is_inside && !(0..prefix.bits()).any(|bits| spared.contains(&around(bits)))
        };
        bans.fill(NETWORK, ADDRESSES, &may_be_whole);
        bans.fill(LINE, NETWORKS, &may_be_whole);
        bans.fill(SITE, PARTS, &may_be_whole);
    }
    Ok(if bans.wholes.is_empty() { None } else { Some(bans.apply(change)) })
}

/// Returns whether a rule of a change is a ban of IPv6 addresses inside a /48.
fn is_ban(change: &Change, rule: &RequestedRule) -> bool {
    let denies = change.specs.get(rule.spec).is_some_and(|spec| *spec == RuleSpec::from(Policy::DENIED));
    denies && rule.origin == COMMAND && rule.expires != NEVER && inside_site(rule.target).is_some()
}

fn inside_site(target: Target) -> Option<Prefix> {
    let Sources::Prefix(prefix) = target.sources else { return None };
    (prefix.source().family == IPV6 && prefix.bits() > SITE).then_some(prefix)
}

/// Returns what no whole contains.
fn spared(tables: &Tables) -> Result<Vec<Prefix>, Error> {
    let sessions = ssh::sessions().into_iter().chain(ssh::session()).map(|session| session.peer);
    let peers = sessions.chain(ssh::peers(&ssh::ports())?).map(Prefix::host);
    Ok(renew::in_force(tables)?.into_iter().map(|place| place.prefix).chain(peers).collect())
}

/// The bans in force and those that are requested, by service and prefix, and the wholes.
#[derive(Debug, Default)]
struct Bans {
    all: BTreeMap<(Service, Prefix), Ban>,
    /// Prefixes that were filled before.
    filled: HashSet<(Service, Prefix)>,
    /// The services of rules that are more than bans, by prefix.
    others: HashMap<Prefix, Vec<Service>>,
    /// What becomes a whole, or stays one for longer.
    wholes: BTreeMap<(Service, Prefix), (Ban, Whole)>,
    /// Rules that a whole takes the place of.
    gone: Vec<Target>,
}

impl Bans {
    fn read(tables: &Tables, change: &Change) -> Result<Self, Error> {
        let (mut bans, now) = (Self::default(), host::now());
        let end = |left: Option<std::time::Duration>| {
            left.map_or(NEVER, |left| now.saturating_add(u64::try_from(left.as_nanos()).unwrap_or(NEVER)))
        };
        for rule in list::bans_of_ipv6(tables)? {
            let Some(prefix) = inside_site(rule.target).or_else(|| site(rule.target)) else { continue };
            let key = (rule.target.service, prefix);
            if rule.origin == FILLED {
                bans.filled.insert(key);
            } else if rule.origin != COMMAND || prefix.bits() <= SITE {
                continue;
            }
            let owner = |comment: Option<&str>, left| {
                (Comment::new(comment.unwrap_or_default()).unwrap_or_default(), end(left))
            };
            let further = rule.owners.iter().map(|further| owner(further.comment.as_deref(), further.expires_in));
            let owners = [owner(rule.comment.as_deref(), rule.expires_in)].into_iter().chain(further).collect();
            bans.all.insert(key, Ban { owners, is_requested: false, is_in_force: true });
        }
        for rule in change.rules.iter().filter(|rule| is_ban(change, rule)) {
            let Some(prefix) = inside_site(rule.target) else { continue };
            let owner = (change.comments.get(&rule.target).copied().unwrap_or_default(), rule.expires);
            let ban = bans.all.entry((rule.target.service, prefix)).or_insert(Ban {
                owners: Vec::new(),
                is_requested: false,
                is_in_force: false,
            });
            ban.is_requested = true;
            ban.add(owner);
        }
        Ok(bans)
    }

    /// Puts requested bans inside prefixes that were filled before into these.
    fn join_wholes(&mut self) {
        let around = |(service, prefix): &(Service, Prefix)| {
            let wide = |bits: u8| (*service, Prefix::of(&prefix.source().shortened(bits), bits));
            let wider = [SITE, LINE, NETWORK].into_iter().filter(|bits| *bits < prefix.bits());
            wider.map(wide).find(|wide| self.filled.contains(wide))
        };
        let requested = self.all.iter().filter(|(_, ban)| ban.is_requested);
        let inside: Vec<_> = requested.filter_map(|(key, _)| Some((*key, around(key)?))).collect();
        for (key, wide) in inside {
            self.absorb(wide, &[key], None);
        }
    }

    /// Returns whether so many bans are there that they can fill a prefix.
    fn may_fill_some(&self) -> bool {
        self.all.len() >= ADDRESSES
    }

    /// Makes a whole of each prefix of so many bits in which so many parts have bans.
    fn fill(&mut self, bits: u8, most: usize, may_be_whole: &dyn Fn(Prefix) -> bool) {
        let mut inside: HashMap<(Service, Prefix), Vec<(Service, Prefix)>> = HashMap::new();
        for key in self.all.keys().filter(|(_, prefix)| prefix.bits() > bits) {
            let wide = Prefix::of(&key.1.source().shortened(bits), bits);
            inside.entry((key.0, wide)).or_default().push(*key);
        }
        for (wide, keys) in inside {
            // In a /56 or a /48, all bans in one /64 count once.
            let part = |(_, prefix): &(Service, Prefix)| match bits {
                LINE | SITE if prefix.bits() > NETWORK => Prefix::of(&prefix.source().shortened(NETWORK), NETWORK),
                _ => *prefix,
            };
            let parts = keys.iter().map(part).collect::<BTreeSet<_>>().len();
            // Only a change of one of its bans makes a whole.
            let is_changed = keys.iter().any(|key| self.all.get(key).is_some_and(|ban| ban.is_requested));
            if parts >= most && is_changed && may_be_whole(wide.1) {
                self.absorb(wide, &keys, Some(parts));
            }
        }
    }

    /// Returns whether a ban must stay inside a whole: another rule decides about its source before that of the whole.
    /// It has a longer prefix, or the same prefix and another service.
    fn stays(&self, (_, prefix): &(Service, Prefix), (service, wide): (Service, Prefix)) -> bool {
        let around = |bits: u8| Prefix::of(&prefix.source().shortened(bits), bits);
        let has_narrower = (wide.bits() + 1..=prefix.bits()).any(|bits| self.others.contains_key(&around(bits)));
        let same = self.others.get(&wide).into_iter().flatten();
        !self.others.is_empty() && (has_narrower || same.into_iter().any(|other| *other != service))
    }

    /// Puts bans into a whole, except those that stay.
    fn absorb(&mut self, wide: (Service, Prefix), keys: &[(Service, Prefix)], bans: Option<usize>) {
        let keys: Vec<_> = keys.iter().filter(|key| !self.stays(key, wide)).collect();
        if keys.is_empty() {
            return;
        }
        let target = |(service, prefix): (Service, Prefix)| Target::prefix(prefix).of(service);
        let (mut ban, mut whole) = self.wholes.remove(&wide).unwrap_or_else(|| {
            // It can be requested itself, too.
            let known = self.all.get(&wide).filter(|known| known.is_requested);
            let owners = known.map(|known| known.owners.clone()).unwrap_or_default();
            let ban = Ban { owners, is_requested: true, is_in_force: false };
            (ban, Whole { target: target(wide), requested: Vec::new(), bans })
        });
        for key in keys {
            let Some(member) = self.all.remove(key) else { continue };
            member.owners.iter().for_each(|owner| ban.add(*owner));
            match self.wholes.remove(key) {
                Some((_, inner)) => whole.requested.extend(inner.requested),
                None if member.is_requested => whole.requested.push(target(*key)),
                None => {}
            }
            if member.is_in_force {
                self.gone.push(target(*key));
            }
        }
        // It counts as one ban in a wider prefix.
        let known = self.all.entry(wide).or_insert_with(|| ban.clone());
        known.is_requested = true;
        ban.owners.iter().for_each(|owner| known.add(*owner));
        self.wholes.insert(wide, (ban, whole));
    }

    /// Returns the change, and the wholes in it.
    fn apply(self, change: &Change) -> (Change, Vec<Whole>) {
        let mut wider = change.clone();
        let replaced: HashSet<Target> = self.wholes.values().flat_map(|(_, whole)| whole.requested.clone()).collect();
        let spec = change.rules.iter().find(|rule| is_ban(change, rule)).map_or(0, |rule| rule.spec);
        // A prefix can be requested itself, too.
        let own: HashSet<Target> = self.wholes.values().map(|(_, whole)| whole.target).collect();
        wider.rules.retain(|rule| !replaced.contains(&rule.target) && !own.contains(&rule.target));
        wider.comments.retain(|target, _| !replaced.contains(target) && !own.contains(target));
        wider.deleted.extend(self.gone.into_iter().filter(|target| !own.contains(target)));
        let mut wholes = Vec::new();
        for (ban, whole) in self.wholes.into_values() {
            let mut owners = ban.owners.iter();
            if let Some((comment, expires)) = owners.next() {
                wider.add(whole.target, spec, *expires, FILLED, Some(*comment));
                let further = owners.map(|(comment, expires)| Owner::new(comment, FILLED, *expires)).collect();
                wider.owners.insert(whole.target, further);
            }
            wholes.push(whole);
        }
        (wider, wholes)
    }
}

fn site(target: Target) -> Option<Prefix> {
    let Sources::Prefix(prefix) = target.sources else { return None };
    (prefix.bits() == SITE).then_some(prefix)
}

impl Ban {
    /// Adds an owner. The later one of two ends counts.
    fn add(&mut self, (comment, expires): (Comment, u64)) {
        match self.owners.iter_mut().find(|(known, _)| *known == comment) {
            Some((_, known)) => *known = (*known).max(expires),
            None => self.owners.push((comment, expires)),
        }
    }
}

impl Whole {
    /// Returns what has happened, in words.
    #[must_use]
    pub fn text(&self) -> String {
        match (self.bans, self.target.sources) {
            (None, _) => format!("{} is banned as a whole, and so is what was requested", self.target),
            (Some(bans), Sources::Prefix(prefix)) if prefix.bits() == SITE => {
                format!("{} is banned as a whole, because {bans} of its /64s and /56s have bans", self.target)
            }
            (Some(bans), Sources::Prefix(prefix)) if prefix.bits() == LINE => {
                format!("{} is banned as a whole, because {bans} of its /64s have bans", self.target)
            }
            (Some(bans), _) => {
                format!("{} is banned as a whole, because {bans} of its addresses are banned", self.target)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDS: u64 = 1 << 60;

    fn key(text: &str) -> (Service, Prefix) {
        (Service::Any, text.parse().unwrap())
    }

    fn comment(text: &str) -> Comment {
        Comment::new(text).unwrap()
    }

    /// Returns bans in force and a requested one, each with an owner.
    fn bans(in_force: &[String], requested: &str) -> Bans {
        let mut bans = Bans::default();
        for (number, text) in (0..).zip(in_force) {
            let owners = vec![(comment(["a", "b"][number as usize % 2]), ENDS + number)];
            bans.all.insert(key(text), Ban { owners, is_requested: false, is_in_force: true });
        }
        let owners = vec![(comment("c"), ENDS - 1)];
        bans.all.insert(key(requested), Ban { owners, is_requested: true, is_in_force: false });
        bans
    }

    fn fill(bans: &mut Bans) -> Vec<(String, Option<usize>)> {
        bans.join_wholes();
        for (bits, most) in [(NETWORK, ADDRESSES), (LINE, NETWORKS), (SITE, PARTS)] {
            bans.fill(bits, most, &|prefix| !prefix.contains(&"2001:db8:5::1".parse().unwrap()));
        }
        bans.wholes.values().map(|(_, whole)| (whole.target.to_string(), whole.bans)).collect()
    }

    #[test]
    fn many_addresses_of_a_network_fill_it_and_fewer_do_not() {
        let of = |network: &str, number: usize| -> Vec<String> {
            (0..number).map(|host| format!("{network}::{:x}", host + 1)).collect()
        };
        let mut few = bans(&of("2001:db8:1", ADDRESSES - 2), "2001:db8:1::ff");
        assert_eq!(fill(&mut few), []);
        let mut many = bans(&of("2001:db8:1", ADDRESSES - 1), "2001:db8:1::ff");
        assert_eq!(fill(&mut many), [("2001:db8:1::/64".to_owned(), Some(ADDRESSES))]);
        // Each owner has the last end of its bans.
        let (ban, whole) = many.wholes.values().next().unwrap();
        let mut owners = ban.owners.clone();
        owners.sort_by_key(|(_, end)| *end);
        let last = ENDS + ADDRESSES as u64;
        assert_eq!(owners, [(comment("c"), ENDS - 1), (comment("b"), last - 3), (comment("a"), last - 2)]);
        assert_eq!((whole.requested.len(), many.gone.len()), (1, ADDRESSES - 1));
        // Others of the same /48 do not count, and one that must not be denied prevents it.
        let others: Vec<_> = (0..ADDRESSES).map(|net| format!("2001:db8:1:{net:x}::1")).collect();
        assert_eq!(fill(&mut bans(&others, "2001:db8:1:ff::1")), []);
        assert_eq!(fill(&mut bans(&of("2001:db8:5", ADDRESSES), "2001:db8:5::ff")), []);
        // A change elsewhere makes no whole of what was left.
        assert_eq!(fill(&mut bans(&of("2001:db8:1", ADDRESSES), "2001:db8:2::1")), []);
    }

    #[test]
    fn many_networks_of_a_line_or_a_site_fill_it_and_nothing_wider_is_filled() {
        let net = |net: usize| format!("2001:db8:1:{net:x}::{}", if net.is_multiple_of(2) { "/64" } else { "9" });
        let of_line = |number: usize| -> Vec<String> { (0..number).map(net).collect() };
        assert_eq!(fill(&mut bans(&of_line(NETWORKS - 1), "2001:db8:1:0:1::")), []);
        // One line is no site, however many of its networks are banned, also with some neighbours.
        let line = ("2001:db8:1::/56".to_owned(), Some(NETWORKS));
        let mut many = bans(&of_line(NETWORKS - 1), "2001:db8:1:ff::1");
        assert_eq!(fill(&mut many), [line]);
        assert_eq!(many.gone.len(), NETWORKS - 1);
        let mut full = of_line(PARTS);
        full.extend((1..PARTS - 1).map(|line| net(line << 8)));
        let filled = fill(&mut bans(&full, "2001:db8:1:ff:1::"));
        assert_eq!(filled, [("2001:db8:1::/56".to_owned(), Some(PARTS))]);
        // All lines of a site fill it, and so do many networks of all.
        let of_site: Vec<String> = (0..PARTS - 1).map(|line| net(line << 8)).collect();
        assert_eq!(fill(&mut bans(&of_site, "2001:db8:1::77")), []);
        let mut site = bans(&of_site, "2001:db8:1:ffff::1");
        assert_eq!(fill(&mut site), [("2001:db8:1::/48".to_owned(), Some(PARTS))]);
        assert_eq!(site.gone.len(), PARTS - 1);
        full.push(net((PARTS - 1) << 8));
        assert_eq!(fill(&mut bans(&full, "2001:db8:1:ff:1::")), [("2001:db8:1::/48".to_owned(), Some(PARTS))]);
        let sites: Vec<_> = (0..2 * PARTS).map(|site| format!("2001:db8:{site:x}::/64")).collect();
        assert_eq!(fill(&mut bans(&sites, "2001:db8:ffff::1")), []);
    }

    #[test]
    fn a_ban_below_a_narrower_rule_stays_inside_a_whole() {
        let of = |number: usize| -> Vec<String> { (1..=number).map(|host| format!("2001:db8:1::{host:x}")).collect() };
        let with = |in_force: &[String], requested: &str, other: &str| {
            let mut bans = bans(in_force, requested);
            bans.others.insert(other.parse().unwrap(), vec![Service::Any]);
            bans
        };
        let wide = key("2001:db8:1::/64");
        // One that is in force, and its neighbours.
        for (other, left) in [("2001:db8:1::5", 1), ("2001:db8:1::4/126", 4), ("2001:db8:1::/64", 0)] {
            let mut bans = with(&of(ADDRESSES - 1), "2001:db8:1::ff", other);
            assert_eq!(fill(&mut bans), [("2001:db8:1::/64".to_owned(), Some(ADDRESSES))], "{other}");
            assert_eq!((bans.gone.len(), bans.all.len()), (ADDRESSES - 1 - left, 1 + left), "{other}");
        }
        // The one that is requested, with too few others, with enough, and inside a whole.
        let mut last = with(&of(ADDRESSES - 1), "2001:db8:1::ff", "2001:db8:1::ff");
        fill(&mut last);
        assert!(last.wholes[&wide].1.requested.is_empty() && last.gone.len() == ADDRESSES - 1);
        let mut later = with(&["2001:db8:1::/64".to_owned()], "2001:db8:1::ff", "2001:db8:1::ff");
        later.filled.insert(wide);
        assert_eq!(fill(&mut later), []);
        // Where all stay, nothing is filled. The narrower one of two services decides in the same prefix.
        let mut all = with(&of(ADDRESSES - 1), "2001:db8:1::ff", "2001:db8:1::/120");
        assert_eq!(fill(&mut all), []);
        let mut all = with(&of(ADDRESSES - 1), "2001:db8:1::ff", "2001:db8:1::/64");
        all.others.insert(wide.1, vec![Service::Any, Service::TcpSyn]);
        assert_eq!(fill(&mut all), []);
    }

    #[test]
    fn a_ban_around_a_whole_acts_itself() {
        let mut wider = bans(&["2001:db8:1::/64".to_owned()], "2001:db8:1::/60");
        wider.filled.insert(key("2001:db8:1::/64"));
        assert_eq!((fill(&mut wider), wider.gone.len()), (Vec::new(), 0));
    }

    #[test]
    fn a_ban_inside_a_whole_makes_that_last_longer() {
        let mut bans = bans(&["2001:db8:1::/64".to_owned()], "2001:db8:1::7");
        bans.filled.insert(key("2001:db8:1::/64"));
        assert_eq!(fill(&mut bans), [("2001:db8:1::/64".to_owned(), None)]);
        let (ban, whole) = bans.wholes.values().next().unwrap();
        assert_eq!((ban.owners.len(), whole.requested.len(), bans.gone.len()), (1, 1, 0));
    }
}
