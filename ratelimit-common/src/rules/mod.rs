//! Rules and their precedence. The content of a rule's policy belongs in `limits`.

pub mod ban;
pub mod comment;
pub mod list;
pub mod list_precedence;
pub mod precedence;
pub mod rule;
pub mod rule_match;
pub mod spared;
