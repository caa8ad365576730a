//! An array map in this process's memory.

use std::os::fd::{AsFd as _, AsRawFd as _};

use aya::maps::MapData;

/// The mapped entries of an array (Linux 5.5), until dropped.
pub(crate) struct Mapped {
    start: *mut libc::c_void,
    length: usize,
}

// SAFETY: any thread may write and unmap the memory.
unsafe impl Send for Mapped {}

impl Mapped {
    /// Maps an array.
    ///
    /// # Panics
    ///
    /// If the kernel refuses, for example because the array was created without `BPF_F_MMAPABLE`.
    #[must_use]
    pub(crate) fn of(map: &MapData) -> Self {
        let info = map.info().expect("cannot read a map");
        let length = info.value_size() as usize * info.max_entries() as usize;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let fd = map.fd().as_fd().as_raw_fd();
        // SAFETY: the kernel chooses a free address.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, libc::MAP_SHARED, fd, 0) };
        assert_ne!(start, libc::MAP_FAILED, "cannot map an array: {}", std::io::Error::last_os_error());
        Self { start, length }
    }

    /// Writes words from the beginning on, up to the end of the array.
    pub(crate) fn fill(&mut self, words: impl Iterator<Item = u32>) {
        for (index, word) in words.enumerate() {
            assert!((index + 1) * size_of::<u32>() <= self.length, "the array is too small");
            // SAFETY: the word lies within the mapping, which is ours to write until it is unmapped.
            unsafe { self.start.cast::<u32>().add(index).write_volatile(word) };
        }
    }

    /// Returns all bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        // SAFETY: the memory is readable until it is unmapped, and no program runs on it meanwhile.
        unsafe { std::slice::from_raw_parts(self.start.cast::<u8>(), self.length) }.to_vec()
    }

    /// Writes all bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.length, "not the bytes of this array");
        // SAFETY: the memory is ours to write until it is unmapped, and both are as long.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.cast::<u8>(), self.length) };
    }

    /// Sets every entry to zero.
    pub(crate) fn zero(&mut self) {
        // SAFETY: the memory is ours to write until it is unmapped, and programs accept any word in it.
        unsafe { std::ptr::write_bytes(self.start.cast::<u8>(), 0, self.length) };
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and no reference to it remains.
        unsafe { libc::munmap(self.start, self.length) };
    }
}
