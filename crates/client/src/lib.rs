//! A client of `ratelimit serve`: it asks whether a request may go on, and allows what no server decides. A tower layer
//! asks the limiter within a service instead. It must not contain anything of packets or stores, so that an application
//! compiles little; applications use it, and so does the command `ratelimit`.

#![warn(missing_docs)]

pub mod caller;
pub mod layer;
#[doc(hidden)]
pub mod wire;
