//! What a command says about the file of a daemon.

use std::{
    io::{self, Write},
    path::Path,
};

use crate::controller::socket::client;

/// Says that a rule of the file is replaced, if a daemon runs.
pub(crate) fn of_rule(out: &mut dyn Write, pins: &Path) -> io::Result<()> {
    say(out, pins, "its file has another rule there, so change the file, too, and reload")
}

/// Says that the file decides again, if a daemon runs.
pub(crate) fn of_file(out: &mut dyn Write, pins: &Path) -> io::Result<()> {
    say(out, pins, "its file decides again at the next reload, so change the file, too")
}

/// Says that the file decides about the interfaces that it names, if a daemon runs.
pub(crate) fn of_interface(out: &mut dyn Write, pins: &Path) -> io::Result<()> {
    say(out, pins, "its file decides again at the next reload for interfaces that it names, so change the file, too")
}

fn say(out: &mut dyn Write, pins: &Path, what: &str) -> io::Result<()> {
    if client::is_listening(pins) { writeln!(out, "a daemon runs: {what}") } else { Ok(()) }
}
