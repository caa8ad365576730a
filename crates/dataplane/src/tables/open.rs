//! The program's maps as typed handles.

use std::path::Path;

use aya::{
    Ebpf,
    maps::{Array, HashMap, IterableMap, LpmTrie, MapData, PerCpuArray},
};
use ratelimit_common::{
    buckets::{bucket::Bucket, sliding_log::Log},
    cells::{bucket_filter::FIRST_EPOCH, cell::Cell, learned_rate::LearnedRate},
    fleet::lease::Lease,
    identity::{
        class::Class,
        filter::Filter,
        service::{ClassEntry, Service, Services},
        source::{PrefixKey, Source},
    },
    limits::policy::{Policy, PolicyId},
    maps::{
        control::{ABI_VERSION, Control},
        cpu::Cpu,
        event::{Event, Written},
        levels::Levels,
        names,
    },
    meters::interface_capacity::Capacity,
    reason::{Count, Reason},
    rules::{ban::BanSet, comment::Owner, rule::Rule},
};

use crate::{
    Error,
    error::Tried as _,
    pins::listing::Listing,
    program::{control_init, loader, settings::Settings},
    sys::bpf::raw::RawMap,
    tables::{
        bans::{self, Bans},
        counters::Counters,
        kept_array::KeptArray,
        layout_check,
        list_maps::ListMaps,
        origin::Origin,
        table::Table,
    },
};

/// The maps that commands read and write.
pub struct Tables {
    /// The control entry.
    pub control: KeptArray<Control>,
    /// Source → bucket.
    pub buckets: Table<HashMap<MapData, Source, Bucket>>,
    /// Source → rule.
    pub source_rules: Table<HashMap<MapData, Source, Rule>>,
    /// Keyed hash of a source → bans.
    pub bans: Table<Array<MapData, BanSet>>,
    /// Keyed hash of a source → latest end of a ban.
    pub ban_filter: Table<Array<MapData, u64>>,
    /// Prefix → rule.
    pub prefix_rules: Table<LpmTrie<MapData, PrefixKey, Rule>>,
    /// Rule → comment, and further owners.
    pub comments: Table<HashMap<MapData, Source, Owner>>,
    /// Slot → policy.
    pub policies: KeptArray<Policy>,
    /// Class → its service and default.
    pub classes: KeptArray<ClassEntry>,
    /// The one entry with the classes of every packet. It is written as a whole.
    services: Table<Array<MapData, Services>>,
    /// Packets and bytes by reason.
    pub counters: Counters,
    /// Seeded hash → cell.
    pub front: Table<Array<MapData, Cell>>,
    /// Lane and seeded hash → levels.
    pub levels: Table<Array<MapData, Levels>>,
    /// The one entry with the sources that rules may match. It is written as a whole.
    pub rule_filter: Table<Array<MapData, Filter>>,
    /// Words with bits of smaller groups of sources.
    pub fine_filter: Table<Array<MapData, u64>>,
    /// One entry for each CPU.
    pub cpus: Table<PerCpuArray<MapData, Cpu>>,
    /// Number of buckets that were created.
    pub created: Table<Array<MapData, u64>>,
    /// What the program has learned about the rate of unknown sources.
    pub learned_rate: Table<Array<MapData, LearnedRate>>,
    /// Source → sliding log.
    pub logs: Table<HashMap<MapData, Source, Log>>,
    /// Entries of lists.
    pub lists: ListMaps,
    /// Events of the program.
    pub events: Table<Array<MapData, Event>>,
    /// Number of events that the program has written.
    pub events_written: Table<Array<MapData, Written>>,
    /// Keyed hash → lease of a source.
    pub leases: Table<Array<MapData, Lease>>,
    /// Prefix that this host spares → the number of a [reason](ratelimit_common::rules::spared::Spared).
    pub spared: Table<LpmTrie<MapData, PrefixKey, u64>>,
    /// Place of an interface → its capacity.
    pub capacities: Table<Array<MapData, Capacity>>,
}

