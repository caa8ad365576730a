//! The program's maps as typed handles.

use std::{os::fd::AsFd as _, path::Path};

use aya::{
    Ebpf,
    maps::{Array, HashMap, IterableMap, LpmTrie, Map, MapData, MapError, PerCpuArray, lpm_trie::Key},
};
use ratelimit_common::{
    bucket::Bucket,
    capacity::Capacity,
    cell::Cell,
    class::Class,
    control::Control,
    cpu::Cpu,
    event::{Event, Written},
    filter::Filter,
    interface::{Counts, Ledger},
    log::Log,
    map,
    policy::{Policy, PolicyId},
    reason::{Count, Reason},
    rule::Rule,
    service::{ClassEntry, Service, Services},
    source::{PrefixKey, Source},
};

use super::{Error, bpf, error::Tried as _, fresh, object::Settings, shapes};

/// Every map that a command works on.
pub struct Tables {
    /// One entry that steers the program.
    pub control: Array<MapData, Control>,
    /// Source → bucket.
    pub buckets: HashMap<MapData, Source, Bucket>,
    /// Source → rule.
    pub source_rules: HashMap<MapData, Source, Rule>,
    /// Source → ban.
    pub bans: HashMap<MapData, Source, Rule>,
    /// Prefix → rule.
    pub prefix_rules: LpmTrie<MapData, PrefixKey, Rule>,
    /// Slot → policy.
    pub policies: Array<MapData, Policy>,
    /// Class → its service and default.
    pub classes: Array<MapData, ClassEntry>,
    /// Every packet's classes; written as a whole.
    services: Array<MapData, Services>,
    /// Reason → counts, per CPU.
    pub counters: PerCpuArray<MapData, Count>,
    /// Seeded hash → cell.
    pub front: Array<MapData, Cell>,
    /// Which sources rules may concern; written as a whole.
    pub rule_filter: Array<MapData, Filter>,
    /// What each CPU has for itself.
    pub cpus: PerCpuArray<MapData, Cpu>,
    /// Source → log.
    pub logs: HashMap<MapData, Source, Log>,
    /// What the program tells of.
    pub events: Array<MapData, Event>,
    /// How much it has told.
    pub events_written: Array<MapData, Written>,
    /// Place of an interface → its capacity.
    pub capacities: Array<MapData, Capacity>,
    /// Which interface has which place, and whose counts are whose.
    pub ledger: Array<MapData, Ledger>,
    /// Place of an interface → counts, per CPU.
    pub shares: PerCpuArray<MapData, Counts>,
}

pub(super) fn open<T: TryFrom<Map, Error = MapError>>(pins: &Path, name: &'static str) -> Result<T, Error> {
    let data = MapData::from_pin(pins.join(name)).tried(name)?;
    Map::from_map_data(data).and_then(T::try_from).tried(name)
}

fn take<T: TryFrom<Map, Error = MapError>>(object: &mut Ebpf, name: &'static str) -> Result<T, Error> {
    let missing = Error::Bpf { what: "broken build", detail: format!("the object has no map {name}") };
    T::try_from(object.take_map(name).ok_or(missing)?).tried(name)
}

impl Tables {
    /// Opens the maps pinned in `pins` after checking them.
    ///
    /// # Errors
    ///
    /// [`Error::OtherAbi`] where they belong to another build, [`Error::Bpf`] where one cannot be opened.
    pub fn open(pins: &Path) -> Result<Self, Error> {
        shapes::check(pins)?;
        Ok(Self {
            control: open(pins, map::CONTROL)?,
            buckets: open(pins, map::BUCKETS)?,
            source_rules: open(pins, map::SOURCE_RULES)?,
            bans: open(pins, map::BANS)?,
            prefix_rules: open(pins, map::PREFIX_RULES)?,
            policies: open(pins, map::POLICIES)?,
            classes: open(pins, map::CLASSES)?,
            services: open(pins, map::SERVICES)?,
            counters: open(pins, map::COUNTERS)?,
            front: open(pins, map::FRONT)?,
            rule_filter: open(pins, map::RULE_FILTER)?,
            cpus: open(pins, map::CPUS)?,
            logs: open(pins, map::LOGS)?,
            events: open(pins, map::EVENTS)?,
            events_written: open(pins, map::EVENTS_WRITTEN)?,
            capacities: open(pins, map::CAPACITIES)?,
            ledger: open(pins, map::LEDGER)?,
            shares: open(pins, map::SHARES)?,
        })
    }

    /// Takes the maps out of a loaded object and makes them ready: no rules, no limit.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] where the kernel refuses.
    pub fn of(object: &mut Ebpf, settings: &Settings) -> Result<Self, Error> {
        let mut tables = Self {
            control: take(object, map::CONTROL)?,
            buckets: take(object, map::BUCKETS)?,
            source_rules: take(object, map::SOURCE_RULES)?,
            bans: take(object, map::BANS)?,
            prefix_rules: take(object, map::PREFIX_RULES)?,
            policies: take(object, map::POLICIES)?,
            classes: take(object, map::CLASSES)?,
            services: take(object, map::SERVICES)?,
            counters: take(object, map::COUNTERS)?,
            front: take(object, map::FRONT)?,
            rule_filter: take(object, map::RULE_FILTER)?,
            cpus: take(object, map::CPUS)?,
            logs: take(object, map::LOGS)?,
            events: take(object, map::EVENTS)?,
            events_written: take(object, map::EVENTS_WRITTEN)?,
            capacities: take(object, map::CAPACITIES)?,
            ledger: take(object, map::LEDGER)?,
            shares: take(object, map::SHARES)?,
        };
        for (slot, policy) in (0..).zip([Policy::UNLIMITED, Policy::ALLOWED, Policy::DENIED, Policy::BANNED]) {
            tables.policies.set(slot, policy, 0).tried("cannot write a policy")?;
        }
        // The ABI version comes last: only complete maps have it.
        let control = fresh::control(object, settings)?;
        tables.set_control(&control)?;
        Ok(tables)
    }

