//! Why services cannot have rules at the same time.

/// Why a service cannot have rules.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServicesError {
    /// Rules use all classes of services.
    #[error("{0} services have rules, the maximum: delete the rules of one first")]
    TooMany(usize),
    /// Another service has some of the same ports.
    #[error(
        "{service} overlaps {other}, which has rules or a cost, and a port belongs to one service only: delete the rules and the cost of {other} first, or choose other ports"
    )]
    Overlap {
        /// The service.
        service: String,
        /// The other one.
        other: String,
    },
}
