//! The table `[view]`: where other programs read what the daemon shows, and may change rules.

use std::path::PathBuf;

use ratelimit_base::{
    tables::{
        options,
        switch::Switch,
        table::{Table, Value},
    },
    text::path,
};

/// Where other programs read what the daemon shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// The absolute path of the socket.
    pub socket: PathBuf,
    /// The group that may read, by name or number. None is root alone.
    pub group: Option<String>,
    /// Whether the group may change rules too.
    pub changes: bool,
}

#[derive(Debug, clap::Args)]
struct ViewOptions {
    #[arg(long, value_parser = path::absolute)]
    socket: PathBuf,
    #[arg(long)]
    group: Option<String>,
    #[arg(long, value_enum, default_value = "off")]
    changes: Switch,
}

/// Reads the table.
pub(in crate::config) fn read(top: &Table<'_>) -> Option<View> {
    let table = top.get("view").and_then(Value::table)?;
    let ViewOptions { socket, group, changes } = options::read(&table, &[])?;
    Some(View { socket, group, changes: changes == Switch::On })
}
