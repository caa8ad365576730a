//! An array that a command reads at once and keeps: the program never writes it, and the lock keeps other commands
//! away.

use std::{os::fd::AsFd as _, sync::OnceLock};

use aya::{
    Pod,
    maps::{Array, IterableMap as _, MapData},
};

use crate::{Error, error::Tried as _, sys::bpf, tables::table::Table};

/// An array that only commands write.
pub struct KeptArray<T: Pod> {
    map: Table<Array<MapData, T>>,
    /// Empty until they are read, and always if other processes may write.
    entries: OnceLock<Vec<T>>,
    keeps: bool,
}

impl<T: Pod> KeptArray<T> {
    /// Wraps an array. It keeps nothing yet.
    pub fn new(map: Table<Array<MapData, T>>) -> Self {
        Self { map, entries: OnceLock::new(), keeps: false }
    }

    /// Keeps from now on what is read. The caller has the lock.
    pub fn keep(&mut self) {
        self.keeps = true;
    }

    /// Forgets what was read, because another handle may have written since.
    pub fn forget(&mut self) {
        self.entries.take();
    }

    /// Returns one entry.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses.
    pub fn get(&self, index: u32) -> Result<T, Error> {
        if !self.keeps {
            return self.map.open()?.get(&index, 0).tried(self.map.name());
        }
        self.kept()?
            .get(index as usize)
            .copied()
            .ok_or_else(|| Error::Bpf { what: self.map.name(), detail: format!("no entry {index}") })
    }

    /// Returns all entries in their order.
    pub fn all(&self) -> Result<Vec<T>, Error> {
        if self.keeps { self.kept().map(<[T]>::to_vec) } else { self.read() }
    }

    fn kept(&self) -> Result<&[T], Error> {
        if let Some(entries) = self.entries.get() {
            return Ok(entries);
        }
        let entries = self.read()?;
        Ok(self.entries.get_or_init(|| entries))
    }

    fn read(&self) -> Result<Vec<T>, Error> {
        let map = self.map.open()?;
        bpf::array(map.map().fd().as_fd(), map.len())
    }

    /// Replaces an entry.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses.
    pub fn set(&mut self, index: u32, value: &T) -> Result<(), Error> {
        let name = self.map.name();
        self.map.open_mut()?.set(index, value, 0).tried(name)?;
        if let Some(place) = self.entries.get_mut().and_then(|entries| entries.get_mut(index as usize)) {
            *place = *value;
        }
        Ok(())
    }

    /// Returns the map itself.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if it cannot be opened.
    pub fn map(&self) -> Result<&Array<MapData, T>, Error> {
        self.map.open()
    }
}
