//! Protection of SSH sessions: this folder finds them, allows their addresses, and checks that no change makes one worse
//! off by mistake.
//!
//! A command allows the address of its own session, and checks the sessions that logind knows too. The daemon protects
//! the sessions that requests name and those that logind knows.

mod allow;
mod guard;
mod logind;
mod server;
mod session;
mod standing;
mod timeline;

pub use self::{
    allow::{
        allow_each, allow_own, allow_peer, allowed, change, change_lists, decline, is_declined, protect, shut_out,
    },
    guard::{Guard, ProtectedSessions},
    logind::{peers, sessions},
    server::ports,
    session::{Origin, Session, session},
    standing::{NEW, OPEN, Standing},
};
