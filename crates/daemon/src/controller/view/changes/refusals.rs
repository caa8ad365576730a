//! Answers to changes that are not made.

use ratelimit_base::text::{excerpt::escaped, pasted};
use ratelimit_protocol::view::{Answer, Refusal, RefusalKind};

/// Why a ban stays.
pub(super) const BANNED: &str = "the source is banned. Only commands end a ban.";

/// Returns the answer without changes in the file.
pub(super) fn forbidden() -> Answer {
    let text = "The daemon takes no changes here. Its operator can add `changes = true` to the table [view].";
    refused(RefusalKind::Forbidden, text.to_owned())
}

pub(super) fn refused(kind: RefusalKind, text: String) -> Answer {
    Answer::Refused(Refusal { kind, text: escaped(&pasted::text(&text)) })
}

/// Returns a rule in words, if there is one.
pub(super) fn in_words(rule: Option<&str>) -> String {
    rule.map_or_else(|| "no rule".to_owned(), |words| format!("`{words}`"))
}
