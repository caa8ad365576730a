//! Dropped packets of single sources, with those that cached refusals have counted.

use std::time::Duration;

use aya::maps::{IterableMap as _, MapError};
use ratelimit_common::{
    buckets::bucket::{Bucket, Resolution},
    cells::{
        cell::{self, Cell, RefusalSlot},
        dropped::Dropped,
    },
    identity::{
        class,
        service::{Service, Transport},
        source::Source,
    },
    limits::policy::SHADOW,
    maps::control::{Control, FEATURE_FRONT, FEATURE_SHADOW, FEATURE_SHADOW_PROGRAMS, FEATURE_SLIDING_LOGS},
    meters::gcra,
    reason,
};

use crate::dataplane::{
    Error,
    error::Tried as _,
    rules::services::Services,
    sys::{host, mmap_array::Mapped},
    tables::open::Tables,
};

/// Reads the drops of some sources, one after the other.
pub struct Drops<'a> {
    tables: &'a Tables,
    control: Control,
    /// None without cells.
    cells: Option<Mapped<Cell>>,
    /// The class words in keys of services with rules.
    classes: Vec<u16>,
}

/// Packets of a source that were over its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Whether they have passed in shadow. See [`Bucket::is_in_shadow`].
    pub shadow: bool,
}

impl<'a> Drops<'a> {
    /// Prepares readings of these tables.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses.
    pub fn of(tables: &'a Tables) -> Result<Self, Error> {
        let control = tables.control()?;
        let has_cells = control.features & FEATURE_FRONT != 0;
        let cells = has_cells.then(|| Mapped::of(tables.front.open()?.map())).transpose()?;
        let classes = classes(&Services::told_apart(tables)?);
        Ok(Self { tables, control, cells, classes })
    }

    /// Returns the drops of a source. None if it has neither a bucket nor a cached refusal.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses.
    pub fn of_source(&self, source: &Source) -> Result<Option<Count>, Error> {
        let counts = [self.bucket(source)?, self.log(source)?]
            .into_iter()
            .flatten()
            .map(|bucket| Count { packets: bucket.over_limit(), shadow: bucket.is_in_shadow() })
            .reduce(Count::and);
        let noted = self.noted(source)?.map(|noted| match counts {
            // A bucket knows whether packets are in shadow now.
            Some(counted) if counted.packets != 0 => Count { shadow: counted.shadow, ..noted },
            _ => noted,
        });
        Ok([counts, noted].into_iter().flatten().reduce(Count::and))
    }

    /// Returns what cached refusals have counted beyond the source's bucket. A cached refusal is listed under the
    /// service of its packets, also if another service is billed.
    fn noted(&self, source: &Source) -> Result<Option<Count>, Error> {
        let [dropped, in_shadow] = self.noted_by_fate(source)?;
        let count =
            |count: reason::Count, shadow| (count.packets != 0).then_some(Count { packets: count.packets, shadow });
        Ok([count(dropped, false), count(in_shadow, true)].into_iter().flatten().reduce(Count::and))
    }

    /// Returns the same as packets and bytes: those that were dropped, and those that have passed in shadow.
    pub(super) fn noted_by_fate(&self, source: &Source) -> Result<[reason::Count; 2], Error> {
        let mut found = [reason::Count::default(); 2];
        let Some(cells) = &self.cells else { return Ok(found) };
        let everything = self.control.features & FEATURE_SHADOW != 0;
        for class in [source.class].iter().chain(self.classes.iter().filter(|class| **class != source.class)) {
            let mut source_of_class = *source;
            source_of_class.class = *class;
            let hash = source_of_class.hash(&self.control.seed);
            let Some(cell) = cells.get(cell::index(hash, cells.len() as u32) as usize) else { continue };
            let notes = cell.refusals.iter().filter(|noted| noted.dropped != 0 && noted.refusal().is_about(hash));
            let mut noted = [reason::Count::default(); 2];
            for note in notes {
                let passes = everything || note.refusal().action() == SHADOW;
                let noted = &mut noted[usize::from(passes)];
                noted.packets += Dropped(note.dropped).packets();
                noted.bytes += Dropped(note.dropped).bytes();
            }
            let is_any = noted.iter().any(|count| count.packets != 0);
            if is_any && (*class == source.class || self.is_billed_to(&source_of_class, source)?) {
                for (found, noted) in found.iter_mut().zip(noted) {
                    found.packets += noted.packets;
                    found.bytes += noted.bytes;
                }
            }
        }
        Ok(found)
    }

