//! Reads debts, bans and the learned rate. It takes no lock, and changes nothing.

use std::{cmp::Reverse, collections::BTreeSet, os::fd::AsFd as _, sync::atomic::Ordering, time::Duration};

use aya::maps::IterableMap;
use ratelimit_base::text::prefix::Prefix;
use ratelimit_common::{
    buckets::bucket::Bucket,
    identity::{
        class::{ANY, Class},
        filter::Filter,
        service::ClassEntry,
        source::Source,
    },
    limits::{
        ban_history::LastBan,
        policy::{ALLOWED_ID, LIMIT, Policy, UNLIMITED_ID},
    },
    maps::control::FEATURE_BANS,
    meters::{gcra, meter::Meter, stages, state},
    rules::rule::{COMMAND, Rule, SSH},
};

use super::{Ban, Debt, Saved, words::Words};
use crate::{
    Error,
    readings::gauges,
    rules::{filter, policies::levels::Scale, resolve, services::Services},
    sys::{bpf, host},
    tables::{open::Tables, rule_maps},
};

/// Returns the bans in force that no rule of a command outranks, and the `most` longest debts that last for `least` or longer. Also returns how many other
/// debts last so long.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn read(tables: &Tables, least: Duration, most: usize) -> Result<(Saved, usize), Error> {
    let services = Services::read(tables)?;
    let bans = bans(tables, &services)?;
    let (debts, left_out) = debts(tables, &services, least, most)?;
    let learned = gauges::learned_rate(tables, &tables.control()?)?;
    Ok((Saved { debts, bans, learned }, left_out))
}

/// Returns the bans in force that no rule of a command outranks.
pub(super) fn bans(tables: &Tables, services: &Services) -> Result<Vec<Ban>, Error> {
    if tables.control()?.features & FEATURE_BANS == 0 {
        return Ok(Vec::new());
    }
    let all = tables.bans()?.all();
    if all.is_empty() {
        return Ok(Vec::new());
    }
    let (now, histories) = (host::now(), tables.buckets.open()?);
    let allowed = Allowed::read(tables, now)?;
    let ban = |(source, rule): (Source, Rule)| {
        let left = rule.expires.checked_sub(now).filter(|left| *left != 0)?;
        if allowed.meets(&source) {
            return None;
        }
        let service = services.of_class(Class::try_from(source.class).ok()?)?;
        // A limit whose bans do not become longer keeps no history.
        let history = histories.get(&source.offences(), 0).ok();
        let doubled = history.map_or(0, |history| LastBan(history.second).doubled());
        Some(Ban { source: Prefix::of(&source, source.prefix), service, left, doubled })
    };
    Ok(all.into_iter().filter_map(ban).collect())
}

/// The prefixes that a command or an SSH session allows. A reboot forgets these rules. So a ban that one of them outranks
/// must not return: it could lock the operator out.
struct Allowed(BTreeSet<Prefix>);

impl Allowed {
    fn read(tables: &Tables, now: u64) -> Result<Self, Error> {
        let is_lost = |rule: Rule| rule.policy == ALLOWED_ID && matches!(rule.origin, COMMAND | SSH);
        let rules = rule_maps::sources(tables)?.into_iter().chain(rule_maps::prefixes(tables)?);
        let lost = rules.filter(|(_, rule)| rule.at(now).is_some_and(is_lost));
        Ok(Self(lost.map(|(source, _)| Prefix::of(&source, source.prefix)).collect()))
    }

    /// Returns whether one of them lies in or around a source, whatever its service.
    fn meets(&self, source: &Source) -> bool {
        let own = Prefix::of(source, source.prefix);
        // The order is by address, then by length. So the next one lies in the source if any does.
        let is_inside = self.0.range(own..).next().is_some_and(|next| own.contains(next));
        let mut around = (0..source.prefix).map(|bits| Prefix::of(&source.shortened(bits), bits));
        is_inside || around.any(|prefix| self.0.contains(&prefix))
    }
}