    /// The control entry.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] where the kernel refuses.
    pub fn control(&self) -> Result<Control, Error> {
        self.control.get(&0, 0).tried("cannot read the control map")
    }

    /// Replaces the control entry.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] where the kernel refuses.
    pub fn set_control(&mut self, control: &Control) -> Result<(), Error> {
        self.control.set(0, *control, 0).tried("cannot write the control map")
    }

    /// The default policy of a class: 0 where it has none.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] where the kernel refuses.
    pub fn default_policy(&self, class: Class) -> Result<PolicyId, Error> {
        Ok(self.class(class)?.default_policy)
    }

    /// What a class stands for.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] where the kernel refuses.
    pub fn class(&self, class: Class) -> Result<ClassEntry, Error> {
        self.classes.get(&u32::from(class), 0).tried("cannot read a class")
    }

    /// Sets the default policy of a class, or takes it away with 0, on behalf of this [origin](ratelimit_common::rule).
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] where the kernel refuses.
    pub fn set_default_policy(&mut self, class: Class, policy: PolicyId, origin: u8) -> Result<(), Error> {
        let entry = ClassEntry { default_policy: policy, default_origin: origin, ..self.class(class)? };
        self.classes.set(u32::from(class), entry, 0).tried("cannot write a class")
    }

    /// Makes these the services that packets are told apart by.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] where the kernel refuses.
    pub fn set_services(&mut self, services: &[(Service, Class)]) -> Result<(), Error> {
        // SAFETY: all zeroes are a valid table. It is too large for the stack.
        let mut table = unsafe { Box::<Services>::new_zeroed().assume_init() };
        table.fill(services);
        let table: &Services = &table;
        self.services.set(0, table, 0).tried("cannot write the services")
    }

    /// Makes every bucket ask for its policy again, at its next packet. Rules are written before, so that whoever sees the
    /// new generation sees them.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] where the kernel refuses.
    pub fn renew(&mut self) -> Result<(), Error> {
        let control = self.control()?.renewed();
        self.set_control(&control)
    }

    /// Packets and bytes by reason, all CPUs and interfaces together.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] where the kernel refuses.
    pub fn counts(&self) -> Result<Vec<(Reason, Count)>, Error> {
        Ok(Reason::ALL.into_iter().zip(self.all_counts()?.done).collect())
    }

    /// The same of what passed in shadow, by what would have become of it.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] where the kernel refuses.
    pub fn shadow_counts(&self) -> Result<Vec<(Reason, Count)>, Error> {
        Ok(Reason::ALL.into_iter().zip(self.all_counts()?.shadow).collect())
    }

    /// All rules for single sources.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] where the kernel refuses.
    pub fn source_rules(&self) -> Result<Vec<(Source, Rule)>, Error> {
        bpf::entries(IterableMap::map(&self.source_rules).fd().as_fd())
    }

    /// All rules for prefixes, each with its prefix.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] where the kernel refuses.
    pub fn prefix_rules(&self) -> Result<Vec<(Source, Rule)>, Error> {
        let entries = bpf::trie_entries::<Key<PrefixKey>, Rule>(IterableMap::map(&self.prefix_rules).fd().as_fd())?;
        Ok(entries.into_iter().map(|(key, rule)| (key.data().source(key.prefix_len()), rule)).collect())
    }

    /// Writes rules for single sources.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] where the kernel refuses; some may be written then.
    pub fn set_source_rules(&mut self, rules: &[(Source, Rule)]) -> Result<(), Error> {
        let (keys, values): (Vec<Source>, Vec<Rule>) = rules.iter().copied().unzip();
        bpf::update(IterableMap::map(&self.source_rules).fd().as_fd(), &keys, &values)
    }

    /// Writes rules for the prefixes that their sources are.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] where the kernel refuses; some may be written then.
    pub fn set_prefix_rules(&mut self, rules: &[(Source, Rule)]) -> Result<(), Error> {
        let (keys, values): (Vec<_>, Vec<Rule>) =
            rules.iter().map(|(source, rule)| (prefix_key(source), *rule)).unzip();
        bpf::update(IterableMap::map(&self.prefix_rules).fd().as_fd(), &keys, &values)
    }

    /// All bans, ended or not.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] where the kernel refuses.
    pub fn bans(&self) -> Result<Vec<(Source, Rule)>, Error> {
        bpf::entries(IterableMap::map(&self.bans).fd().as_fd())
    }

    /// Most sources that can be tracked at a time.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] where the kernel refuses.
    pub fn capacity(&self) -> Result<u32, Error> {
        Ok(IterableMap::map(&self.buckets).info().tried("cannot read the size of the buckets")?.max_entries())
    }
}

/// The key of a prefix's rule.
pub(super) fn prefix_key(source: &Source) -> Key<PrefixKey> {
    let (bits, data) = source.prefix_key(source.prefix);
    Key::new(bits, data)
}
