//! The table `[view]`: where other programs read what the daemon shows.

use std::path::PathBuf;

use crate::config::{
    options,
    table::{Table, Value},
};
use crate::text::path;

/// Where other programs read what the daemon shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// The absolute path of the socket.
    pub socket: PathBuf,
    /// The group that may read, by name or number. None is root alone.
    pub group: Option<String>,
}

#[derive(Debug, clap::Args)]
struct ViewOptions {
    #[arg(long, value_parser = path::absolute)]
    socket: PathBuf,
    #[arg(long)]
    group: Option<String>,
}

/// Reads the table.
pub(in crate::config) fn read(top: &Table<'_>) -> Option<View> {
    let table = top.get("view").and_then(Value::table)?;
    let ViewOptions { socket, group } = options::read(&table, &[])?;
    Some(View { socket, group })
}
