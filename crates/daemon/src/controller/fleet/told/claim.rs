//! What other hosts say about the shared rules that they have.

/// A version of the shared rules that a host says it has in force. Whoever can write to the engine can say so.
#[derive(Default)]
pub(crate) struct Claim {
    pub version: u64,
    pub host: String,
}
