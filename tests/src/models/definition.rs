//! The definition of an algorithm, which every model implements.

/// One limit of one source.
pub trait Definition {
    /// Returns whether a packet of this amount fits at `now`, in nanoseconds. Times never go back.
    fn fits(&self, now: u64, amount: u64) -> bool;
    /// Counts the packet.
    fn take(&mut self, now: u64, amount: u64);
}
