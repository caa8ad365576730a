//! What was dropped of single sources, with what the notes of their cells have counted.

use aya::maps::{IterableMap as _, MapError};
use ratelimit_common::{
    buckets::bucket::{Bucket, IN_SHADOW, Resolution},
    cells::{
        cell::{self, Cell, Noted},
        dropped::Dropped,
    },
    identity::{
        class,
        service::{Service, Transport},
        source::Source,
    },
    limits::policy::SHADOW,
    maps::control::{Control, FEATURE_FRONT, FEATURE_SHADOW, FEATURE_SLIDING_LOGS},
};

use crate::dataplane::{
    Error, error::Tried as _, rules::services::Services, sys::mmap_array::Mapped, tables::open::Tables,
};

/// Whoever looks at some sources, one after the other.
pub struct Drops<'a> {
    tables: &'a Tables,
    control: Control,
    /// None where there are no cells.
    cells: Option<Mapped<Cell>>,
    /// What keys of services that have rules have for a class.
    classes: Vec<u16>,
}

/// What was dropped of a source over its limit so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// They have passed all the same. See [`IN_SHADOW`].
    pub shadow: bool,
}

impl<'a> Drops<'a> {
    /// For sources of these tables.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] where the kernel refuses.
    pub fn of(tables: &'a Tables) -> Result<Self, Error> {
        let control = tables.control()?;
        let has_cells = control.features & FEATURE_FRONT != 0;
        let cells = has_cells.then(|| Mapped::of(tables.front.map())).transpose()?;
        let classes = classes(&Services::told_apart(tables)?);
        Ok(Self { tables, control, cells, classes })
    }

    /// What was dropped of this one; none if nothing remembers it any more.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] where the kernel refuses.
    pub fn of_source(&self, source: &Source) -> Result<Option<Count>, Error> {
        let log = match self.tables.logs.get(source, 0) {
            _ if self.control.features & FEATURE_SLIDING_LOGS == 0 => None,
            Err(MapError::KeyNotFound) => None,
            found => Some(found.tried("cannot read a log")?.bucket),
        };
        let counts = [self.bucket(source)?, log].into_iter().flatten().map(|bucket| bucket.dropped_packets);
        let counts = counts
            .map(|count| Count { packets: count & !IN_SHADOW, shadow: count & IN_SHADOW != 0 })
            .reduce(Count::and);
        let noted = self.noted(source)?.map(|noted| match counts {
            // Where a bucket is known, it says what becomes of packets now.
            Some(counted) if counted.packets != 0 => Count { shadow: counted.shadow, ..noted },
            _ => noted,
        });
        Ok([counts, noted].into_iter().flatten().reduce(Count::and))
    }

    /// What notes have counted and nobody has moved to the source's bucket. A note is about the service of its packets, whichever is billed.
    fn noted(&self, source: &Source) -> Result<Option<Count>, Error> {
        let Some(cells) = &self.cells else { return Ok(None) };
        let everything = self.control.features & FEATURE_SHADOW != 0;
        let mut found: Option<Count> = None;
        for class in [source.class].iter().chain(self.classes.iter().filter(|class| **class != source.class)) {
            let mut source_of_class = *source;
            source_of_class.class = *class;
            let hash = source_of_class.hash(&self.control.seed);
            let Some(cell) = cells.get(cell::index(hash, cells.len() as u32) as usize) else { continue };
            let notes = cell.notes.iter().filter(|noted| noted.dropped != 0 && noted.note().is_about(hash));
            let count = |noted: &Noted| Count {
                packets: Dropped(noted.dropped).packets(),
                shadow: everything || noted.note().action() == SHADOW,
            };
            let Some(noted) = notes.map(count).reduce(Count::and) else { continue };
            if *class == source.class || self.is_billed_to(&source_of_class, source)? {
                found = Some(found.map_or(noted, |found| found.and(noted)));
            }
        }
        Ok(found)
    }

    /// Whether packets of the service of `source` are billed to `billed`, as its bucket says. Only one that has nothing to remember may have none.
    fn is_billed_to(&self, source: &Source, billed: &Source) -> Result<bool, Error> {
        let Some(bucket) = self.bucket(source)? else { return Ok(true) };
        Ok(Resolution(bucket.resolution).billed().map(u16::from) == Some(billed.class))
    }

    fn bucket(&self, source: &Source) -> Result<Option<Bucket>, Error> {
        match self.tables.buckets.get(source, 0) {
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

/// The classes that keys of buckets and notes can have, but for [`class::ANY`].
fn classes(services: &Services) -> Vec<u16> {
    let mut classes = Vec::new();
    for (service, _) in services.iter() {
        classes.push(class::key(services.classes(service)));
        if let Service::Port(Transport::Tcp, port) = service {
            classes.push(class::key(services.classes_of_new(port)));
        }
    }
    classes.sort_unstable();
    classes.dedup();
    classes
}
