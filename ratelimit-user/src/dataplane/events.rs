//! Reads what the program tells of as it happens. Any number of readers can, and none has any effect.

use aya::maps::{IterableMap as _, MapData};
use ratelimit_common::event::{self, Event, Written};

use super::{Error, error::Tried as _, mapped::Mapped, tables::Tables};

/// A reader with his position.
pub struct Reader {
    map: u32,
    events: Mapped<Event>,
    written: Mapped<Written>,
    /// Number of the last event that was read.
    position: u64,
    left_out: u64,
}

/// What there is since the last time.
#[derive(Debug, Default)]
pub struct News {
    /// In the order of their numbers.
    pub events: Vec<Event>,
    /// Those that were overwritten before they were read, and those that the program had to leave out.
    pub missed: u64,
}

impl Reader {
    /// One who reads from now on, or from the first event.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] where the kernel refuses.
    pub fn of(tables: &Tables, from_now: bool) -> Result<Self, Error> {
        let (events, written) = (Mapped::of(tables.events.map())?, Mapped::of(tables.events_written.map())?);
        let map = id(tables.events.map())?;
        let mut reader = Self { map, events, written, position: 0, left_out: 0 };
        if from_now {
            let written = reader.written();
            (reader.position, reader.left_out) = (written.events, written.left_out);
        }
        Ok(reader)
    }

    /// Whether these are the maps that it reads.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] where the kernel refuses.
    pub fn reads(&self, tables: &Tables) -> Result<bool, Error> {
        Ok(self.map == id(tables.events.map())?)
    }

    /// What there is since the last time.
    pub fn read(&mut self) -> News {
        let Written { events: last, left_out, .. } = self.written();
        let mut news = News { missed: left_out.saturating_sub(self.left_out), ..News::default() };
        self.left_out = left_out;
        let oldest = last.saturating_sub(u64::from(event::PLACES));
        if self.position < oldest {
            news.missed += oldest - self.position;
            self.position = oldest;
        }
        while self.position < last {
            let number = self.position + 1;
            let place = event::place(number) as usize;
            let seen = self.events.get(place).filter(|seen| seen.number == number);
            // What was overwritten while it was read has another number now.
            let after = self.events.get(place).map_or(0, |seen| seen.number);
            match seen {
                Some(event) if after == number => news.events.push(event),
                // It is just being written.
                _ if after < number => break,
                _ => news.missed += 1,
            }
            self.position = number;
        }
        news
    }

    fn written(&self) -> Written {
        self.written.get(0).unwrap_or_default()
    }
}

fn id(map: &MapData) -> Result<u32, Error> {
    Ok(map.info().tried("cannot read what a map is")?.id())
}
