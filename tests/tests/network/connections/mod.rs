//! Connections of the protected host.

mod own;
mod proofs;
