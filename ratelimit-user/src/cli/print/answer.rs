//! How a command ends.

/// How a command ended, if not with an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Done: exit status 0.
    Done,
    /// Everything was so before, or another process has recorded the change: exit status 0.
    Unchanged,
    /// A negative answer: exit status 1.
    Negative,
    /// Another process has printed the result and ended with this status.
    Reported(u8),
}
