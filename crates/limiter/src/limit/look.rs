//! What a limit says about a request.

/// The wait of a request that costs more than a limit.
pub(crate) const NEVER: u64 = u64::MAX;

/// What a limit answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// The request is admitted. It may go on after so many nanoseconds.
    Admit {
        /// 0, unless the limit is a queue.
        after: u64,
    },
    /// The request is refused.
    Refuse {
        /// Nanoseconds after which the same request is admitted, if nothing else is admitted meanwhile. [`NEVER`] if it
        /// costs more than the limit.
        wait: u64,
    },
}