fn debts(tables: &Tables, services: &Services, least: Duration, most: usize) -> Result<(Vec<Debt>, usize), Error> {
    let (control, least) = (tables.control()?, least.as_nanos() as u64);
    // Most instances have only limits whose debts are paid within a second. No bucket has to be read then.
    if control.largest_debt / 2 < gcra::units(least) {
        return Ok((Vec::new(), 0));
    }
    let debtors = Debtors {
        tables,
        services,
        words: Words::of(tables, &control)?,
        filter: filter::read(tables)?,
        policies: tables.policies.all()?,
        classes: tables.classes.all()?,
        scale: Scale::of(&control),
        seed: control.seed,
    };
    let (mut found, mut left_out, mut failure) = (Vec::new(), 0, None);
    let mut keep_longest = |found: &mut Vec<Debt>| {
        if found.len() > most {
            found.select_nth_unstable_by_key(most, |debt| Reverse(debt.longest()));
            left_out += found.len() - most;
            found.truncate(most);
        }
    };
    bpf::each::<Source, Bucket>(IterableMap::map(tables.buckets.open()?).fd().as_fd(), |source, bucket| {
        match debtors.debt(&source, &bucket) {
            Ok(Some(debt)) if debt.longest() >= least => found.push(debt),
            Ok(_) => {}
            Err(error) => failure = Some(error),
        }
        if found.len() > most.saturating_mul(2) {
            keep_longest(&mut found);
        }
    })?;
    keep_longest(&mut found);
    found.sort_unstable_by_key(|debt| (Reverse(debt.longest()), debt.source));
    failure.map_or(Ok((found, left_out)), Err)
}

/// Everything by which the debt of a bucket is known.
struct Debtors<'a> {
    tables: &'a Tables,
    services: &'a Services,
    /// None without cells.
    words: Option<Words>,
    filter: Box<Filter>,
    policies: Vec<Policy>,
    classes: Vec<ClassEntry>,
    scale: Scale,
    seed: [u64; 4],
}

impl Debtors<'_> {
    /// Returns what the source of a bucket owes. None if the bucket is a parent's or a history, or if windows or logs
    /// limit its source now.
    fn debt(&self, source: &Source, bucket: &Bucket) -> Result<Option<Debt>, Error> {
        let Some(class) = Class::try_from(source.class).ok().filter(|_| source.parent == 0) else { return Ok(None) };
        let Some(service) = self.services.of_class(class) else { return Ok(None) };
        let own = [bucket.packets, bucket.second].map(|word| state::debt(word, self.scale.now));
        if self.words.is_none() && own == [0; 2] {
            return Ok(None);
        }
        let Some(policy) = self.policy(source, class)? else { return Ok(None) };
        let levels = self.words.as_ref().and_then(|words| words.levels(policy, source.hash(&self.seed)));
        let owed = |number: usize, meter: &Meter| {
            let level = levels.map(|levels| self.scale.debt(levels[number].load(Ordering::Relaxed)));
            let owed = match level {
                _ if !meter.is_on() => 0,
                Some(level) => stages::owed(level, own[number], meter),
                None => own[number].min(meter.ceiling),
            };
            owed.div_ceil(gcra::units(1))
        };
        let left = [owed(0, &policy.packets), owed(1, &policy.second)];
        Ok(Some(Debt { source: Prefix::of(source, source.prefix), service, left }))
    }

    /// Returns the policy of the token buckets of a source. None if it has another one, or is billed elsewhere.
    fn policy(&self, source: &Source, class: Class) -> Result<Option<&Policy>, Error> {
        let slot = if self.filter.concerns(source) {
            let classes = self.services.of_key(source).1;
            let (slot, billed) = resolve::limit_of(self.tables, source, classes, host::now())?;
            Some(slot).filter(|_| billed == class)
        } else {
            let slot = self.classes.get(usize::from(class)).map(|entry| entry.default_policy);
            slot.filter(|slot| class == ANY || *slot != UNLIMITED_ID)
        };
        let policy = slot.and_then(|slot| self.policies.get(slot as usize));
        Ok(policy.filter(|policy| policy.kind == LIMIT && policy.is_bucket()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Few different bits, so that prefixes often lie in each other.
        #[test]
        fn an_allow_in_or_around_a_source_is_found(
            allows in prop::collection::vec((0u128..16, 0u8..=128), 0..6), address in 0u128..16, bits in 0u8..=128,
        ) {
            let source = |address: u128, bits| Source::v6((address << 124 | address << 62 | address).to_be_bytes(), bits);
            let allowed: BTreeSet<_> = allows.iter().map(|(of, bits)| Prefix::of(&source(*of, *bits), *bits)).collect();
            let (banned, own) = (source(address, bits), Prefix::of(&source(address, bits), bits));
            let expected = allowed.iter().any(|allow| allow.contains(&own) || own.contains(allow));
            prop_assert_eq!(Allowed(allowed).meets(&banned), expected);
        }
    }
}