impl Tables {
    /// Opens the maps pinned in `pins`. The caller has the lock, or no other process changes them. It compares their layouts with those of this build, unless a command has done so before.
    ///
    /// # Errors
    ///
    /// [`Error::OtherAbi`] if another build made them, [`Error::Damaged`] if one has another layout.
    pub fn open(pins: &Path) -> Result<Self, Error> {
        Self::locked(pins, &Listing::read(pins)?)
    }

    /// Opens the maps pinned in `pins`, whose folder was read under the lock.
    pub fn locked(pins: &Path, listing: &Listing) -> Result<Self, Error> {
        let mut tables = Self::from(Origin::Pins(pins))?;
        tables.control.keep();
        tables.classes.keep();
        tables.policies.keep();
        if tables.check(pins, listing)? {
            // Without a seal, the next command compares the layouts again.
            let _ = tables.seal(listing);
        }
        Ok(tables)
    }

    /// Forgets the entries that were read, because they may have been written through other handles.
    pub fn forget(&mut self) {
        self.control.forget();
        self.classes.forget();
        self.policies.forget();
    }

    /// Records that the layouts of these pins are right.
    pub fn seal(&mut self, listing: &Listing) -> Result<(), Error> {
        let seal = listing.seal(loader::OBJECT_HASH, &names::PINNED).unwrap_or(0);
        self.set_control(&Control { seal, ..self.control()? })
    }

    /// Opens the pinned maps for a reader without the lock: all at once, because a command may replace them.
    pub fn unlocked(pins: &Path) -> Result<Self, Error> {
        Self::from(Origin::Pins(pins))?.check(pins, &Listing::read(pins)?)?;
        Self::from(Origin::OpenPins(pins))
    }

    /// Checks version and layouts. Returns whether it had to compare the layouts, because the pins have no valid seal.
    fn check(&self, pins: &Path, listing: &Listing) -> Result<bool, Error> {
        // The version is the first field in every build, also where the entry has another size.
        let control = self.control();
        let entry = || RawMap::from_pin(&pins.join(names::CONTROL)).and_then(|map| map.get(&0u32.to_ne_bytes()));
        let first = |entry: Vec<u8>| entry.first_chunk().copied().map(u32::from_ne_bytes);
        let abi = control.as_ref().map_or_else(|_| entry().ok().flatten().and_then(first), |control| Some(control.abi));
        if let Some(abi) = abi.filter(|abi| *abi != ABI_VERSION) {
            let detail = format!("layout {abi}, this is {ABI_VERSION}");
            return Err(Error::OtherAbi { path: pins.to_owned(), detail });
        }
        if control.as_ref().is_ok_and(|control| Some(control.seal) == listing.seal(loader::OBJECT_HASH, &names::PINNED))
        {
            return Ok(false);
        }
        layout_check::check(pins).and(control.map(|_| true))
    }

    /// Takes the maps out of a loaded object and initializes them without rules and limits.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses.
    pub fn of(object: &mut Ebpf, settings: &Settings) -> Result<Self, Error> {
        let mut tables = Self::from(Origin::Object(object))?;
        for (slot, policy) in (0..).zip([Policy::UNLIMITED, Policy::ALLOWED, Policy::DENIED, Policy::BANNED]) {
            tables.policies.set(slot, &policy)?;
        }
        tables.created.open_mut()?.set(0, FIRST_EPOCH << settings.epoch_shift(), 0).tried(names::CREATED)?;
        // The ABI version comes last, so only complete maps have it.
        tables.set_control(&control_init::control(object, settings)?)?;
        Ok(tables)
    }

