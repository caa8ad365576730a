//! Why a call is not answered.

/// Why a caller may not do what it asks for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in crate::serve) enum Denied {
    /// The call has no token.
    #[error("this call needs a token: send the header Authorization: Bearer TOKEN")]
    Missing,
    /// The file has no such token.
    #[error("the token is unknown: the file of the server has no [[token]] with its SHA-256")]
    Unknown,
    /// The token has not the scope.
    #[error(
        "the token {token} may not {what}: the operator of the server can give it the scope {scope}, in its [[token]]"
    )]
    Scope {
        /// The name of the token.
        token: String,
        /// What the call asks for.
        what: String,
        /// One scope that would be enough.
        scope: String,
    },
}