    /// Returns whether packets may have passed on an interface that alone is in shadow.
    pub(super) const fn may_be_of_shadow_program(&self) -> bool {
        self.control.features & FEATURE_SHADOW_PROGRAMS != 0
    }

    /// Returns whether a cell repeats a refusal of the source now.
    #[must_use]
    pub fn is_refused(&self, source: &Source) -> bool {
        self.refused_for(source).is_some()
    }

    /// Returns for how long a cell repeats a refusal of the source. A changed rule ends it earlier.
    #[must_use]
    pub fn refused_for(&self, source: &Source) -> Option<Duration> {
        let cells = self.cells.as_ref()?;
        let (hash, now) = (source.hash(&self.control.seed), gcra::units(host::now()));
        let left = |noted: &RefusalSlot| {
            let refusal = noted.refusal();
            let is_refusal = refusal.is_about(hash) && refusal.is_in_force(self.control.generation, now);
            is_refusal.then(|| Duration::from_nanos(refusal.left(now) >> gcra::FRACTION_BITS))
        };
        let cell = cells.get(cell::index(hash, cells.len() as u32) as usize)?;
        cell.refusals.iter().filter_map(left).max()
    }

    /// Returns whether packets of the service of `source` are billed to `billed`, by its bucket. Without a bucket, they
    /// are.
    fn is_billed_to(&self, source: &Source, billed: &Source) -> Result<bool, Error> {
        let Some(bucket) = self.bucket(source)? else { return Ok(true) };
        Ok(Resolution(bucket.resolution).billed().map(u16::from) == Some(billed.class))
    }

    /// Returns the packets of a source that have passed by its bucket and its sliding log.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses.
    pub fn passed(&self, source: &Source) -> Result<u64, Error> {
        let buckets = [self.bucket(source)?, self.log(source)?];
        Ok(buckets.into_iter().flatten().map(|bucket| bucket.passed()).sum())
    }

    /// Returns the bucket of a source, with what its sliding log has counted.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses.
    pub fn tracked(&self, source: &Source) -> Result<Option<Bucket>, Error> {
        let (bucket, Some(log)) = (self.bucket(source)?, self.log(source)?) else { return self.bucket(source) };
        let Some(mut bucket) = bucket else { return Ok(Some(log)) };
        bucket.add_log(&log, host::now());
        Ok(Some(bucket))
    }

    /// Returns the bucket in the sliding log of a source.
    fn log(&self, source: &Source) -> Result<Option<Bucket>, Error> {
        if self.control.features & FEATURE_SLIDING_LOGS == 0 {
            return Ok(None);
        }
        match self.tables.logs.open()?.get(source, 0) {
            Err(MapError::KeyNotFound) => Ok(None),
            found => Ok(Some(found.tried("cannot read a log")?.bucket)),
        }
    }

    /// Returns the bucket of a source.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses.
    pub fn bucket(&self, source: &Source) -> Result<Option<Bucket>, Error> {
        match self.tables.buckets.open()?.get(source, 0) {
            Err(MapError::KeyNotFound) => Ok(None),
            found => Ok(Some(found.tried("cannot read a bucket")?)),
        }
    }
}

impl Count {
    const fn and(self, other: Self) -> Self {
        Self { packets: self.packets + other.packets, shadow: self.shadow || other.shadow }
    }
}

/// Returns the class words of keys of buckets and cached refusals, except [`class::ANY`].
fn classes(services: &Services) -> Vec<u16> {
    let mut classes = Vec::new();
    for (service, _) in services.iter() {
        classes.push(class::key(services.classes(service)));
        if let Service::Ports(Transport::Tcp, port, _) = service {
            classes.push(class::key(services.classes_of_new(port)));
        }
    }
    classes.sort_unstable();
    classes.dedup();
    classes
}