    fn from(mut origin: Origin<'_>) -> Result<Self, Error> {
        Ok(Self {
            control: KeptArray::new(origin.table(names::CONTROL)?),
            buckets: origin.table(names::BUCKETS)?,
            source_rules: origin.table(names::SOURCE_RULES)?,
            bans: origin.table(names::BANS)?,
            ban_filter: origin.table(names::BAN_FILTER)?,
            prefix_rules: origin.table(names::PREFIX_RULES)?,
            comments: origin.table(names::COMMENTS)?,
            policies: KeptArray::new(origin.table(names::POLICIES)?),
            classes: KeptArray::new(origin.table(names::CLASSES)?),
            services: origin.table(names::SERVICES)?,
            counters: Counters {
                undivided: origin.table(names::COUNTERS)?,
                by_interface: origin.table(names::INTERFACE_COUNTERS)?,
                ledger: origin.table(names::LEDGER)?,
            },
            front: origin.table(names::FRONT)?,
            levels: origin.table(names::LEVELS)?,
            rule_filter: origin.table(names::RULE_FILTER)?,
            fine_filter: origin.table(names::FINE_FILTER)?,
            cpus: origin.table(names::CPUS)?,
            created: origin.table(names::CREATED)?,
            learned_rate: origin.table(names::LEARNED_RATE)?,
            logs: origin.table(names::SLIDING_LOGS)?,
            lists: ListMaps::from(&mut origin)?,
            events: origin.table(names::EVENTS)?,
            events_written: origin.table(names::EVENTS_WRITTEN)?,
            leases: origin.table(names::LEASES)?,
            spared: origin.table(names::SPARED)?,
            capacities: origin.table(names::INTERFACE_CAPACITIES)?,
        })
    }

    /// Returns the control entry.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses.
    pub fn control(&self) -> Result<Control, Error> {
        self.control.get(0)
    }

    /// Replaces the control entry.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses.
    pub fn set_control(&mut self, control: &Control) -> Result<(), Error> {
        self.control.set(0, control)
    }

    /// Returns the default policy of a class. 0 if it has none.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses.
    pub fn default_policy(&self, class: Class) -> Result<PolicyId, Error> {
        Ok(self.classes.get(u32::from(class))?.default_policy)
    }

    /// Sets the default policy of a class on behalf of this [origin](ratelimit_common::rules::rule). 0 removes it.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses.
    pub fn set_default_policy(&mut self, class: Class, policy: PolicyId, origin: u8) -> Result<(), Error> {
        let before = self.classes.get(u32::from(class))?;
        self.classes.set(u32::from(class), &ClassEntry { default_policy: policy, default_origin: origin, ..before })
    }

    /// Sets the services that the program distinguishes.
    pub fn set_services(&mut self, services: &[(Service, Class)]) -> Result<(), Error> {
        // SAFETY: all zeroes are a valid table. It is too large for the stack.
        let mut table = unsafe { Box::<Services>::new_zeroed().assume_init() };
        table.fill(services);
        self.services.open_mut()?.set(0, AsRef::<Services>::as_ref(&table), 0).tried("cannot write the services")
    }

    /// Starts the next generation of the rules, so that buckets resolve their policies again. The lists in force stay.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses.
    pub fn renew(&mut self) -> Result<(), Error> {
        let same = self.control()?.with_same_lists();
        if self.control()? != same {
            self.set_control(&same)?;
        }
        self.set_control(&same.renewed())
    }

    /// Returns packets and bytes by reason, of all CPUs and interfaces together.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses.
    pub fn counts(&self) -> Result<Vec<(Reason, Count)>, Error> {
        Ok(Reason::ALL.into_iter().zip(self.counters.all()?.done).collect())
    }

    /// Returns packets and bytes that passed in shadow, by the reason that they would have had.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses.
    pub fn shadow_counts(&self) -> Result<Vec<(Reason, Count)>, Error> {
        Ok(Reason::ALL.into_iter().zip(self.counters.all()?.shadow).collect())
    }

    /// Returns the table of bans.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses.
    pub fn bans(&self) -> Result<Bans, Error> {
        Bans::of(self.bans.open()?.map(), self.ban_filter.open()?.map(), self.control()?.seed)
    }

    /// Returns the ban of a source, ended or not.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses.
    pub fn ban(&self, source: &Source) -> Result<Option<Rule>, Error> {
        bans::of_source(self.bans.open()?, source, &self.control()?.seed)
    }
}
