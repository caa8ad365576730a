//! What callers may do: tokens and their scopes. No call is answered here.

mod denied;
mod peer;
mod tokens;

pub(in crate::serve) use self::{
    denied::Denied,
    peer::Peer,
    tokens::{Caller, Need, Tokens},
};
