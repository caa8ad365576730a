//! Shared output of commands: text or JSON, tables, and the exit status. What a single command prints belongs to that
//! command.

pub(crate) mod answer;
pub(crate) mod hint;
pub(crate) mod in_shadow;
pub(crate) mod list_row;
pub(crate) mod output;
pub(crate) mod policy_row;
pub(crate) mod seen;
pub(crate) mod source_row;
