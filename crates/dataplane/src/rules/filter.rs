//! Maintains the filters by which the program skips sources that no rule matches, and the list of narrow lengths.

use std::sync::atomic::{AtomicU64, Ordering};

use aya::maps::IterableMap as _;
use ratelimit_common::{
    identity::{
        filter::Filter,
        fine_filter,
        narrow::Lengths,
        source::{IPV6, Source},
    },
    maps::control::Control,
    rules::rule::Rule,
};

use crate::{
    Error,
    error::Tried as _,
    rules::rule_key::is_narrow,
    sys::{host, mmap_array::Mapped, rcu},
    tables::{open::Tables, rule_maps},
};

/// Rules of each kind up to which a deletion rebuilds the filter. With more rules, it keeps matching more sources than
/// necessary until the next search for expired rules, or the next edit of a list that rebuilds it.
const FEW: usize = 4_096;

/// Adds prefixes before their rules are written, so that no packet misses a rule.
pub fn add<'a>(tables: &mut Tables, prefixes: impl Iterator<Item = &'a Source>) -> Result<(), Error> {
    let mut prefixes = prefixes.peekable();
    if prefixes.peek().is_none() {
        return Ok(());
    }
    let (before, control) = (read(tables)?, tables.control()?);
    let (mut filter, mut lengths) = (before.clone(), Lengths(control.narrow_rules));
    let (words, mut rules) = (Words::of(tables)?, 0);
    prefixes.for_each(|prefix| {
        fine_filter::places(prefix, &control.seed, |index, bits| words.set(index, words.get(index) | bits));
        rules += u64::from(fine_filter::is_for_part(prefix));
        lengths = mark(&mut filter, lengths, prefix, &control);
    });
    words.set(fine_filter::RULES, words.get(fine_filter::RULES).saturating_add(rules));
    if filter != before {
        write(tables, &filter)?;
    }
    // Last, because the program reads the filter only for lengths in the list.
    write_lengths(tables, lengths)
}

/// Rebuilds the filter if there are few rules and entries of lists.
pub fn renew_if_few(tables: &mut Tables) -> Result<(), Error> {
    let Some(sources) = rule_maps::few_sources(tables, FEW)? else { return Ok(()) };
    let Some(prefixes) = rule_maps::few_prefixes(tables, FEW)? else { return Ok(()) };
    if has_lists(tables)? && tables.lists.has_more_than(FEW)? {
        return Ok(());
    }
    renew_from(tables, &sources, &prefixes)
}

/// Rebuilds the filter from all rules and lists.
pub fn renew(tables: &mut Tables) -> Result<(), Error> {
    let (sources, prefixes) = (rule_maps::sources(tables)?, rule_maps::prefixes(tables)?);
    renew_from(tables, &sources, &prefixes)
}

fn renew_from(tables: &mut Tables, sources: &[(Source, Rule)], prefixes: &[(Source, Rule)]) -> Result<(), Error> {
    // A packet that has read a part of the filters before a rule took the place of another must not read the rest without
    // the bits of the old one.
    rcu::wait();
    let control = tables.control()?;
    let (mut filter, mut lengths) = (Box::<Filter>::default(), Lengths::default());
    let mut fine = vec![0; fine_filter::WORDS];
    let mut mark = |source: &Source| {
        fine_filter::places(source, &control.seed, |index, bits| fine[index] |= bits);
        fine[fine_filter::RULES] += u64::from(fine_filter::is_for_part(source));
        lengths = mark(&mut filter, lengths, source, &control);
    };
    sources.iter().chain(prefixes).for_each(|(source, _)| mark(source));
    if has_lists(tables)? {
        let addresses = tables.lists.addresses()?.into_iter().map(|(address, _)| Source::v4(address.to_ne_bytes()));
        let listed = addresses.chain(tables.lists.prefixes()?.into_iter().map(|(prefix, _)| prefix));
        listed.for_each(|source| mark(&source));
    }
    if control.narrow_rules != 0 {
        // A ban outlasts the rule by which its source was a part of another.
        let now = host::now();
        let bans = tables.bans()?.all().into_iter();
        let narrow = bans.filter(|(source, ban)| is_narrow(source, control.ipv6_prefix) && now < ban.expires);
        narrow.for_each(|(source, _)| mark(&source));
    }
    // A group of a rule that stays has its bits before and afterwards.
    let words = Words::of(tables)?;
    fine.into_iter().enumerate().for_each(|(index, word)| words.set(index, word));
    write(tables, &filter)?;
    write_lengths(tables, lengths)
}

/// The words of the second filter, which packets read meanwhile. Only the holder of the lock writes them.
struct Words(Mapped<u64>);

impl Words {
    fn of(tables: &Tables) -> Result<Self, Error> {
        let words = Mapped::to_write(tables.fine_filter.open()?.map())?;
        if words.len() != fine_filter::WORDS {
            let detail = "it has another size".to_owned();
            return Err(Error::Bpf { what: "cannot write the second filter of rules", detail });
        }
        Ok(Self(words))
    }

    fn get(&self, index: usize) -> u64 {
        self.0.get(index).unwrap_or_default()
    }

    fn set(&self, index: usize, word: u64) {
        let Some(place) = self.0.place(index) else { return };
        // SAFETY: the entry is aligned, lies within the mapping, and is a word for everybody who reads it.
        let place = unsafe { AtomicU64::from_ptr(place) };
        // The system call that writes the rule comes afterwards.
        if place.load(Ordering::Relaxed) != word {
            place.store(word, Ordering::SeqCst);
        }
    }
}

/// Marks a prefix in the filter. Returns the list with its length, if it is narrow.
fn mark(filter: &mut Filter, lengths: Lengths, prefix: &Source, control: &Control) -> Lengths {
    filter.add(prefix);
    if prefix.family != IPV6 || !is_narrow(prefix, control.ipv6_prefix) {
        return lengths;
    }
    filter.add_part(prefix, control.ipv6_prefix as u8, &control.seed);
    lengths.with(prefix.prefix)
}

fn has_lists(tables: &Tables) -> Result<bool, Error> {
    Ok(tables.control()?.lists != [0; 2])
}

fn write_lengths(tables: &mut Tables, lengths: Lengths) -> Result<(), Error> {
    let control = tables.control()?;
    if control.narrow_rules == lengths.0 {
        return Ok(());
    }
    tables.set_control(&Control { narrow_rules: lengths.0, ..control })
}

/// Reads the filter. It is large, so that callers must not have it on their stack.
#[inline(never)]
pub fn read(tables: &Tables) -> Result<Box<Filter>, Error> {
    tables.rule_filter.open()?.get(&0, 0).map(Box::new).tried("cannot read the filter of rules")
}

#[inline(never)]
fn write(tables: &mut Tables, filter: &Filter) -> Result<(), Error> {
    tables.rule_filter.open_mut()?.set(0, filter, 0).tried("cannot write the filter of rules")
}
