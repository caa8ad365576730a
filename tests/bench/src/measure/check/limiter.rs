//! What the compared limiters have in common.

/// Work that is timed. It returns how many requests were allowed.
pub(super) type Work<'a> = Box<dyn FnOnce() -> usize + 'a>;

/// A limiter that decides by text keys, with one limit for each key.
pub(super) trait Limiter: Send + Sync {
    /// Returns its name.
    fn name(&self) -> &'static str;

    /// Returns the most decisions of a sample.
    fn most(&self) -> usize;

    /// Prepares what a caller has at hand before it asks. The work asks once for each key.
    fn prepare<'a>(&'a self, keys: &'a [String]) -> Work<'a>;
}

/// Requests per second of a limit that is never reached.
pub(super) const NEVER_REACHED: u32 = 1_000_000;
