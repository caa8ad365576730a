//! What happens above a limit.

/// What happens above a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Throttle {
    /// All further requests are refused.
    #[default]
    Hard,
    /// So many hundredths of the limit pass above it.
    Soft(u8),
    /// Requests pass as long as the caller has room for them. See [`super::Limiter::set_room`].
    Elastic,
}
