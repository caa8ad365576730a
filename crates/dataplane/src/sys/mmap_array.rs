//! Maps an array into this process's memory, so that it reads and writes a million entries without system calls.

use std::{
    io,
    marker::PhantomData,
    os::fd::{AsFd as _, AsRawFd as _},
    ptr,
};

use aya::{Pod, maps::MapData};

use crate::{Error, error::Tried as _};

/// The entries of an array that was created with `BPF_F_MMAPABLE` (kernel 5.5).
pub struct Mapped<T> {
    start: *mut libc::c_void,
    /// Number of the map.
    id: u32,
    entries: usize,
    entry: PhantomData<T>,
}

impl<T: Pod> Mapped<T> {
    /// Maps an array of `T` for reading.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses, or the entries have another size.
    pub fn of(map: &MapData) -> Result<Self, Error> {
        Self::with(map, libc::PROT_READ)
    }

    /// Maps an array of `T` for reading and writing.
    pub fn to_write(map: &MapData) -> Result<Self, Error> {
        Self::with(map, libc::PROT_READ | libc::PROT_WRITE)
    }

    fn with(map: &MapData, access: i32) -> Result<Self, Error> {
        let info = map.info().tried("cannot read the size of an array")?;
        if info.value_size() as usize != size_of::<T>() {
            return Err(Error::Bpf { what: "cannot map an array", detail: "its entries have another size".to_owned() });
        }
        let entries = info.max_entries() as usize;
        let (length, fd) = (entries * size_of::<T>(), map.fd().as_fd().as_raw_fd());
        // SAFETY: the kernel chooses where, and nothing else is there.
        let start = unsafe { libc::mmap(ptr::null_mut(), length, access, libc::MAP_SHARED, fd, 0) };
        if start == libc::MAP_FAILED {
            Err(io::Error::last_os_error()).tried("cannot map an array")?;
        }
        Ok(Self { start, id: info.id(), entries, entry: PhantomData })
    }

    /// Returns whether these are the entries of this map.
    pub fn is_of(&self, map: &MapData) -> Result<bool, Error> {
        Ok(self.id == map.info().tried("cannot read what a map is")?.id())
    }

    /// Returns the entry at `index`. Words can be from different moments. None beyond the end.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<T> {
        // SAFETY: the entry lies within the mapping; volatile because programs write it. Any bytes are a `T`.
        (index < self.entries).then(|| unsafe { self.start.cast::<T>().add(index).read_volatile() })
    }

    /// Returns the place of the entry at `index`. None beyond the end.
    pub fn place(&self, index: usize) -> Option<*mut T> {
        // SAFETY: the entry lies within the mapping.
        (index < self.entries).then(|| unsafe { self.start.cast::<T>().add(index) })
    }

    /// Returns the number of entries.
    #[expect(clippy::len_without_is_empty, reason = "an array of the kernel is never empty")]
    pub fn len(&self) -> usize {
        self.entries
    }

    /// Returns all entries in their order.
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        (0..self.entries).filter_map(|index| self.get(index))
    }
}

impl<T> Drop for Mapped<T> {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nothing refers to it any more.
        unsafe { libc::munmap(self.start, self.entries * size_of::<T>()) };
    }
}
