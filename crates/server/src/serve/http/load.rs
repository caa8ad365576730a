//! The load of the server, which every answer reports.

use std::sync::atomic::{AtomicU64, Ordering};

/// The number of calls that the server is answering.
#[derive(Debug, Default)]
pub(super) struct Load(AtomicU64);

/// A call that the server is answering, which counts until it is dropped.
#[derive(Debug)]
pub(super) struct Call<'a>(&'a AtomicU64);

impl Load {
    /// Counts a call.
    pub(super) fn begin(&self) -> Call<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Call(&self.0)
    }
}

impl Call<'_> {
    /// Returns the number of calls, which includes this one.
    pub(super) fn load(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
