//! The program's maps as typed handles.

use std::{os::fd::AsFd as _, path::Path};

use aya::{
    Ebpf,
    maps::{
        Array, HashMap, IterableMap, LpmTrie, Map, MapData, MapError, MapInfo, MapType, PerCpuArray, lpm_trie::Key,
    },
};
use ratelimit_common::{
    bucket::Bucket,
    class::{CLASSES, Class},
    control::{ABI_VERSION, Control},
    map,
    policy::{Policy, PolicyId},
    reason::{Count, REASONS, Reason},
    rule::Rule,
    service::{ClassEntry, Service, Services},
    source::{PrefixKey, Source},
};

use super::{Error, bpf, error::Tried as _, object::Settings};

/// Every map that a command works on.
pub struct Tables {
    /// One entry that steers the program.
    pub control: Array<MapData, Control>,
    /// Source → bucket.
    pub buckets: HashMap<MapData, Source, Bucket>,
    /// Source → rule.
    pub source_rules: HashMap<MapData, Source, Rule>,
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
}

/// What a pinned map must look like.
struct Shape {
    name: &'static str,
    kind: MapType,
    key: usize,
    value: usize,
    /// None where the operator chooses it.
    entries: Option<u32>,
}

const SHAPES: [Shape; map::PINNED.len()] = [
    Shape::of::<u32, Control>(map::CONTROL, MapType::Array, Some(1)),
    Shape::of::<Source, Bucket>(map::BUCKETS, MapType::LruHash, None),
    Shape::of::<Source, Rule>(map::SOURCE_RULES, MapType::Hash, Some(map::SOURCE_RULES_MAX)),
    Shape::of::<Key<PrefixKey>, Rule>(map::PREFIX_RULES, MapType::LpmTrie, Some(map::PREFIX_RULES_MAX)),
    Shape::of::<u32, Policy>(map::POLICIES, MapType::Array, Some(map::POLICIES_MAX)),
    Shape::of::<u32, ClassEntry>(map::CLASSES, MapType::Array, Some(CLASSES as u32)),
    Shape::of::<u32, Services>(map::SERVICES, MapType::Array, Some(1)),
    Shape::of::<u32, Count>(map::COUNTERS, MapType::PerCpuArray, Some(REASONS as u32)),
    Shape::of::<u32, u64>(map::DISCOVERY, MapType::Array, Some(1)),
];

impl Shape {
    const fn of<K, V>(name: &'static str, kind: MapType, entries: Option<u32>) -> Self {
        Self { name, kind, key: size_of::<K>(), value: size_of::<V>(), entries }
    }

    /// What differs in the map pinned at `path`.
    fn difference(&self, path: &Path) -> Result<(), String> {
        let info = MapInfo::from_pin(path.join(self.name)).map_err(|error| format!("{}: {error}", self.name))?;
        let kind = info.map_type().map_err(|error| format!("{}: {error}", self.name))?;
        let found = (kind, info.key_size() as usize, info.value_size() as usize);
        let entries = self.entries.unwrap_or(info.max_entries());
        if found == (self.kind, self.key, self.value) && info.max_entries() == entries {
            return Ok(());
        }
        Err(format!(
            "{} is a {:?} of {} + {} bytes, {} entries",
            self.name,
            found.0,
            found.1,
            found.2,
            info.max_entries()
        ))
    }
}

/// Checks that the maps pinned in `pins` are laid out as this build expects.
///
/// # Errors
///
/// [`Error::OtherAbi`] with the first difference.
fn check(pins: &Path) -> Result<(), Error> {
    let other = |detail| Error::OtherAbi { path: pins.to_owned(), detail };
    SHAPES.iter().try_for_each(|shape| shape.difference(pins)).map_err(other)?;
    let control: Array<MapData, Control> = open(pins, map::CONTROL)?;
    let abi = control.get(&0, 0).tried("cannot read the control map")?.abi;
    if abi == ABI_VERSION { Ok(()) } else { Err(other(format!("layout {abi}, this is {ABI_VERSION}"))) }
}

fn open<T: TryFrom<Map, Error = MapError>>(pins: &Path, name: &'static str) -> Result<T, Error> {
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
        check(pins)?;
        Ok(Self {
            control: open(pins, map::CONTROL)?,
            buckets: open(pins, map::BUCKETS)?,
            source_rules: open(pins, map::SOURCE_RULES)?,
            prefix_rules: open(pins, map::PREFIX_RULES)?,
            policies: open(pins, map::POLICIES)?,
            classes: open(pins, map::CLASSES)?,
            services: open(pins, map::SERVICES)?,
            counters: open(pins, map::COUNTERS)?,
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
            prefix_rules: take(object, map::PREFIX_RULES)?,
            policies: take(object, map::POLICIES)?,
            classes: take(object, map::CLASSES)?,
            services: take(object, map::SERVICES)?,
            counters: take(object, map::COUNTERS)?,
        };
        for (slot, policy) in (0..).zip([Policy::UNLIMITED, Policy::ALLOWED, Policy::DENIED]) {
            tables.policies.set(slot, policy, 0).tried("cannot write a policy")?;
        }
        // The ABI version comes last: only complete maps have it.
        let features = settings.features();
        let control = Control { abi: ABI_VERSION, ipv6_prefix: settings.ipv6_prefix, features, ..Control::default() };
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

    /// Sets the default policy of a class, or takes it away with 0.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] where the kernel refuses.
    pub fn set_default_policy(&mut self, class: Class, policy: PolicyId) -> Result<(), Error> {
        let entry = ClassEntry { default_policy: policy, ..self.class(class)? };
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
        let mut control = self.control()?;
        control.generation = control.generation.wrapping_add(1);
        self.set_control(&control)
    }

    /// Packets and bytes by reason, all CPUs together.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] where the kernel refuses.
    pub fn counts(&self) -> Result<Vec<(Reason, Count)>, Error> {
        let sum = |reason: Reason| {
            let cpus = self.counters.get(&(reason as u32), 0).tried("cannot read the counters")?;
            let add =
                |sum: Count, cpu: &Count| Count { packets: sum.packets + cpu.packets, bytes: sum.bytes + cpu.bytes };
            Ok((reason, cpus.iter().fold(Count::default(), add)))
        };
        Reason::ALL.into_iter().map(sum).collect()
    }

    /// All tracked sources with their buckets. Sources that come and go meanwhile may be missed or be there.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] where the kernel refuses.
    pub fn tracked(&self) -> Result<Vec<(Source, Bucket)>, Error> {
        bpf::entries(IterableMap::map(&self.buckets).fd().as_fd())
    }

    /// All rules for single sources.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] where the kernel refuses.
    pub fn source_rules(&self) -> Result<Vec<(Source, Rule)>, Error> {
        bpf::entries(IterableMap::map(&self.source_rules).fd().as_fd())
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
