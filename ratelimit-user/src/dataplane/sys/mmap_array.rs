//! An array map in this process's memory: a million entries are read, and written, without a system call for each.

use std::{
    io,
    marker::PhantomData,
    os::fd::{AsFd as _, AsRawFd as _},
    ptr,
};

use aya::{Pod, maps::MapData};

use crate::dataplane::{Error, error::Tried as _};

/// All entries of an array that was made to be mapped (kernel 5.5).
pub struct Mapped<T> {
    start: *mut libc::c_void,
    entries: usize,
    entry: PhantomData<T>,
}

impl<T: Pod> Mapped<T> {
    /// Maps an array of `T` for reading.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] where the kernel refuses, or the entries have another size.
    pub fn of(map: &MapData) -> Result<Self, Error> {
        Self::with(map, libc::PROT_READ)
    }

    /// Maps an array of `T` for reading and writing.
    pub(crate) fn to_write(map: &MapData) -> Result<Self, Error> {
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
        Ok(Self { start, entries, entry: PhantomData })
    }

    /// The entry at `index` as it is just now, each word by itself. None beyond the end.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<T> {
        // SAFETY: the entry lies within the mapping; volatile because programs write it. Any bytes are a `T`.
        (index < self.entries).then(|| unsafe { self.start.cast::<T>().add(index).read_volatile() })
    }

    /// The entry at `index` where it lies. None beyond the end.
    pub(crate) fn place(&self, index: usize) -> Option<*mut T> {
        // SAFETY: the entry lies within the mapping.
        (index < self.entries).then(|| unsafe { self.start.cast::<T>().add(index) })
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.entries
    }

    /// All entries, one after the other.
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
