//! Proofs of addresses in the status.

use std::io::{self, Write};

use ratelimit_common::maps::{
    control::{Control, FEATURE_PROVE_TCP},
    cpu::Cpu,
};
use ratelimit_dataplane::program::values::per_second;
use serde::Serialize;

/// How unknown sources over their rate prove their address.
#[derive(Debug, Default, Serialize)]
pub(super) struct Proofs {
    /// Sources that an established connection has proven.
    pub(super) by_connection: u64,
    /// Sources that a SYN cookie has proven.
    pub(super) by_cookie: u64,
    /// Packets whose socket was looked up.
    pub(super) looked_up: u64,
    /// Packets whose socket was not looked up, because the budget of their CPU was spent.
    pub(super) not_looked_up: u64,
    /// None if SYNs get no SYN cookies.
    pub(super) cookies: Option<Cookies>,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Cookies {
    pub(super) per_second: u64,
    pub(super) sent: u64,
    /// SYNs without an answer, because the budget was spent.
    pub(super) unsent: u64,
}

impl Proofs {
    /// Returns the proofs of an instance that has sent so many SYN cookies.
    pub(super) fn of(control: &Control, cpus: &Cpu, sent: u64) -> Self {
        let cookies = Cookies { per_second: control.proofs.per_second, sent, unsent: cpus.cookies_unsent };
        Self {
            by_connection: cpus.proven_by_connection,
            by_cookie: cpus.proven_by_cookie,
            looked_up: cpus.proofs_looked_up,
            not_looked_up: cpus.proofs_not_looked_up,
            cookies: (control.features & FEATURE_PROVE_TCP != 0).then_some(cookies),
        }
    }

    /// Writes them as text.
    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { by_connection, by_cookie, looked_up, not_looked_up, cookies } = *self;
        write!(out, "proofs of addresses: {by_connection} by connections, {by_cookie} by SYN cookies; ")?;
        write!(out, "{looked_up} packets looked up")?;
        if not_looked_up > 0 {
            write!(out, ", {not_looked_up} not looked up, because the budget was spent")?;
        }
        writeln!(out)?;
        match cookies {
            Some(Cookies { per_second: rate, sent, unsent }) => {
                writeln!(out, "SYN cookies: {} in total; {sent} sent, {unsent} not sent", per_second(rate))
            }
            None => writeln!(out, "SYN cookies: off"),
        }
    }
}
