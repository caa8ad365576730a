//! Spares packets of connections that this host has opened. It is asked only about packets that would be refused.
//!
//! A look-up of a socket costs about 100 ns, so attackers must not cause many. A source has one look-up in vain per
//! second. It has 16 if own connections got packets from it, and for the local ports that the kernel chooses. All forged
//! sources together have the budget of a CPU. An answer counts for the whole connection, for one to two seconds. After
//! that, an own connection is looked up without these budgets: only its own packets can cause that.
//!
//! The cached refusal of a source with own connections has a mark. Packets that it would refuse are asked about too.

pub(crate) mod read;
pub(crate) mod socket;
mod source;
pub mod spare;
