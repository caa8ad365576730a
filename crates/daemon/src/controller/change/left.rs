//! What could not be undone after a failure, in words.

/// A step failed, and the steps before it could not be undone completely.
#[derive(Debug, thiserror::Error)]
#[error("{cause:#}; could not undo: {left}")]
pub struct PartlyUndone {
    cause: anyhow::Error,
    left: String,
}

/// Returns the error, together with the steps that could not be undone.
pub fn with_left(cause: impl Into<anyhow::Error>, left: &[anyhow::Error]) -> anyhow::Error {
    let cause = cause.into();
    if left.is_empty() { cause } else { PartlyUndone { cause, left: in_words(left) }.into() }
}

/// Returns the failures in one line.
pub fn in_words(failures: &[anyhow::Error]) -> String {
    failures.iter().map(|failure| format!("{failure:#}")).collect::<Vec<_>>().join("; ")
}
