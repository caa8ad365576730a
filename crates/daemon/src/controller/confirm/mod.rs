//! `attach --confirm`: an attach that is undone unless `ratelimit confirm` comes in time.
//!
//! The command runs itself again as a process in its own session, before the first change, so that a hangup does not
//! reach it. This process waits, and undoes the changes if no confirmation comes. It holds what cannot be recovered
//! otherwise: the program that was replaced, and the program of another owner that gave way. It recognizes its instance
//! by the seed.
//!
//! Interfaces are undone first and without the lock of the pins. The holder of the lock may be stopped, or wait for a
//! terminal that only works again when the interfaces are undone. Everything else waits for the lock. What another
//! command has changed since then stays. Failures go to the system log, because the terminal may be gone.

pub mod client;
pub mod start;
pub mod waiter;
