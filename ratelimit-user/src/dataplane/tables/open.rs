//! The program's maps as typed handles.

use std::{os::fd::AsFd as _, path::Path};

use aya::{
    Ebpf,
    maps::{Array, HashMap, IterableMap, LpmTrie, Map, MapData, MapError, PerCpuArray, lpm_trie::Key},
};
use ratelimit_common::{
    buckets::{bucket::Bucket, sliding_log::Log},
    cells::cell::Cell,
    identity::{
        class::Class,
        filter::Filter,
        service::{ClassEntry, Service, Services},
        source::{PrefixKey, Source},
    },
    limits::policy::{Policy, PolicyId},
    maps::{
        control::Control,
        cpu::Cpu,
        event::{Event, Written},
        interface_counters::{Counts, Ledger},
        names,
    },
    meters::interface_capacity::Capacity,
    reason::{Count, Reason},
    rules::rule::Rule,
};

use crate::dataplane::{
    Error,
    error::Tried as _,
    program::{control_init, loader::Settings},
    sys::bpf,
    tables::layout_check,
};

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

pub(crate) fn open<T: TryFrom<Map, Error = MapError>>(pins: &Path, name: &'static str) -> Result<T, Error> {
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
        layout_check::check(pins)?;
        Ok(Self {
            control: open(pins, names::CONTROL)?,
            buckets: open(pins, names::BUCKETS)?,
            source_rules: open(pins, names::SOURCE_RULES)?,
            bans: open(pins, names::BANS)?,
            prefix_rules: open(pins, names::PREFIX_RULES)?,
            policies: open(pins, names::POLICIES)?,
            classes: open(pins, names::CLASSES)?,
            services: open(pins, names::SERVICES)?,
            counters: open(pins, names::COUNTERS)?,
            front: open(pins, names::FRONT)?,
            rule_filter: open(pins, names::RULE_FILTER)?,
            cpus: open(pins, names::CPUS)?,
            logs: open(pins, names::SLIDING_LOGS)?,
            events: open(pins, names::EVENTS)?,
            events_written: open(pins, names::EVENTS_WRITTEN)?,
            capacities: open(pins, names::INTERFACE_CAPACITIES)?,
            ledger: open(pins, names::LEDGER)?,
            shares: open(pins, names::INTERFACE_COUNTERS)?,
        })
    }

    /// Takes the maps out of a loaded object and makes them ready: no rules, no limit.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] where the kernel refuses.
    pub fn of(object: &mut Ebpf, settings: &Settings) -> Result<Self, Error> {
        let mut tables = Self {
            control: take(object, names::CONTROL)?,
            buckets: take(object, names::BUCKETS)?,
            source_rules: take(object, names::SOURCE_RULES)?,
            bans: take(object, names::BANS)?,
            prefix_rules: take(object, names::PREFIX_RULES)?,
            policies: take(object, names::POLICIES)?,
            classes: take(object, names::CLASSES)?,
            services: take(object, names::SERVICES)?,
            counters: take(object, names::COUNTERS)?,
            front: take(object, names::FRONT)?,
            rule_filter: take(object, names::RULE_FILTER)?,
            cpus: take(object, names::CPUS)?,
            logs: take(object, names::SLIDING_LOGS)?,
            events: take(object, names::EVENTS)?,
            events_written: take(object, names::EVENTS_WRITTEN)?,
            capacities: take(object, names::INTERFACE_CAPACITIES)?,
            ledger: take(object, names::LEDGER)?,
            shares: take(object, names::INTERFACE_COUNTERS)?,
        };
        for (slot, policy) in (0..).zip([Policy::UNLIMITED, Policy::ALLOWED, Policy::DENIED, Policy::BANNED]) {
            tables.policies.set(slot, policy, 0).tried("cannot write a policy")?;
        }
        // The ABI version comes last: only complete maps have it.
        let control = control_init::control(object, settings)?;
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

    /// Sets the default policy of a class, or takes it away with 0, on behalf of this [origin](ratelimit_common::rules::rule).
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
pub(crate) fn prefix_key(source: &Source) -> Key<PrefixKey> {
    let (bits, data) = source.prefix_key(source.prefix);
    Key::new(bits, data)
}
